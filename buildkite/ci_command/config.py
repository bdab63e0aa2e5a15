"""What an installation sets, read from the environment once and never printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

GITHUB_API = "https://api.github.com"
BUILDKITE_API = "https://api.buildkite.com"
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class ConfigError(Exception):
    """The environment lacks a setting or holds one that cannot be used; the message names it."""


@dataclass(frozen=True)
class GitHubSettings:
    """Where GitHub is and who we are there.

    Attributes:
        repository: `owner/name`.
        token: needs `issues`, `pull-requests` and `statuses` write on that repository.
        api_url: base URL of the REST API, without a trailing slash.
        bot_login: the account the token acts as; only its comments count as our own answers.

    """

    repository: str
    token: str = field(repr=False)
    api_url: str = GITHUB_API
    bot_login: str = "github-actions[bot]"


@dataclass(frozen=True)
class BuildkiteSettings:
    """Which Buildkite pipeline is driven; the token needs `read_builds` and `write_builds`."""

    organization: str
    pipeline: str
    token: str = field(repr=False)
    api_url: str = BUILDKITE_API


@dataclass(frozen=True)
class Settings:
    """Everything the comment command needs.

    Attributes:
        trusted_users: logins, lower case, that may use the commands without write access.
        ready_labels: labels that delegate the commands to the pull request's author.
        prefix: the first word of every command.
        verdict_step: key of the step that judges the others; retried whenever one of them is.

    """

    github: GitHubSettings
    buildkite: BuildkiteSettings
    trusted_users: frozenset[str] = frozenset()
    ready_labels: frozenset[str] = frozenset({"ready"})
    prefix: str = "/ci"
    verdict_step: str = "verdict"


def github_settings(env: Mapping[str, str]) -> GitHubSettings:
    """GitHub's part of the settings.

    Raises:
        ConfigError: a variable is missing, or a URL would carry the token in the clear.

    """
    values = _required(env, "GITHUB_TOKEN")
    repository = env.get("GITHUB_REPOSITORY") or env.get("DROPGATE_REPOSITORY") or ""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise ConfigError("GITHUB_REPOSITORY (or DROPGATE_REPOSITORY) must be set to owner/name")
    return GitHubSettings(
        repository=repository,
        token=values["GITHUB_TOKEN"],
        api_url=_url(env, "GITHUB_API_URL", GITHUB_API),
        bot_login=env.get("DROPGATE_BOT_LOGIN") or "github-actions[bot]",
    )


def settings(env: Mapping[str, str]) -> Settings:
    """All settings of the comment command; an empty variable counts as unset.

    Raises:
        ConfigError: a variable is missing, or a URL would carry a token in the clear.

    """
    names = ("GITHUB_TOKEN", "BUILDKITE_API_TOKEN", "BUILDKITE_ORGANIZATION", "BUILDKITE_PIPELINE")
    values = _required(env, *names)
    prefix = env.get("DROPGATE_COMMAND_PREFIX") or "/ci"
    if not re.fullmatch(r"/[\w-]+", prefix):
        raise ConfigError("DROPGATE_COMMAND_PREFIX must be one word that starts with a slash")
    return Settings(
        github=github_settings(env),
        buildkite=BuildkiteSettings(
            organization=values["BUILDKITE_ORGANIZATION"],
            pipeline=values["BUILDKITE_PIPELINE"],
            token=values["BUILDKITE_API_TOKEN"],
            api_url=_url(env, "BUILDKITE_API_URL", BUILDKITE_API),
        ),
        trusted_users=frozenset(name.lower() for name in _words(env.get("DROPGATE_TRUSTED_USERS"))),
        ready_labels=frozenset(_labels(env.get("DROPGATE_READY_LABELS"))) or frozenset({"ready"}),
        prefix=prefix,
        verdict_step=env.get("DROPGATE_VERDICT_STEP") or "verdict",
    )


def _required(env: Mapping[str, str], *names: str) -> dict[str, str]:
    values = {name: env.get(name, "").strip() for name in names}
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise ConfigError(f"not set: {', '.join(missing)}")
    return values


def _url(env: Mapping[str, str], name: str, default: str) -> str:
    value = (env.get(name) or default).rstrip("/")
    parts = urlsplit(value)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return value
    raise ConfigError(f"{name} must be an https URL")


def _words(value: str | None) -> list[str]:
    return [word.lstrip("@") for word in re.split(r"[\s,]+", value or "") if word]


def _labels(value: str | None) -> list[str]:
    # Labels may hold spaces, so only commas and line ends separate them.
    return [label.strip() for label in re.split(r"[,\n]", value or "") if label.strip()]

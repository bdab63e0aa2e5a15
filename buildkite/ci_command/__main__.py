"""Run one of the two commands: `comment` in GitHub Actions, `status` in the pipeline's verdict step.

`python -m buildkite.ci_command comment` answers the comment in GITHUB_EVENT_PATH. Exit codes:

- 0: answered, denied or ignored;
- 1: a service failed, which is also said on the pull request;
- 2: the settings or the event cannot be used.

`python -m buildkite.ci_command status --verdict fail --reason "..." --url ...`, or with
`--verdict-json evidence/*/verdict.json`, publishes the commit status. Exit codes:

- 0: published;
- 1: not published;
- 2: wrong arguments or settings;
- 75: published as invalid, because a verdict file was missing or malformed.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from pydantic import ValidationError

from buildkite.ci_command import config
from buildkite.ci_command.builds import Builds
from buildkite.ci_command.commands import Lanes
from buildkite.ci_command.config import ConfigError, GitHubSettings
from buildkite.ci_command.conversation import Conversation, Outcome
from buildkite.ci_command.github import API_VERSION, GitHub
from buildkite.ci_command.models import CommentEvent, first_problem
from buildkite.ci_command.redact import Redactor, one_line
from buildkite.ci_command.status import Verdict, combine, read, status
from buildkite.ci_command.transport import Patience, ServiceError, Transport

MAX_EVENT = 25 * 1024 * 1024  # GitHub's own limit for a webhook payload, in bytes
FAILED, UNUSABLE, INVALID = 1, 2, 75


def main(
    arguments: Sequence[str] | None = None,
    env: Mapping[str, str] = os.environ,
    out: TextIO = sys.stdout,
    patience: Patience = Patience(),  # noqa: B008 - frozen, so sharing it is harmless
) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    redact = Redactor(env.get(name, "") for name in ("GITHUB_TOKEN", "BUILDKITE_API_TOKEN"))

    def log(line: str) -> None:
        # The prefix keeps a line from being read as one of GitHub's workflow commands.
        out.write(f"dropgate-ci: {one_line(redact(line), 500)}\n")

    try:
        if options.command == "comment":
            return _comment(env, patience, redact, log)
        return _status(options, env, patience, redact, log)
    except ConfigError as error:
        log(str(error))
        return UNUSABLE


def _comment(env: Mapping[str, str], patience: Patience, redact: Redactor, log: Callable[[str], None]) -> int:
    settings = config.settings(env)
    event = _event(env)
    bk = settings.buildkite
    with (
        _github_transport(settings.github, patience, redact) as github_http,
        Transport("Buildkite", bk.api_url, bk.token, patience, redact) as buildkite_http,
    ):
        github, builds = GitHub(settings.github, github_http), Builds(bk, buildkite_http)
        outcome = Conversation(settings, github, builds, patience, log).handle(event)
    log(f"comment {event.comment.id}: {outcome.value}")
    return FAILED if outcome is Outcome.FAILED else 0


def _event(env: Mapping[str, str]) -> CommentEvent:
    path = Path(env.get("GITHUB_EVENT_PATH") or "event.json")
    try:
        with path.open("rb") as file:
            content = file.read(MAX_EVENT + 1)
    except OSError as error:
        raise ConfigError(f"the event cannot be read: {error.strerror}") from error
    if len(content) > MAX_EVENT:
        raise ConfigError(f"the event is larger than {MAX_EVENT} bytes")
    try:
        return CommentEvent.model_validate_json(content)
    except ValidationError as error:
        raise ConfigError(f"the event is malformed: {first_problem(error)}") from error


def _status(
    options: argparse.Namespace,
    env: Mapping[str, str],
    patience: Patience,
    redact: Redactor,
    log: Callable[[str], None],
) -> int:
    settings = config.github_settings(env)
    sha = options.sha or env.get("DROPGATE_HEAD_SHA") or ""
    url = options.url or env.get("BUILDKITE_BUILD_URL") or ""
    if not re.fullmatch(r"[0-9a-f]{40}", sha) or not url.startswith("http"):
        raise ConfigError("give --sha (40 digits) and --url, or set DROPGATE_HEAD_SHA and BUILDKITE_BUILD_URL")
    lanes = options.lanes or env.get("DROPGATE_LANES") or "auto"
    if lanes not in set(Lanes):
        raise ConfigError(f"DROPGATE_LANES must be one of {', '.join(Lanes)}")
    verdict, reason, readable = _verdict(options)
    try:
        with _github_transport(settings, patience, redact) as http:
            GitHub(settings, http).publish(sha, status(verdict, redact(reason), url, Lanes(lanes)))
    except ServiceError as error:
        log(f"not published: {error}")
        return FAILED
    log(f"published {verdict.value}: {reason}")
    return 0 if readable else INVALID


def _verdict(options: argparse.Namespace) -> tuple[Verdict, str, bool]:
    """Return the verdict to publish, its reason, and whether every verdict file could be read."""
    if options.verdict is not None:
        return Verdict(options.verdict), options.reason, True
    found, readable = [], bool(options.verdict_json)
    for path in map(Path, options.verdict_json):
        try:
            found.append(read(path.name, path.read_bytes()))
        except OSError as error:
            found.append((Verdict.INVALID, f"{path.name}: {error.strerror}"))
            readable = False
        except ValueError as error:
            found.append((Verdict.INVALID, str(error)))
            readable = False
    verdict, reason = combine(found)
    return verdict, reason, readable


def _github_transport(settings: GitHubSettings, patience: Patience, redact: Redactor) -> Transport:
    headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
    return Transport("GitHub", settings.api_url, settings.token, patience, redact, headers)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m buildkite.ci_command", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("comment", help="answer the comment in GITHUB_EVENT_PATH")
    publish = commands.add_parser("status", help="publish a verdict as a commit status")
    source = publish.add_mutually_exclusive_group(required=True)
    source.add_argument("--verdict", choices=[verdict.value for verdict in Verdict])
    source.add_argument("--verdict-json", nargs="*", default=[], metavar="FILE", help="the worst of these counts")
    publish.add_argument("--reason", default="", help="one line, cut at 140 characters")
    publish.add_argument("--sha", help="commit to mark; default: DROPGATE_HEAD_SHA")
    publish.add_argument("--url", help="where the evidence is; default: BUILDKITE_BUILD_URL")
    publish.add_argument("--lanes", choices=[lane.value for lane in Lanes], help="default: DROPGATE_LANES, or auto")
    return parser


if __name__ == "__main__":
    sys.exit(main())

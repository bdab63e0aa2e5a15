"""The buildkite-agent's commands that the pipeline uses; where there is no agent, a person runs this by hand."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

AGENT = "buildkite-agent"
CONTEXT = "dropgate"
"""One annotation a build: setting the same context again replaces it."""
AGENT_S = 600


class AgentError(Exception):
    """The agent did not do what was asked."""


def present() -> bool:
    """Say whether this runs in a Buildkite job."""
    return shutil.which(AGENT) is not None


def set_meta_data(key: str, value: str) -> None:
    """Save a value that every job of this build can read."""
    _run("meta-data", "set", key, text=value)


def meta_data(key: str) -> str | None:
    """Return a value of this build, None while it is not set."""
    return _run("meta-data", "get", key, "--default", "").strip() or None


def annotate(text: str, style: str) -> None:
    """Replace the build's annotation; ``style`` is success, info, warning or error."""
    _run("annotate", "--context", CONTEXT, "--style", style, text=text)


def upload_pipeline(text: str) -> None:
    """Add steps to this build; dollar signs in them are the steps' own."""
    _run("pipeline", "upload", "--no-interpolation", text=text)


def download(pattern: str, folder: Path, step: str) -> bool:
    """Fetch the artifacts of a step's latest job that fit the pattern; False when there are none."""
    try:
        _run("artifact", "download", pattern, f"{folder}/", "--step", step)
    except AgentError:
        return False
    return True


def state(step: str) -> str:
    """Return where a step is, such as running or finished; empty when the agent cannot tell."""
    return _attribute(step, "state")


def outcome(step: str) -> str:
    """Return how a step ended: passed, hard_failed, soft_failed or errored; empty when the agent cannot tell."""
    return _attribute(step, "outcome")


def _attribute(step: str, name: str) -> str:
    try:
        return _run("step", "get", name, "--step", step).strip()
    except AgentError:
        return ""


def _run(*arguments: str, text: str | None = None) -> str:
    try:
        done = subprocess.run(
            [AGENT, *arguments], input=text, capture_output=True, text=True, timeout=AGENT_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise AgentError(f"{AGENT} {' '.join(arguments[:2])}: {error}") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise AgentError(f"{AGENT} {' '.join(arguments[:2])} ended with {done.returncode}: {last}")
    return done.stdout

"""Jobs of one Buildkite build, run here: `buildkite/run.sh` with the stand-in agent that they share on PATH."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support.ci_standins import GITHUB_TOKEN, HEAD, REPOSITORY, GitHubStandIn
from tests.support.signals import heed_interrupts

AGENT = Path(__file__).resolve().parents[1] / "unit/buildkite/agent_standin.py"


class Build:
    """One build: a checkout for its jobs, empty at first, and what its agent was given."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "checkout"
        self.checkout.mkdir()
        self.agent = folder / "agent"
        self.output = ""
        script(folder / "bin/buildkite-agent", f'#!/bin/sh\nexec {sys.executable} -S -E {AGENT} "$@"\n')
        self.env = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "AGENT_STANDIN": str(self.agent),
            "DROPGATE_HEAD_SHA": HEAD,
        }

    def start(self, lane: str, **env: str) -> subprocess.Popen[str]:
        command = [str(self.checkout / "buildkite/run.sh"), lane]
        whole = {**self.env, "BUILDKITE_STEP_KEY": lane, **env}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        return subprocess.Popen(
            command, env=whole, text=True, cwd="/", start_new_session=True, preexec_fn=heed_interrupts, **pipes
        )

    def run(self, lane: str, timeout_s: float = 60, **env: str) -> int:
        process = self.start(lane, **env)
        self.output, _ = process.communicate(timeout=timeout_s)
        outcome = self.agent / "outcomes" / lane
        outcome.parent.mkdir(parents=True, exist_ok=True)
        outcome.write_text("hard_failed" if process.returncode else "passed")
        return process.returncode

    def artifacts(self, lane: str) -> dict[str, str]:
        root = self.agent / "artifacts" / lane
        return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}

    def verdict(self, lane: str, report: str) -> Any:
        return json.loads(self.artifacts(lane)[f"ci-out/{lane}/{report}/verdict.json"])


def survivors(process: subprocess.Popen[str]) -> list[list[str]]:
    """The command lines of whatever a job started that still runs: all of it is in the job's session.

    What was killed a moment ago is given a moment to be gone.
    """
    deadline = time.monotonic() + 3
    while (found := _running(process.pid)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def _running(session: int) -> list[list[str]]:
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getsid(one.pid) == session and one.status() != psutil.STATUS_ZOMBIE:
                found.append(one.cmdline())
    return found


def replay_of(github: GitHubStandIn) -> dict[str, str]:
    """What `/ci run replay` tells a build, and where its verdict step finds GitHub."""
    return {
        "DROPGATE_LANES": "replay",
        "DROPGATE_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": GITHUB_TOKEN,
        "GITHUB_API_URL": github.url,
        "BUILDKITE_BUILD_URL": "https://buildkite.com/b/1",
        "NO_PROXY": "*",
    }


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def until(condition: Callable[[], object], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)

"""Wait for lanes that run again: `/ci retry` starts them and the verdict step at once."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from buildkite.pipeline import agent

UNFINISHED = frozenset({"waiting_for_dependencies", "ready", "running", "failing"})
"""The states of a step with a job that has still to end. Source: the agent's `step get` (buildkite.com/docs)."""
DEADLINE_S = 4.5 * 3600
"""Longer than any lane may take, shorter than the verdict step itself may."""
POLL_S = 20.0


def wait_for(steps: Sequence[str], deadline_s: float = DEADLINE_S, poll_s: float = POLL_S) -> None:
    """Return when every step has ended, or at the deadline: what has not reported by then is invalid."""
    end = time.monotonic() + deadline_s
    said: list[str] = []
    while (running := [step for step in steps if agent.state(step) in UNFINISHED]) and time.monotonic() < end:
        if running != said:
            sys.stderr.write(f"dropgate-ci: waiting for {', '.join(running)}\n")
        said = running
        time.sleep(poll_s)

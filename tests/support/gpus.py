"""``pytest -m gpu``: tests of scenarios that do not fit this machine are left out, each with what is lacking."""

from __future__ import annotations

import pytest

from dropgate.ranks.place import why_not_here
from dropgate.scenario import load_scenario

LEFT = pytest.StashKey[dict[str, str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not fit; where nothing does, no test is run, which never reads as a pass."""
    left: dict[str, str] = {}
    kept, out = [], []
    for item in items:
        mark = item.get_closest_marker("scenario")
        reason = why_not_here(load_scenario(mark.args[0])) if mark else None
        if mark and reason:
            left[mark.args[0]] = reason
        (out if reason else kept).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=out)
    config.stash[LEFT] = left


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say which scenarios were left out and why, where they were asked for."""
    if "gpu" in (config.getoption("-m") or ""):
        for name, reason in config.stash.get(LEFT, {}).items():
            terminalreporter.write_line(f"left out: {name}: {reason}")

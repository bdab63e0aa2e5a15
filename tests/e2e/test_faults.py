"""Real engines broken on purpose, one way of each kind at least; `make kill-matrix` tries all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dropgate.selftest.bench import Bench
from dropgate.selftest.matrix import chosen, run_rows, told
from dropgate.selftest.rows import ROWS

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("faults")]


def test_what_is_broken_is_caught_and_named(tmp_path: Path) -> None:
    """Each fault gets its verdict from the check that must name it, on engines that pass before and after."""
    said: list[str] = []
    rows = chosen((), short=True)
    with Bench(tmp_path).booted({row.work for row in rows}) as bench:
        outcomes = list(run_rows(bench, rows, said.append))
    assert [told(outcome) for outcome in outcomes if outcome.problem] == []
    assert {outcome.row.kind for outcome in outcomes} == {row.kind for row in ROWS} - {"times"}
    assert len(outcomes) >= 10

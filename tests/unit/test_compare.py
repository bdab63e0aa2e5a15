"""Two runs side by side: counts exactly, only of the same work; times never between machines."""

from pathlib import Path

import pytest

from dropgate.cli import main
from dropgate.evidence import Evidence
from tests.support import factory, large

ROOT = Path(__file__).resolve().parents[2]
CLEAN = str(ROOT / "fixtures" / "recorded" / "clean")


def saved(whole: Evidence, folder: Path) -> str:
    return str(large.save(whole, folder))


def test_a_run_is_as_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", CLEAN, CLEAN]) == 0
    output = capsys.readouterr().out
    assert "8 of 8 counts are the same" in output
    assert "prefix cache: mean TTFT, ms" in output
    assert max(map(len, output.splitlines()[2:])) <= 100


def test_a_count_that_differs_is_a_failure_and_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = saved(factory.evidence(), tmp_path / "good")
    bad = saved(factory.evidence(candidate=factory.seen("baseline")), tmp_path / "bad")
    assert main(["compare", good, bad]) == 1
    output = capsys.readouterr().out
    line = next(line for line in output.splitlines() if "cached tokens per request" in line and "candidate" in line)
    assert line.split()[-3:] == ["4,608", "3,072", "differs"]


def test_other_work_proves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", CLEAN, saved(factory.evidence(), tmp_path / "small")]) == 75
    output = capsys.readouterr().out
    assert "other work" in output
    assert "TTFT" not in output


def test_times_of_two_machines_are_not_laid_side_by_side(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = factory.evidence()
    there = here.model_copy(update={"host": {"cpus": 64, "processor": "another"}})
    assert main(["compare", saved(here, tmp_path / "a"), saved(there, tmp_path / "b")]) == 0
    output = capsys.readouterr().out
    assert "The machines differ" in output
    line = next(line for line in output.splitlines() if "mean TTFT" in line)
    assert line.split()[-2:] == ["+0.0%", "+0.0%"]

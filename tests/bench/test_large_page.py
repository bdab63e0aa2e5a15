"""How large and how slow the page is: within bounds for a usual run, and for a hundred thousand requests."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import large

MIB = 1024**2
BYTES = 3_000_000


def report(folder: Path) -> tuple[float, float]:
    """Run `dropgate report`; return its processor time, as the machine may be busy, and its peak memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "dropgate.cli", "report", folder], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak_mib = after.ru_maxrss / 1024
    size = (folder / "report.html").stat().st_size
    sys.stdout.write(f"{took_s:.1f} s, {peak_mib:,.0f} MiB, page of {size / MIB:.2f} MiB\n")
    assert size < BYTES
    return took_s, peak_mib


def test_a_usual_run_takes_less_than_five_seconds(tmp_path: Path) -> None:
    folder = large.save(large.evidence(1_319, 160), tmp_path / "run")
    report(folder)  # imports are compiled once
    took_s, _ = report(folder)
    assert took_s < 5


@pytest.mark.slow
def test_a_hundred_thousand_requests_take_less_than_a_minute_and_two_gib(tmp_path: Path) -> None:
    folder = large.save(large.evidence(1_319, 100_000), tmp_path / "run")
    took_s, peak_mib = report(folder)
    assert took_s < 60
    assert peak_mib < 2048
    assert "the mean of 50 requests in a row" in (folder / "report.html").read_text()

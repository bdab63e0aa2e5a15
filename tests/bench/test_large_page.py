"""How large and how slow the page is: within bounds for a usual run, and for a hundred thousand requests."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import large

MIB = 1024**2


@pytest.mark.slow
def test_a_hundred_thousand_requests_take_less_than_a_minute_and_two_gib(tmp_path: Path) -> None:
    folder = large.save(large.evidence(1_319, 100_000), tmp_path / "run")
    began_s = time.monotonic()
    subprocess.run([sys.executable, "-m", "dropgate.cli", "report", folder], check=True, capture_output=True)
    took_s = time.monotonic() - began_s
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    size = (folder / "report.html").stat().st_size
    sys.stdout.write(f"{took_s:.1f} s, {peak / MIB:,.0f} MiB, page of {size / MIB:.2f} MiB\n")
    assert took_s < 60
    assert peak < 2048 * MIB
    assert size < 3_000_000
    assert "the mean of 25 requests in a row" in (folder / "report.html").read_text()

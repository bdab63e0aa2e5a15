"""A skip never reads as a pass where the mark was required."""

import subprocess
import sys

import pytest

from tests.support.engines import ROOT


@pytest.mark.parametrize(("arguments", "code"), [([], 0), (["--require", "gpu"], 75)])
def test_without_the_hardware_gpu_tests_skip_and_required_ones_are_invalid(arguments: list[str], code: int) -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/e2e/test_gpu.py",
        "-m",
        "gpu",
        "-q",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert "hardware: kimi_k3_dspark_gb300 needs 2 nodes of 4 x GB300; this is one" in result.stdout
    assert result.returncode == code, result.stdout + result.stderr
    assert ("INVALID: --require gpu: 0 ran, 1 skipped" in result.stdout) == bool(arguments)

"""What was left out or skipped never reads as a pass, and not at all where the mark was required."""

import os
import subprocess
import sys

import pytest

from tests.support.engines import ROOT


@pytest.mark.parametrize(("arguments", "code"), [([], 5), (["--require", "gpu"], 75)])
def test_where_no_scenario_fits_each_is_left_out_with_its_reason(arguments: list[str], code: int) -> None:
    command = [sys.executable, "-m", "pytest", "tests/e2e/test_gpu.py", "-m", "gpu", "-q", "-p", "no:cacheprovider"]
    blind = {name: value for name, value in os.environ.items() if name != "NODE_RANK"} | {"CUDA_VISIBLE_DEVICES": ""}
    result = subprocess.run([*command, *arguments], cwd=ROOT, env=blind, capture_output=True, text=True, timeout=120)
    assert "left out: kimi_k3_dspark_gb300: needs 2 nodes of 4 x GB300; which one this is" in result.stdout
    assert "left out: qwen3_8b_eagle3: needs 1 x GPU with 22 GiB; this machine has none" in result.stdout
    assert result.returncode == code, result.stdout + result.stderr
    assert ("INVALID: --require gpu: 0 ran, 0 skipped" in result.stdout) == bool(arguments)

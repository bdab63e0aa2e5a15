"""``pytest -m gpu``: every scenario whose hardware is here; the others are left out, and what they lack is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from dropgate.scenario import SCENARIOS, load_scenario
from tests.support.engines import run_dropgate

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
LOADED = [load_scenario(path.stem) for path in sorted(SCENARIOS.glob("*.yaml"))]
GPU_SCENARIOS = [
    pytest.param(one.name, marks=[pytest.mark.scenario(one.name), *([pytest.mark.nodes] if one.ranks > 1 else [])])
    for one in LOADED
    if one.needs.gpus_per_node
]


@pytest.mark.parametrize("name", GPU_SCENARIOS)
def test_the_promises_hold_on_gpus(name: str, tmp_path: Path) -> None:
    """The scenario passes on the hardware that it names; over several nodes, this is run on each of them."""
    result = run_dropgate("run", name, "--out", str(tmp_path / "out"), timeout=4 * 3600)
    assert result.returncode == 0, result.stdout + result.stderr

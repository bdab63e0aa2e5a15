"""``pytest -m gpu``: every scenario whose hardware is here; the others say what they lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from dropgate.host import unmet_need
from dropgate.scenario import SCENARIOS, load_scenario
from tests.support.engines import run_dropgate

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
SCENARIO_NEEDS = {path.stem: load_scenario(path.stem).needs for path in sorted(SCENARIOS.glob("*.yaml"))}
GPU_SCENARIOS = [
    pytest.param(name, marks=[pytest.mark.nodes] if needs.nodes > 1 else [])
    for name, needs in SCENARIO_NEEDS.items()
    if needs.gpus_per_node
]


@pytest.mark.parametrize("name", GPU_SCENARIOS)
def test_the_promises_hold_on_gpus(name: str, tmp_path: Path) -> None:
    """The scenario passes on the hardware that it names."""
    if lacking := unmet_need(load_scenario(name).needs):
        pytest.skip(f"hardware: {name} {lacking}")
    result = run_dropgate("run", name, "--out", str(tmp_path / "out"), timeout=4 * 3600)
    assert result.returncode == 0, result.stdout + result.stderr

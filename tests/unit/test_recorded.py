"""Recorded evidence is judged as it was when it was recorded."""

import json
from pathlib import Path

import pytest

from dropgate.evidence_folder import load_evidence
from dropgate.judge import judge

RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "recorded"
CASES = sorted(path.parent.name for path in RECORDED.glob("*/evidence.json"))


def test_a_pass_and_a_failure_are_recorded() -> None:
    assert {"clean", "option_ignored"} <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_is_the_recorded_one(case: str) -> None:
    stated = json.loads((RECORDED / case / "verdict.json").read_text())
    judgement = judge(load_evidence(RECORDED / case))
    assert judgement.verdict == stated["verdict"]
    assert {check.name: check.verdict for check in judgement.checks} == {
        check["name"]: check["verdict"] for check in stated["checks"]
    }
    assert json.loads(json.dumps(judgement.metrics)) == stated["metrics"]

"""A/A: two servers that both drop the block are never told apart, whatever is asked. `make false-alarms N=20`."""

import os
from pathlib import Path

import pytest

from dropgate.console import Narrator
from dropgate.engine.interpreter import describe_engine
from dropgate.engine.server import Server, wait_ready
from dropgate.judge import Verdict, judge
from dropgate.law import VariantName
from dropgate.scenario import load_scenario
from dropgate.variants import variant
from dropgate.workload.questions import GENERATED, Questions, load_questions
from tests.e2e.test_acceptance import GSM8K
from tests.support.engines import measured, tokenised

pytestmark = [pytest.mark.cpu, pytest.mark.slow, pytest.mark.xdist_group("engines")]
RUNS = int(os.environ.get("N", "20"))
COUNT = 60
SIZES = (
    "variants.candidate={}",
    f"workloads.gsm8k.questions={COUNT}",
    "workloads.gsm8k.control=8",
    "workloads.gsm8k.warm_control=24",
    "workloads.gsm8k.oracle=0",
    "promises=[{kind: acceptance, path: cold, margin_pp: 1.0}, {kind: acceptance, path: hit, margin_pp: 1.5}, "
    "{kind: same_answers}]",
)


def test_no_false_alarm(engines: dict[VariantName, Server], tmp_path: Path) -> None:
    """Every run asks other questions, so that no two have the same ties."""
    scenario = load_scenario("tiny_eagle3_cpu_gsm8k", SIZES)
    rows = load_questions(GSM8K if GSM8K.is_file() else GENERATED).rows
    odd = []
    with Server(scenario, variant(scenario, "candidate"), describe_engine().python, tmp_path / "log") as other:
        wait_ready([other])
        servers = {"baseline": engines["baseline"], "candidate": other}
        for number in range(RUNS):
            start = number * COUNT % (len(rows) - COUNT)
            asked = tokenised(other, scenario, Questions("a slice", rows[start : start + COUNT]))
            judgement = judge(measured(servers, scenario, dict.fromkeys(servers, asked)))
            identity = judgement.promises[-1]
            said = {key: identity.get(key) for key in ("divergent", "ties", "control_divergent")}
            Narrator().say(f"run {number + 1} of {RUNS}: {judgement.verdict} {said}")
            odd += [(number, check) for check in judgement.checks if check.verdict is not Verdict.PASS]
    assert odd == []

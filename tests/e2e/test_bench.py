"""``vllm bench serve`` and the built-in client, on the same real engines, give the same counts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dropgate.engine.interpreter import describe_engine
from dropgate.engine.server import Server
from dropgate.evidence import COLD_PHASE, Evidence, PhaseEvidence, ReferenceRates
from dropgate.judge import Judgement, Verdict, judge
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.measure import measure_by_bench
from dropgate.scenario import Scenario, load_scenario
from dropgate.workload.bench import DATASET, BenchPlan, gsm8k_bench, prefix_bench
from dropgate.workload.questions import generated_questions, sharegpt
from tests.support.engines import SMALL, Measure, measured, tokenised

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
Engines = dict[VariantName, Server]
BENCH = load_scenario("tiny_eagle3_cpu", (*SMALL, "workloads.prefix.driver=bench"))
PREFIX_COUNTS = ("requests", "cached_tokens_total", "computed_tokens_total", "cached_tokens_per_request")
COUNTS = ("prompts", "steps", "draft_tokens", "accepted_tokens", "per_position", "computed_tokens_total")
BAND = "{kind: acceptance_band, path: cold, tolerance_pp: 0.001, reference: tiny_eagle3_cpu_gsm8k}"
ASKED = ("workloads.gsm8k.questions=24", "workloads.gsm8k.control=0", "workloads.gsm8k.warm_control=0")
TOTALS = (*ASKED, "workloads.gsm8k.oracle=0", f"promises=[{BAND}, {{kind: hit_path_law}}]")
QUESTIONS = load_scenario("tiny_eagle3_cpu_gsm8k", TOTALS)
QUESTIONS_BY_BENCH = load_scenario("tiny_eagle3_cpu_gsm8k", (*TOTALS, "workloads.gsm8k.driver=bench"))


def by_bench(server: Server, scenario: Scenario, plan: BenchPlan, folder: Path) -> PhaseEvidence:
    folder.mkdir()
    return measure_by_bench(server, scenario, plan, time.monotonic, describe_engine().python, folder)


def replaced(seen: Evidence, scenario: Scenario, name: str, phases: dict[VariantName, PhaseEvidence]) -> Evidence:
    """Return a run with one of its phases as another client sent it."""
    variants = {
        variant: one.model_copy(update={"phases": {**one.phases, name: phases[variant]}})
        for variant, one in seen.variants.items()
    }
    return seen.model_copy(update={"scenario": scenario, "variants": variants})


def odd(judgement: Judgement) -> list[object]:
    return [check for check in judgement.checks if check.verdict is not Verdict.PASS]


def test_both_drivers_give_scenario_as_counts(engines: Engines, measure: Measure, tmp_path: Path) -> None:
    """The bench's own JSON agrees with the counters, and the counters with the client's."""
    assert BENCH.workloads.prefix
    plan = prefix_bench(BENCH.workloads.prefix)
    by_client = measure(engines["baseline"], engines["candidate"])
    phases = {name: by_bench(engines[name], BENCH, plan, tmp_path / name) for name in VARIANT_NAMES}
    theirs, ours = judge(replaced(by_client, BENCH, "prefix", phases)), judge(by_client)
    assert odd(theirs) == []
    for name in VARIANT_NAMES:
        assert [theirs.metrics[name][count] for count in PREFIX_COUNTS] == [
            ours.metrics[name][count] for count in PREFIX_COUNTS
        ]


def test_both_drivers_give_scenario_bs_counts(engines: Engines, tmp_path: Path) -> None:
    """The published ShareGPT run sums up what the counters say, and the client's counters say the same."""
    work, data = QUESTIONS_BY_BENCH.workloads.gsm8k, generated_questions()
    assert work
    asked = tokenised(engines["baseline"], QUESTIONS, data)
    by_client = measured(dict(engines), QUESTIONS, dict.fromkeys(engines, asked))
    ours = judge(by_client).metrics
    rates = {COLD_PHASE: {name: ours[name][COLD_PHASE]["rate"] for name in VARIANT_NAMES}}
    by_client = by_client.model_copy(update={"reference_rates": ReferenceRates(name="client", origin={}, rates=rates)})
    dataset = tmp_path / DATASET
    dataset.write_text(sharegpt(data, work.template))
    plan = gsm8k_bench(work, asked, dataset)
    phases = {name: by_bench(engines[name], QUESTIONS_BY_BENCH, plan, tmp_path / name) for name in VARIANT_NAMES}
    theirs = judge(replaced(by_client, QUESTIONS_BY_BENCH, COLD_PHASE, phases))
    assert odd(theirs) == []
    for name in VARIANT_NAMES:
        assert [theirs.metrics[name][COLD_PHASE][count] for count in COUNTS] == [
            ours[name][COLD_PHASE][count] for count in COUNTS
        ]

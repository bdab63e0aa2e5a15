"""`vllm bench serve` as the client: the arguments are the published ones, and what it says is held to the counters."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dropgate.compare import load_side
from dropgate.errors import InputError
from dropgate.evidence import BenchEvidence, BenchRun, Evidence, PhaseEvidence, QuestionSet
from dropgate.evidence_folder import EvidenceFolder, load_evidence
from dropgate.judge import Judgement, Verdict, judge
from dropgate.law import VARIANT_NAMES, expected_hit
from dropgate.report.html import html_report
from dropgate.scenario import load_scenario
from dropgate.workload.bench import Finished, bench_arguments, gsm8k_bench, prefix_bench, run_bench
from dropgate.workload.client import Target
from tests.support import gsm8k_factory
from tests.support.factory import LENGTH, SIZES, Counters, evidence, seen

BENCH = load_scenario("tiny_eagle3_cpu", (*SIZES, "workloads.prefix.driver=bench"))
# As the authors of the option published them (vLLM pull request 53388).
PUBLISHED_SERVER = """
bench serve --backend openai --base-url http://10.0.0.1:8000
  --model moonshotai/Kimi-K3 --tokenizer moonshotai/Kimi-K3 --trust-remote-code
"""
PUBLISHED_A = """
  --dataset-name prefix_repetition --num-prompts 160
  --prefix-repetition-prefix-len 12288 --prefix-repetition-suffix-len 256
  --prefix-repetition-num-prefixes 1 --prefix-repetition-output-len 1
  --disable-shuffle --request-rate inf --max-concurrency 16 --temperature 0 --ignore-eos
  --percentile-metrics ttft,e2el --metric-percentiles 50,90,99
"""
PUBLISHED_B = """
  --dataset-name sharegpt --dataset-path gsm8k-test-sharegpt.json
  --sharegpt-output-len 256 --num-prompts 1319 --no-oversample --disable-shuffle
  --request-rate inf --max-concurrency 16 --temperature 0
  --percentile-metrics ttft,tpot,e2el --metric-percentiles 50,90,99
"""
ASKED = QuestionSet(name="q", rows=1, sha256="d" * 64, warm_up_token_ids=[5, 6], token_ids=[[1]])


@pytest.mark.parametrize("part", ["A", "B"])
def test_the_arguments_are_the_published_ones_then_the_gates_own(part: str) -> None:
    scenario = load_scenario("kimi_k3_dspark_gb300")
    prefix, gsm8k = scenario.workloads.prefix, scenario.workloads.gsm8k
    assert prefix
    assert gsm8k
    plan = prefix_bench(prefix) if part == "A" else gsm8k_bench(gsm8k, ASKED, Path("gsm8k-test-sharegpt.json"))
    said = bench_arguments(scenario, Target("http://10.0.0.1:8000", "nonce", 60, lambda: 0.0), plan.arguments, 7)
    published = shlex.split(PUBLISHED_SERVER + (PUBLISHED_A if part == "A" else PUBLISHED_B))
    assert said[: len(published)] == published
    assert said[len(published) :] == [
        *("--served-model-name", "nonce", "--seed", "7", "--save-result", "--save-detailed"),
    ]


def test_bench_populates_one_prefix_only() -> None:
    with pytest.raises(InputError, match="driver: bench can populate one prefix, not 2"):
        load_scenario("tiny_eagle3_cpu", ("workloads.prefix.driver=bench", "workloads.prefix.prefixes=2"))


def run_of(count: int, own: int = 0, **changes: Any) -> BenchRun:
    result = {
        "completed": count,
        "failed": 0,
        "total_input_tokens": count * LENGTH,
        "total_output_tokens": count,
        "input_lens": [LENGTH] * count,
        "output_lens": [1] * count,
        "errors": [""] * count,
        "generated_texts": ["a"] * count,
        "ttfts": [0.5] * count,
        "request_throughput": 3.0,
        "duration": 2.0,
    }
    return BenchRun(command=["vllm", "bench", "serve"], own_requests=own, result={**result, **changes})


def by_bench(timed: BenchRun | None = None, own_counted: int = 0, populate: BenchRun | None = None) -> Evidence:
    """Return a healthy run that the bench sent; the baseline's timed part may be another."""
    whole = evidence()
    variants = {}
    for name in VARIANT_NAMES:
        healthy = seen(name)
        run = timed if timed and name == "baseline" else run_of(6)
        hit = expected_hit(LENGTH, LENGTH, 1536, name)
        extra = own_counted if name == "baseline" else 0
        after = replace(
            healthy.after,
            prompt=healthy.after.prompt + extra * LENGTH,
            computed=healthy.after.computed + extra * (LENGTH - hit),
            hit=healthy.after.hit + extra * hit,
            queries=healthy.after.queries + extra * LENGTH,
            hits=healthy.after.hits + extra * hit,
            length=healthy.after.length + extra,
            generated=healthy.after.generated + extra,
        )
        phase = replace(healthy, after=after, requests=[], populate=[], control=()).phase()
        bench = BenchEvidence(timed=run, populate=populate or run_of(1), metrics_reset=Counters().text())
        bench_phase = phase.model_copy(update={"bench": bench})
        variants[name] = whole.variants[name].model_copy(update={"phases": {"prefix": bench_phase}})
    return whole.model_copy(update={"scenario": BENCH, "variants": variants})


def odd(judgement: Judgement) -> dict[str, str]:
    return {check.name: check.seen for check in judgement.checks if check.verdict is not Verdict.PASS}


def test_a_healthy_run_passes_with_the_tables_numbers() -> None:
    judgement = judge(by_bench())
    assert odd(judgement) == {}
    assert judgement.metrics["delta"]["cached_tokens_per_request"] == 1536
    assert judgement.metrics["baseline"]["ttft_ms"]["p50"] == 500
    assert judgement.metrics["baseline"]["request_throughput"] == 3.0


def test_a_ready_request_of_its_own_is_accounted_for() -> None:
    assert odd(judge(by_bench(run_of(6, own=1), own_counted=1))) == {}
    uncounted = odd(judge(by_bench(run_of(6, own=0), own_counted=1)))
    assert uncounted["prefix.baseline.bench_requests"] == "7 that the server finished (length)"


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"completed": 5, "failed": 1, "errors": ["", "boom", "", "", "", ""]}, "requests_complete"),
        ({"input_lens": [LENGTH] * 5 + [LENGTH + 2]}, "requests_complete"),
        ({"output_lens": [1] * 5 + [0]}, "requests_complete"),
        ({"input_lens": None}, "requests_complete"),
        ({"total_input_tokens": 6 * LENGTH - 3}, "bench_prompt_tokens"),
        ({"total_input_tokens": None}, "bench_prompt_tokens"),
        ({"total_output_tokens": 5}, "bench_output_tokens"),
        ({"completed": None}, "bench_requests"),
    ],
)
def test_what_the_bench_says_must_agree_with_the_counters(changes: dict[str, Any], check: str) -> None:
    judgement = judge(by_bench(run_of(6, **changes)))
    assert judgement.verdict is Verdict.INVALID
    assert f"prefix.baseline.{check}" in odd(judgement)


def test_a_populating_request_that_hit_something_is_invalid() -> None:
    judgement = judge(by_bench(populate=run_of(1, own=1)))
    assert judgement.verdict is Verdict.INVALID
    assert "prefix.baseline.populated_cold" in odd(judgement)


def test_an_option_without_effect_fails() -> None:
    both = by_bench()
    variants = {**both.variants, "candidate": both.variants["baseline"]}
    judgement = judge(both.model_copy(update={"variants": variants}))
    assert judgement.verdict is Verdict.FAIL
    assert odd(judgement)["prefix.delta.cached_tokens_total"] == "0"


def test_texts_that_differ_are_invalid_since_no_margin_tells_a_tie() -> None:
    judgement = judge(by_bench(run_of(6, generated_texts=["a"] * 5 + ["b"])))
    assert judgement.verdict is Verdict.INVALID
    assert "1 of 6 differ, the first is #5" in odd(judgement)["outputs.identical"]


def test_evidence_of_another_driver_than_the_scenarios_is_invalid() -> None:
    judgement = judge(evidence().model_copy(update={"scenario": BENCH}))
    assert odd(judgement)["prefix.baseline.driver"] == "another"


def saved(run: Evidence, folder: Path) -> Path:
    out = EvidenceFolder(folder)
    for name, one in run.variants.items():
        out.save_phase(name, "prefix", one.phases["prefix"])
    out.close(run)
    return folder


def test_what_the_bench_saved_is_evidence(tmp_path: Path) -> None:
    whole = by_bench(run_of(6, own=1), own_counted=1)
    assert load_evidence(saved(whole, tmp_path / "out")).variants == whole.variants


def test_runs_are_of_the_same_work_where_the_bench_was_told_the_same(tmp_path: Path) -> None:
    told = ["vllm", "bench", "serve", "--num-prompts", "6", "--base-url"]
    others = {"same": [*told, "http://elsewhere"], "other": ["vllm", "bench", "serve", "--num-prompts", "7"]}
    first = by_bench(run_of(6).model_copy(update={"command": [*told, "http://here"]}))
    works = {"first": load_side(saved(first, tmp_path / "first")).work}
    for name, command in others.items():
        run = by_bench(run_of(6).model_copy(update={"command": command}))
        works[name] = load_side(saved(run, tmp_path / name)).work
    assert works["same"] == works["first"] != works["other"]


class Idle:
    """A server whose counters stand still."""

    def metrics_text(self) -> str:
        return Counters().text()

    def reset_prefix_cache(self) -> bool:
        return True


def test_the_bench_is_run_twice_first_with_the_populating_prompt_alone() -> None:
    said: dict[str, list[str]] = {}

    def execute(name: str, arguments: list[str]) -> Finished:
        said[name] = arguments
        printed = "Initial test run completed.\nWarming up with 2 requests...\n" if "timed" in name else "Skipping"
        return Finished(["vllm", *arguments], json.dumps(run_of(6).result), printed)

    assert BENCH.workloads.prefix
    plan = prefix_bench(BENCH.workloads.prefix)
    phase = run_bench(Idle(), Target("http://x", "nonce", 60, lambda: 10.0), BENCH, plan, execute)
    counts = [said[name][said[name].index("--num-prompts") + 1] for name in ("prefix-populate", "prefix-timed")]
    assert counts == ["1", "6"]
    assert phase.bench is not None
    assert phase.bench.populate is not None
    assert (phase.bench.populate.own_requests, phase.bench.timed.own_requests) == (0, 3)
    assert (phase.started_s, phase.finished_s) == (8.0, 10.0)


TOTALS_ALONE = (
    "workloads.gsm8k.driver=bench",
    "promises=[{kind: acceptance, path: hit, margin_pp: 3.0}, {kind: hit_path_law}, "
    "{kind: acceptance_band, path: cold, tolerance_pp: 2.0, reference: tiny_eagle3_cpu_gsm8k}, {kind: same_answers}]",
)


def questions_by_bench(**changes: Any) -> Evidence:
    """Return a healthy run of scenario B whose cold path the bench sent; the baseline's summary may be another."""
    whole = gsm8k_factory.evidence()
    variants = {}
    for name, one in whole.variants.items():
        phases = dict(one.phases)
        cold = phases.pop("acceptance")
        if name != "oracle":
            phases["acceptance"] = _as_sent_by_bench(cold, **(changes if name == "baseline" else {}))
        variants[name] = one.model_copy(update={"phases": phases})
    scenario = load_scenario("tiny_eagle3_cpu_gsm8k", (*gsm8k_factory.SIZES[:-1], *TOTALS_ALONE))
    return whole.model_copy(update={"scenario": scenario, "variants": variants})


def _as_sent_by_bench(phase: PhaseEvidence, **changes: Any) -> PhaseEvidence:
    records = phase.requests
    steps = [record.steps_accepted or [] for record in records]
    result = {
        "completed": len(records),
        "failed": 0,
        "total_input_tokens": sum(record.prompt_tokens_sent for record in records),
        "total_output_tokens": sum(len(record.token_ids) for record in records),
        "input_lens": [record.prompt_tokens_sent for record in records],
        "output_lens": [len(record.token_ids) for record in records],
        "errors": [""] * len(records),
        "duration": 2.0,
        "spec_decode_num_drafts": sum(map(len, steps)),
        "spec_decode_draft_tokens": sum(sum(record.steps_drafted or []) for record in records),
        "spec_decode_accepted_tokens": sum(map(sum, steps)),
    }
    run = BenchRun(command=["vllm", "bench", "serve"], own_requests=0, result={**result, **changes})
    return phase.model_copy(
        update={"requests": [], "control": [], "warm_control": [], "bench": BenchEvidence(timed=run)}
    )


def test_scenario_b_by_bench_passes_with_the_tables_numbers() -> None:
    judgement = judge(questions_by_bench())
    assert odd(judgement) == {}
    by_client = judge(gsm8k_factory.evidence())
    for count in ("prompts", "steps", "draft_tokens", "accepted_tokens", "rate", "per_position"):
        for name in VARIANT_NAMES:
            assert judgement.metrics[name]["acceptance"][count] == by_client.metrics[name]["acceptance"][count]
    assert "acceptance.baseline.band" in {check.name for check in judgement.checks}
    assert "acceptance_hit_path.answers.baseline_candidate" in {check.name for check in judgement.checks}
    assert "acceptance rate" in html_report(questions_by_bench(), judgement, None)


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"completed": 59, "failed": 1}, "requests_complete"),
        ({"input_lens": [101] * 60}, "requests_complete"),
        ({"output_lens": [1] * 60}, "requests_complete"),
        ({"output_lens": [257] * 60}, "requests_complete"),
        ({"total_output_tokens": 1}, "bench_output_tokens"),
        ({"spec_decode_num_drafts": 599}, "bench_num_drafts"),
        ({"spec_decode_draft_tokens": None}, "bench_draft_tokens"),
        ({"spec_decode_accepted_tokens": 1}, "bench_accepted_tokens"),
    ],
)
def test_scenario_bs_summary_must_agree_with_the_counters(changes: dict[str, Any], check: str) -> None:
    judgement = judge(questions_by_bench(**changes))
    assert judgement.verdict is Verdict.INVALID
    assert f"acceptance.baseline.{check}" in odd(judgement)


def test_what_needs_single_prompts_is_refused_with_totals_alone() -> None:
    with pytest.raises(InputError, match="acceptance on the cold path is judged prompt by prompt"):
        load_scenario("tiny_eagle3_cpu_gsm8k", ("workloads.gsm8k.driver=bench",))


def changed(run: Evidence, **changes: Any) -> Evidence:
    """Return a run of scenario B whose candidate's cold phase is another."""
    candidate = run.variants["candidate"]
    phases = {**candidate.phases, "acceptance": candidate.phases["acceptance"].model_copy(update=changes)}
    return run.model_copy(
        update={"variants": {**run.variants, "candidate": candidate.model_copy(update={"phases": phases})}}
    )


def test_a_hit_on_the_cold_path_and_another_command_are_seen() -> None:
    run = questions_by_bench()
    cold = run.variants["candidate"].phases["acceptance"]
    assert cold.bench
    name = 'vllm:prefix_cache_hits_total{engine="0",model_name="m"}'
    warm = cold.metrics_after.replace(f"{name} 0.0", f"{name} 128.0")
    assert odd(judge(changed(run, metrics_after=warm)))["acceptance.pair.cold_path"] == (
        "0 in the baseline, 128 in the candidate"
    )
    timed = cold.bench.timed.model_copy(update={"command": ["vllm", "bench", "serve", "--num-prompts", "59"]})
    other = changed(run, bench=BenchEvidence(timed=timed))
    assert odd(judge(other))["acceptance.pair.same_work"] == "two"


def test_a_rate_that_left_the_band_fails_and_impossible_counters_too() -> None:
    run = questions_by_bench()
    low = run.model_copy(update={"reference_rates": gsm8k_factory.rates(0.9)})
    assert judge(low).verdict is Verdict.FAIL
    cold = run.variants["candidate"].phases["acceptance"]
    name = 'vllm:prefix_cache_queries_total{engine="0",model_name="m"}'
    before = next(line for line in cold.metrics_after.splitlines() if line.startswith(name))
    fewer = cold.metrics_after.replace(before, f"{name} 101.0")
    assert odd(judge(changed(run, metrics_after=fewer)))["acceptance.candidate.queries_are_prompt_tokens"] == "1"

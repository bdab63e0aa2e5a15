"""Scenarios A and B sent by ``vllm bench serve`` in place of the gate's own client: what it is told, and what it says.

It sends text, which the server tokenises, and keeps no token ids and no cached tokens of single requests. What it
reports is evidence, to be held against the server's counters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from dropgate.evidence import COLD_PHASE, BenchEvidence, BenchRun, PhaseEvidence, QuestionSet
from dropgate.scenario import Scenario
from dropgate.scenario.workloads import Gsm8k, PrefixRepetition
from dropgate.workload.client import Sampling, Target, send_all
from dropgate.workload.prompts import Prompt
from dropgate.workload.protocol import ServesPrefixes, settled_metrics

READY = "Initial test run completed."
WARMUPS = re.compile(r"^Warming up with (\d+) requests", re.MULTILINE)
DATASET = "gsm8k-test-sharegpt.json"
UNTIMED = Sampling(output_tokens=1, ignore_eos=True)
"""An untimed request is sent for its prompt alone."""


@dataclass(frozen=True)
class BenchPlan:
    """What ``vllm bench serve`` sends to one server in one phase."""

    name: str
    """Of its files."""
    arguments: list[str]
    """Those of the work, as its authors gave them."""
    requests: int
    seed: int = 0
    own_populate: list[str] | None = None
    """Arguments with which the bench itself sends the untimed request."""
    populate: list[Prompt] = field(default_factory=list)
    """Untimed prompts that the gate's own client sends."""


@dataclass(frozen=True)
class Finished:
    """A bench that has ended well."""

    command: list[str]
    result: str
    """The JSON that it saved."""
    said: str
    """What it printed."""


Execute = Callable[[str, list[str]], Finished]
"""Runs ``vllm`` with these arguments to its end, under a name for its log; the folder of its result is added."""


def prefix_bench(work: PrefixRepetition) -> BenchPlan:
    """Return scenario A's work.

    The populating request is the bench's own first one: with one prompt and the same seed it sends what it sends first.
    """
    return BenchPlan(
        name="prefix",
        arguments=_prefix_arguments(work, work.requests),
        requests=work.requests,
        seed=work.seed,
        own_populate=_prefix_arguments(work, work.prefixes) if work.populate else None,
    )


def _prefix_arguments(work: PrefixRepetition, prompts: int) -> list[str]:
    return [
        *("--dataset-name", "prefix_repetition", "--num-prompts", str(prompts)),
        *("--prefix-repetition-prefix-len", str(work.prefix_tokens)),
        *("--prefix-repetition-suffix-len", str(work.suffix_tokens)),
        *("--prefix-repetition-num-prefixes", str(work.prefixes)),
        *("--prefix-repetition-output-len", str(work.output_tokens), "--disable-shuffle"),
        *(*_load(work.concurrency), "--ignore-eos"),
        *("--percentile-metrics", "ttft,e2el", "--metric-percentiles", "50,90,99"),
    ]


def gsm8k_bench(work: Gsm8k, questions: QuestionSet, dataset: Path) -> BenchPlan:
    """Return scenario B's cold path: the questions in ``dataset``, as ``dropgate export-gsm8k`` writes them.

    The untimed request is a problem that is not asked, as the built-in client sends it.
    """
    arguments = [
        *("--dataset-name", "sharegpt", "--dataset-path", str(dataset)),
        *("--sharegpt-output-len", str(work.output_tokens), "--num-prompts", str(work.questions)),
        *("--no-oversample", "--disable-shuffle", *_load(work.concurrency)),
        *("--percentile-metrics", "ttft,tpot,e2el", "--metric-percentiles", "50,90,99"),
    ]
    populate = [Prompt(questions.warm_up_token_ids, 0)]
    return BenchPlan(COLD_PHASE, arguments, work.questions, populate=populate)


def _load(concurrency: int) -> tuple[str, ...]:
    return ("--request-rate", "inf", "--max-concurrency", str(concurrency), "--temperature", "0")


def bench_arguments(scenario: Scenario, target: Target, work: list[str], seed: int) -> list[str]:
    """Return the published arguments of a work, then what the gate adds to see more."""
    model = scenario.engine.model
    trust = ["--trust-remote-code"] if scenario.engine.flags.get("trust-remote-code") else []
    return [
        *("bench", "serve", "--backend", "openai", "--base-url", target.url),
        *("--model", model, "--tokenizer", model, *trust, *work),
        *("--served-model-name", target.served_name, "--seed", str(seed), "--save-result", "--save-detailed"),
    ]


def run_bench(
    server: ServesPrefixes, target: Target, scenario: Scenario, plan: BenchPlan, execute: Execute
) -> PhaseEvidence:
    """Run the protocol once with the bench as the client of the timed requests."""
    settle_s = scenario.deadlines.settle

    def run(name: str, work: list[str]) -> BenchRun:
        return _run(execute(f"{plan.name}-{name}", bench_arguments(scenario, target, work, plan.seed)))

    reset_ok = server.reset_prefix_cache()
    after_reset = settled_metrics(server, settle_s) if plan.own_populate else ""
    untimed = run("populate", plan.own_populate) if plan.own_populate else None
    populate = send_all(target, plan.populate, UNTIMED, 1)
    before = settled_metrics(server, settle_s)
    timed = run("timed", plan.arguments)
    finished_s = target.clock()
    return PhaseEvidence(
        reset_ok=reset_ok,
        populate=populate,
        requests=[],
        bench=BenchEvidence(timed=timed, populate=untimed, metrics_reset=after_reset),
        metrics_before=before,
        metrics_after=settled_metrics(server, settle_s),
        started_s=finished_s - timed.duration_s,
        finished_s=finished_s,
    )


def _run(finished: Finished) -> BenchRun:
    warmups = sum(int(number) for number in WARMUPS.findall(finished.said))
    return BenchRun(
        command=finished.command,
        own_requests=finished.said.count(READY) + warmups,
        result=json.loads(finished.result),
    )

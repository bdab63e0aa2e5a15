"""Scenario A sent by ``vllm bench serve`` instead of the built-in client: its arguments, and what it says it did.

It makes its prompts from its seed as text, which the server tokenises again; it keeps no token ids and no cached tokens
of single requests. What it reports is evidence, to be held against the server's counters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from dropgate.evidence import BenchEvidence, BenchRun, PhaseEvidence
from dropgate.scenario import Scenario
from dropgate.workload.client import Target
from dropgate.workload.protocol import ServesPrefixes, settled_metrics

READY = "Initial test run completed."
WARMUPS = re.compile(r"^Warming up with (\d+) requests", re.MULTILINE)


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


def bench_arguments(scenario: Scenario, target: Target, prompts: int) -> list[str]:
    """Return scenario A's own arguments, as its authors gave them, then what the gate adds to see more."""
    work, model = scenario.workloads.prefix, scenario.engine.model
    trust = ["--trust-remote-code"] if scenario.engine.flags.get("trust-remote-code") else []
    published = {
        "--dataset-name": "prefix_repetition",
        "--num-prompts": prompts,
        "--prefix-repetition-prefix-len": work.prefix_tokens,
        "--prefix-repetition-suffix-len": work.suffix_tokens,
        "--prefix-repetition-num-prefixes": work.prefixes,
        "--prefix-repetition-output-len": work.output_tokens,
    }
    numbers = [str(part) for pair in published.items() for part in pair]
    return [
        *("bench", "serve", "--backend", "openai", "--base-url", target.url),
        *("--model", model, "--tokenizer", model, *trust, *numbers, "--disable-shuffle"),
        *("--request-rate", "inf", "--max-concurrency", str(work.concurrency), "--temperature", "0", "--ignore-eos"),
        *("--percentile-metrics", "ttft,e2el", "--metric-percentiles", "50,90,99"),
        *("--served-model-name", target.served_name, "--seed", str(work.seed), "--save-result", "--save-detailed"),
    ]


def run_bench(server: ServesPrefixes, target: Target, scenario: Scenario, execute: Execute) -> PhaseEvidence:
    """Run the protocol once with the bench as the client.

    The populating request is the bench's own first one: with one prompt and the same seed it sends what it sends first.
    """
    work, settle_s = scenario.workloads.prefix, scenario.deadlines.settle
    reset_ok = server.reset_prefix_cache()
    after_reset = settled_metrics(server, settle_s)
    populate = _run(execute("populate", bench_arguments(scenario, target, work.prefixes))) if work.populate else None
    before = settled_metrics(server, settle_s)
    timed = _run(execute("timed", bench_arguments(scenario, target, work.requests)))
    finished_s = target.clock()
    return PhaseEvidence(
        reset_ok=reset_ok,
        populate=[],
        requests=[],
        bench=BenchEvidence(metrics_reset=after_reset, populate=populate, timed=timed),
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

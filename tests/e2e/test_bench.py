"""``vllm bench serve`` and the built-in client, on the same real engines, give the same counts."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import pytest

from dropgate.engine.interpreter import describe_engine
from dropgate.engine.server import Server
from dropgate.evidence import PhaseEvidence
from dropgate.judge import Judgement, Verdict, judge
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.run import execute_bench
from dropgate.scenario import load_scenario
from dropgate.workload.bench import run_bench
from dropgate.workload.client import Target
from tests.support.engines import SMALL, Measure

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
BENCH = load_scenario("tiny_eagle3_cpu", (*SMALL, "workloads.prefix.driver=bench"))
COUNTS = ("requests", "cached_tokens_total", "computed_tokens_total", "cached_tokens_per_request")


def sent_by_bench(server: Server, folder: Path) -> PhaseEvidence:
    folder.mkdir()
    target = Target(server.url, server.address.served_name, BENCH.deadlines.request, time.monotonic)
    return run_bench(server, target, BENCH, partial(execute_bench, server, describe_engine().python, folder, 200.0))


def counts(judgement: Judgement) -> dict[str, list[int]]:
    return {name: [judgement.metrics[name][count] for count in COUNTS] for name in VARIANT_NAMES}


def test_both_drivers_give_the_same_counts(
    engines: dict[VariantName, Server], measure: Measure, tmp_path: Path
) -> None:
    """The bench's own JSON agrees with the counters, and the counters with the client's."""
    by_client = measure(engines["baseline"], engines["candidate"])
    variants = {
        name: seen.model_copy(update={"phases": {"prefix": sent_by_bench(engines[name], tmp_path / name)}})
        for name, seen in by_client.variants.items()
    }
    by_bench = judge(by_client.model_copy(update={"scenario": BENCH, "variants": variants}))
    assert [check for check in by_bench.checks if check.verdict is not Verdict.PASS] == []
    assert counts(by_bench) == counts(judge(by_client))

"""Servers that run already: judged as any others, refused when they cannot be compared, left running."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

import pytest
import requests

from dropgate.engine.server import Server
from dropgate.law import VariantName
from dropgate.workload.questions import GENERATED
from tests.support.engines import SMALL, UNIT, run_dropgate

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
Engines = dict[VariantName, Server]
TIMED = (*SMALL, "workloads.timing={blocks: 3, requests: 8}")


QUESTIONS = (
    "workloads.gsm8k={questions: 24, prefix_tokens: 2048, control: 2, warm_control: 4}",
    "promises=[{kind: prefix_law}, {kind: hit_path_law}, {kind: same_answers}, "
    "{kind: acceptance, path: hit, margin_pp: 50}]",
)


def run_on(baseline: Server, candidate: Server, out: Path, sets: Sequence[str] = TIMED):
    urls = ["--baseline-url", baseline.url, "--candidate-url", candidate.url]
    told = [part for assignment in sets for part in ("--set", assignment)]
    return run_dropgate("run", "tiny_eagle3_cpu", "--out", str(out), *told, *urls, "--gsm8k", str(GENERATED))


def test_two_running_servers_are_judged_timed_in_turns_and_left_running(engines: Engines, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = run_on(engines["baseline"], engines["candidate"], out)
    assert result.returncode == 0, result.stdout + result.stderr
    metrics = json.loads((out / "verdict.json").read_text())["metrics"]
    assert metrics["delta"]["cached_tokens_per_request"] == UNIT
    assert (metrics["timing"]["design"], metrics["timing"]["blocks"]) == ("ABBA", 3)
    assert metrics["timing"]["throughput"]["low"] <= metrics["timing"]["throughput"]["ratio"]
    assert "3 blocks each, taking turns (ABBA)" in result.stdout
    assert run_dropgate("judge", str(out)).returncode == 0
    for server in engines.values():
        server.require_alive("after the run")


@pytest.mark.slow
def test_two_running_servers_answer_questions(engines: Engines, tmp_path: Path) -> None:
    """Scenario B's phases on both at once, with every step's accepted tokens."""
    result = run_on(engines["baseline"], engines["candidate"], tmp_path / "out", (*SMALL, *QUESTIONS))
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert document["identity"]["compared"] == 48
    assert document["metrics"]["delta"]["acceptance_hit_path"]["cached_tokens_total"] == 24 * UNIT


def test_one_server_is_no_pair(engines: Engines, tmp_path: Path) -> None:
    result = run_on(engines["baseline"], engines["baseline"], tmp_path / "out")
    assert result.returncode == 2
    assert "has disable_eagle_block_drop=False, the scenario's candidate has True" in result.stderr


def test_a_server_that_serves_others_is_refused(engines: Engines, tmp_path: Path) -> None:
    over, busy = Event(), engines["candidate"]

    def serve_others() -> None:
        body = {"model": busy.address.served_name, "prompt": [17, 18, 19], "max_tokens": 1}
        while not over.wait(0.2):
            requests.post(f"{busy.url}/v1/completions", json=body, timeout=60)

    others = Thread(target=serve_others)
    others.start()
    try:
        result = run_on(engines["baseline"], busy, tmp_path / "out")
    finally:
        over.set()
        others.join()
    assert result.returncode == 75
    assert "candidate: " in result.stderr
    assert "serves others too" in result.stderr

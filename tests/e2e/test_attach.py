"""Servers that run already: judged as any others, refused when they cannot be compared, left running."""

from __future__ import annotations

import json
from pathlib import Path
from threading import Event, Thread

import pytest
import requests

from dropgate.engine.server import Server
from dropgate.law import VariantName
from tests.support.engines import SMALL, UNIT, run_dropgate

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
Engines = dict[VariantName, Server]
TIMED = (*SMALL, "workloads.timing={blocks: 3, requests: 8}")
SETS = [part for assignment in TIMED for part in ("--set", assignment)]


def run_on(baseline: Server, candidate: Server, out: Path):
    urls = ["--baseline-url", baseline.url, "--candidate-url", candidate.url]
    return run_dropgate("run", "tiny_eagle3_cpu", "--out", str(out), *SETS, *urls)


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

"""One server over two nodes, on the real engine: scenario A's counts, and what every fault across nodes ends in."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dropgate.engine.interpreter import describe_engine
from tests.support.engines import SMALL, run_dropgate
from tests.support.namespaces import Host, two_hosts, why_not
from tests.support.nodes import SCENARIO, Pair, nodes, started_below

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("nodes")]
WITHIN_S = 60
BOOT_S = 300
COUNTS = ("cached_tokens_per_request", "computed_tokens_per_request", "cached_tokens_total", "computed_tokens_total")
SMALL_COUNTS = {"baseline": [256, 192, 6144, 4608], "candidate": [384, 64, 9216, 1536]}
SCENARIO_A = {"baseline": [10752, 1792, 1720320, 286720], "candidate": [12288, 256, 1966080, 40960]}


def counts(document: dict) -> dict[str, list[int]]:
    return {name: [document["metrics"][name][count] for count in COUNTS] for name in SCENARIO_A}


def booting(pair: Pair) -> bool:
    return pair.nodes[1].worker() is not None


def populating(pair: Pair) -> bool:
    return "POST /reset_prefix_cache" in pair.nodes[0].engine_log()


def timed(pair: Pair) -> bool:
    return pair.nodes[0].engine_log().count("POST /v1/completions") >= 8


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder for temporary files; short, since sockets are put below it."""
    with tempfile.TemporaryDirectory(prefix="dg-") as folder:
        yield Path(folder)


@pytest.mark.parametrize(
    ("sets", "expected"),
    [(SMALL, SMALL_COUNTS), pytest.param((), SCENARIO_A, marks=pytest.mark.slow)],
    ids=["small", "scenario_a"],
)
def test_both_nodes_on_loopback_give_exact_counts(
    sets: Sequence[str], expected: dict[str, list[int]], tmp_path: Path, scratch: Path
) -> None:
    """One command, no variable set: all ranks on this machine, exact counts, exit 0, the same verdict everywhere."""
    out = tmp_path / "out"
    settings = [part for one in sets for part in ("--set", one)]
    result = run_dropgate("run", SCENARIO, "--out", str(out), *settings, TMPDIR=str(scratch))
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((out / "verdict.json").read_text())
    assert counts(document) == expected
    assert json.loads((tmp_path / "out-rank1" / "verdict.json").read_text()) == document
    assert not [*started_below(scratch), *scratch.iterdir()]
    assert run_dropgate("judge", str(out)).returncode == 0


def ends_invalid(pair: Pair, *causes: str) -> None:
    """Both ranks end with 75 in time, and rank 0's verdict names the other rank and what befell it."""
    began_s = time.monotonic()
    assert pair.codes(WITHIN_S) == [75] * len(pair.nodes)
    assert time.monotonic() - began_s < WITHIN_S
    for cause in causes:
        assert cause in pair.nodes[0].said()


def test_a_follower_that_never_comes(tmp_path: Path) -> None:
    with nodes(tmp_path, ranks=[0], sets={0: ["deadlines.join=10"]}) as pair:
        ends_invalid(pair, "rank 1 did not come", "within 10 s")
        assert not pair.nodes[0].engine_log()


@pytest.mark.slow
def test_a_local_follower_that_cannot_begin_is_not_waited_for(tmp_path: Path, scratch: Path) -> None:
    """Its folder holds something already, so it ends at once; so does the run."""
    (tmp_path / "out-rank1").mkdir()
    (tmp_path / "out-rank1" / "evidence.json").touch()
    result = run_dropgate("run", SCENARIO, "--out", str(tmp_path / "out"), TMPDIR=str(scratch))
    assert result.returncode == 75
    assert "rank 1 ended with code 2 before it came" in result.stdout
    assert "out-rank1: the folder is not empty" in result.stderr


def test_a_follower_with_another_flag_boots_nothing(tmp_path: Path) -> None:
    with nodes(tmp_path, sets={1: ["engine.flags.max-num-seqs=8"]}) as pair:
        ends_invalid(pair, "rank 1: its baseline command has --max-num-seqs 8, rank 0 expects --max-num-seqs 16")
        assert not any(node.engine_log() for node in pair.nodes)


@pytest.mark.slow
def test_a_follower_with_another_vllm_boots_nothing(tmp_path: Path) -> None:
    ours = describe_engine()
    with nodes(tmp_path, environments={1: {"DROPGATE_ENGINE_PYTHON": str(other_engine(tmp_path))}}) as pair:
        ends_invalid(pair, f"rank 1 has vLLM 0.31.7, rank 0 has {ours.version}")
        assert not any(node.engine_log() for node in pair.nodes)


def other_engine(folder: Path) -> Path:
    """Make an interpreter that has another release, as far as can be asked without a boot."""
    package = folder / "engine" / "vllm"
    (package / "config").mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "config" / "speculative.py").write_text("disable_eagle_block_drop = False\n")
    metadata = folder / "engine" / "vllm-0.31.7.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Name: vllm\nVersion: 0.31.7\n")
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder / "engine"} exec {describe_engine().python} "$@"\n')
    python.chmod(0o755)
    return python


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (booting, "WorkerProc initialization failed"),
        (populating, "died unexpectedly"),
        (timed, "died unexpectedly"),
    ],
)
def test_a_worker_that_is_killed(tmp_path: Path, moment: Callable[[Pair], bool], said: str) -> None:
    """Its node reports it with the engine's own first error line; rank 0 does not wait for its own engine to see it."""
    with nodes(tmp_path) as pair:
        pair.until(lambda: moment(pair), BOOT_S)
        worker = pair.nodes[1].worker()
        assert worker
        worker.kill()
        ends_invalid(pair, "rank 1: its baseline worker ended with code", said)


@pytest.mark.slow
def test_a_leader_that_is_killed_takes_the_follower_along(tmp_path: Path) -> None:
    with nodes(tmp_path) as pair:
        leader, follower = pair.nodes
        pair.until(lambda: timed(pair), BOOT_S)
        leader.process.send_signal(signal.SIGKILL)
        assert pair.codes(WITHIN_S) == [-signal.SIGKILL, 75]
        assert "rank 0 is lost" in follower.said()


@pytest.fixture
def hosts():
    """Two hosts, where this user may have network namespaces."""
    if reason := why_not():
        pytest.skip(f"namespaces: {reason}")
    with two_hosts() as both:
        yield both


def between(hosts: tuple[Host, Host], folder: Path):
    return nodes(
        folder,
        environments={rank: host.environment for rank, host in enumerate(hosts)},
        enter={rank: host.enter for rank, host in enumerate(hosts)},
        address=hosts[0].address,
    )


@pytest.mark.slow
def test_two_hosts_give_scenario_as_counts(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Each node with an address of its own, nothing shared but the link."""
    with between(hosts, tmp_path) as pair:
        assert pair.codes(2 * BOOT_S) == [0, 0], pair.nodes[0].log.read_text()
        assert counts(pair.nodes[0].verdict()) == counts(pair.nodes[1].verdict()) == SCENARIO_A


@pytest.mark.slow
def test_a_link_that_is_cut_and_comes_back(hosts: tuple[Host, Host], tmp_path: Path) -> None:
    """Neither side waits for the other for long, and nobody goes on when the link is back."""
    with between(hosts, tmp_path) as pair:
        leader, follower = pair.nodes
        pair.until(lambda: timed(pair), BOOT_S)
        for host in hosts:
            host.cut()
        began_s = time.monotonic()
        pair.until_any_ends(WITHIN_S)
        for host in hosts:
            host.mend()
        assert pair.codes(WITHIN_S - (time.monotonic() - began_s)) == [75, 75]
        assert "rank 1: nothing heard for 15 s" in leader.said()
        assert "rank 0 is lost: " in follower.said()

"""Nothing survives: after a run, a Ctrl-C, a kill -9 of the harness, or a boot that fails."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.support.engines import ROOT, dropgate_command, run_dropgate
from tests.support.signals import heed_interrupts

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("lifecycle")]
GONE_WITHIN_S = 10
SETS = ["--set", "engine.boot=one_by_one"]
IN_FLIGHT = 8
"""Answered requests after which the timed ones are under way: the probe and the populating one came before."""


class Run:
    """A run in the background, and everything that it started."""

    def __init__(self, out: Path, scratch: Path) -> None:
        self.out = out
        self.log = out.with_suffix(".log")
        command = dropgate_command("run", "tiny_eagle3_cpu", "--out", str(out), *SETS)
        with self.log.open("w") as log:
            environment = {**os.environ, "TMPDIR": str(scratch)}
            self.harness = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=ROOT, env=environment, preexec_fn=heed_interrupts
            )
        self.family: dict[int, psutil.Process] = {}
        self.ports: set[int] = set()

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        """Wait, and note every process and listening port of the run on the way."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.log.read_text()
            assert self.harness.poll() is None, self.log.read_text()
            self.note()
            time.sleep(0.2)

    def note(self) -> None:
        for process in psutil.Process(self.harness.pid).children(recursive=True):
            self.family[process.pid] = process
            try:
                self.ports |= {c.laddr.port for c in process.net_connections("inet") if c.status == "LISTEN"}
            except psutil.Error:
                continue

    def engine_log(self) -> str:
        path = self.out / "baseline" / "engine.log"
        return path.read_text() if path.exists() else ""

    def survivors(self) -> list[object]:
        alive: list[object] = [process for process in self.family.values() if process.is_running()]
        return alive + [port for port in self.ports if listening(port)]


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A temporary folder of the test's own, which a run must leave empty; short, since sockets are put below it."""
    with tempfile.TemporaryDirectory(prefix="dg-") as folder:
        yield Path(folder)


@contextmanager
def running(out: Path, scratch: Path) -> Iterator[Run]:
    run = Run(out, scratch)
    try:
        yield run
    finally:
        run.harness.kill()
        run.harness.wait()
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := [*run.survivors(), *scratch.iterdir()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left
    assert len(run.family) >= 2


def test_a_harness_killed_while_booting_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    """kill -9 half way through the boot."""
    with running(tmp_path / "out", scratch) as run:
        run.until(lambda: len(run.family) >= 3 and bool(run.engine_log()), 120)
        run.harness.send_signal(signal.SIGKILL)
        assert run.harness.wait(GONE_WITHIN_S) == -signal.SIGKILL


def test_a_harness_killed_in_the_middle_leaves_nothing(tmp_path: Path, scratch: Path) -> None:
    """kill -9 while requests are in flight."""
    with running(tmp_path / "out", scratch) as run:
        run.until(lambda: run.engine_log().count("POST /v1/completions") >= IN_FLIGHT, 300)
        assert run.ports
        run.harness.send_signal(signal.SIGKILL)
        assert run.harness.wait(GONE_WITHIN_S) == -signal.SIGKILL


def test_ctrl_c_ends_the_engines_and_saves_the_evidence(tmp_path: Path, scratch: Path) -> None:
    """An interrupted run cleans up, says so, and its evidence is judged invalid."""
    with running(tmp_path / "out", scratch) as run:
        run.until(lambda: len(run.family) >= 3 and bool(run.engine_log()), 120)
        run.harness.send_signal(signal.SIGINT)
        assert run.harness.wait(GONE_WITHIN_S) == 130
        assert "interrupted; the engines have ended" in run.log.read_text()
    judged = run_dropgate("judge", str(tmp_path / "out"))
    assert judged.returncode == 75
    assert "run.whole: expected no errors, seen interrupted" in judged.stdout


def test_a_boot_that_fails_is_invalid_with_the_engines_own_reason(tmp_path: Path, scratch: Path) -> None:
    """An engine that refuses its flags is quoted, at once, and nothing is left."""
    sets = [*SETS, "--set", "engine.flags.max-model-len=99999999"]
    result = run_dropgate("run", "tiny_eagle3_cpu", "--out", str(tmp_path / "out"), *sets, TMPDIR=str(scratch))
    assert result.returncode == 75, result.stdout
    assert "the engine ended with code 1 while booting" in result.stdout
    assert "max_model_len" in result.stdout
    assert not list(scratch.iterdir())

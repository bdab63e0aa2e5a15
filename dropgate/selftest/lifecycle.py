"""Lifecycle under fire: a run is hit at a random moment; nothing of it may be left, and the next run must pass."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from dropgate.errors import EXIT_INVALID, EXIT_PASS, EngineError

ROOT = Path(__file__).resolve().parents[2]
SIZES = (
    "engine.flags.block-size=128",
    "workloads.prefix.requests=8",
    "workloads.prefix.concurrency=4",
    "workloads.prefix.prefix_tokens=384",
    "workloads.prefix.suffix_tokens=64",
    "workloads.prefix.control=2",
    "promises=[{kind: prefix_law}, {kind: same_outputs}]",
)
APPEARS_WITHIN_S, ENDS_WITHIN_S, GONE_WITHIN_S, RUN_WITHIN_S = 120.0, 60.0, 15.0, 300.0
POLL_S = 0.05
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (looked at, not written)


@dataclass(frozen=True)
class Victim:
    """What is killed: the first process whose title or command line holds one of these words."""

    name: str
    words: tuple[str, ...]
    pytest: bool = False
    """Whether the run is one of pytest's, which boots the engines of its tests."""
    sets: tuple[str, ...] = ()


WORKER_APART = ("engine.flags.distributed-executor-backend=mp", "engine.environment.VLLM_ENABLE_V1_MULTIPROCESSING='1'")
VICTIMS = (
    Victim("harness", ("dropgate.cli",)),
    Victim("pytest", ("pytest",), pytest=True),
    Victim("engine core", ("EngineCore",)),
    Victim("worker", ("Worker",), sets=WORKER_APART),
    Victim("API server", ("launcher.py",)),
)


class Round:
    """One run, in a temporary folder of its own, and every process that was ever seen in it."""

    def __init__(self, victim: Victim, folder: Path, scratch: Path) -> None:
        """Start the run; ``scratch`` is short, since sockets are put below it, and the run must leave it empty."""
        self.victim, self.scratch = victim, scratch
        self.log = folder / "run.log"
        self.shared_before = set(SHARED_MEMORY.iterdir())
        with self.log.open("w", encoding="utf-8") as log:
            environment = {**os.environ, "TMPDIR": str(scratch)}
            command = _command(victim, folder)
            self.root = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
        self.family: dict[int, psutil.Process] = {self.root.pid: psutil.Process(self.root.pid)}
        self.ports: set[int] = set()

    def watch(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Note processes and ports for so long, or until something holds; tell whether it did."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.root.poll() is None:
            self._note()
            if until():
                return True
            time.sleep(POLL_S)
        return until()

    def _note(self) -> None:
        with contextlib.suppress(psutil.Error):
            for process in psutil.Process(self.root.pid).children(recursive=True):
                self.family.setdefault(process.pid, process)
                with contextlib.suppress(psutil.Error):
                    self.ports |= {c.laddr.port for c in process.net_connections("inet") if c.status == "LISTEN"}

    def target(self) -> psutil.Process | None:
        """Return the process to be killed, once it is there."""
        if set(self.victim.words) & {"dropgate.cli", "pytest"}:
            return self.family[self.root.pid]
        return next((process for process in self.family.values() if self._is_victim(process)), None)

    def _is_victim(self, process: psutil.Process) -> bool:
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            return any(word in line for word in self.victim.words) and "supervisor.py" not in line
        return False

    def left(self) -> list[str]:
        """Name what is still there: processes, ports, shared memory, temporary folders."""
        found = [f"process {process.pid}" for process in self.family.values() if _runs(process)]
        found += [f"port {port}" for port in self.ports if _listening(port)]
        found += [str(path) for path in set(SHARED_MEMORY.iterdir()) - self.shared_before]
        return found + [str(path) for path in self.scratch.iterdir()] + _with_environment(str(self.scratch))


def _command(victim: Victim, folder: Path) -> list[str]:
    if victim.pytest:
        test = "tests/e2e/test_prefix_cache.py::test_keeps_the_trailing_block"
        return [
            sys.executable,
            "-m",
            "pytest",
            test,
            "-q",
            "-p",
            "no:cacheprovider",
            "--basetemp",
            str(folder / "pytest"),
        ]
    return run_command(folder / "run", victim.sets)


def run_command(out: Path, sets: Iterable[str] = ()) -> list[str]:
    """Return the command of a small run."""
    settings = [part for size in (*SIZES, *sets) for part in ("--set", size)]
    return [sys.executable, "-m", "dropgate.cli", "run", "tiny_eagle3_cpu", "--out", str(out), *settings]


def _runs(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _with_environment(scratch: str) -> list[str]:
    """Name processes, seen before or not, whose temporary files go to the run's folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("TMPDIR", "").startswith(scratch) and _runs(process):
                found.append(f"process {process.pid} ({process.name()})")
    return found


def run_rounds(folder: Path, rounds: int, seed: int, say: Callable[[str], None]) -> int:
    """Return how many rounds were clean.

    Raises:
        EngineError: a run that nobody kills does not pass; then no round means anything.

    """
    draw, clean = random.Random(seed), 0  # noqa: S311  (seeded moments)
    took_s = _undisturbed(folder / "before")
    say(f"a run that nobody kills passes and takes {took_s:.0f} s")
    for number in range(1, rounds + 1):
        victim = VICTIMS[(number - 1) % len(VICTIMS)] if number <= len(VICTIMS) else draw.choice(VICTIMS)
        after_s = draw.uniform(0.2, 0.9 * took_s)
        odd = _round(victim, after_s, folder / f"{number:02}")
        clean += not odd
        say(f"round {number} of {rounds}: {victim.name} killed {after_s:.1f} s after it appeared: {odd or 'clean'}")
    return clean


def _round(victim: Victim, after_s: float, folder: Path) -> str:
    """Run one round; return what was odd, empty where nothing was."""
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="dg-") as scratch:
        one = Round(victim, folder, Path(scratch))
        if not one.watch(APPEARS_WITHIN_S, lambda: one.target() is not None):
            return f"no {victim.name} appeared: see {one.log}"
        one.watch(after_s)
        target = one.target()
        with contextlib.suppress(psutil.Error):
            if target is not None:
                target.send_signal(signal.SIGKILL)
        killed_root = target is not None and target.pid == one.root.pid
        try:
            one.watch(ENDS_WITHIN_S)
            code = one.root.wait(1)
        except subprocess.TimeoutExpired:
            one.root.kill()
            return f"the run did not end within {ENDS_WITHIN_S:g} s"
        left = _left_in_the_end(one)
    if left:
        return f"left behind: {', '.join(left)}"
    if not killed_root and code not in (EXIT_INVALID, EXIT_PASS):
        return f"the run ended with code {code}: see {one.log}"
    try:
        _undisturbed(folder / "next")
    except EngineError as error:
        return str(error)
    return ""


def _left_in_the_end(one: Round) -> list[str]:
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := one.left()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return left


def _undisturbed(out: Path) -> float:
    """Do one run that nobody kills; return its seconds.

    Raises:
        EngineError: it does not pass.

    """
    began = time.monotonic()
    done = subprocess.run(run_command(out), capture_output=True, text=True, timeout=RUN_WITHIN_S, cwd=ROOT)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["nothing on standard error"])[-1]
        raise EngineError(f"a run that nobody killed ended with code {done.returncode}: {last}")
    return time.monotonic() - began

"""The tool as it runs on a node, in the background, with everything that it starts under watch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil

from dropgate.engine.process import free_port
from tests.support.engines import ROOT, dropgate_command

SCENARIO = "tiny_eagle3_cpu_2node"
LOOPBACK = {"VLLM_HOST_IP": "127.0.0.1", "GLOO_SOCKET_IFNAME": "lo"}
GONE_WITHIN_S = 10


class Node:
    """One rank's process."""

    def __init__(
        self,
        rank: int,
        folder: Path,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        enter: Sequence[str] = (),
    ) -> None:
        self.rank = rank
        self.out = folder / f"rank{rank}"
        self.log = folder / f"rank{rank}.log"
        self.scratch = Path(tempfile.mkdtemp(prefix="dg-"))  # short, since sockets are put below it
        command = [*enter, *dropgate_command("run", SCENARIO, "--out", str(self.out), *arguments)]
        variables = {**os.environ, "TMPDIR": str(self.scratch), "NODE_RANK": str(rank), **environment}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=variables)
        self.family: dict[int, psutil.Process] = {}

    def note(self) -> None:
        """Remember what it started; a process that is gone already cannot be left."""
        try:
            self.family |= {one.pid: one for one in psutil.Process(self.process.pid).children(recursive=True)}
        except psutil.Error:
            return

    def engine_log(self, variant: str = "baseline") -> str:
        path = self.out / variant / "engine.log"
        return path.read_text() if path.exists() else ""

    def worker(self) -> psutil.Process | None:
        """Return the engine's worker process: the one that computes."""
        self.note()
        for process in self.family.values():
            try:
                if "VLLM::Worker" in " ".join(process.cmdline()):
                    return process
            except psutil.Error:
                continue
        return None

    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.out / "verdict.json").read_text())
        return found

    def said(self) -> str:
        """Return what this rank's verdict gives as the reasons."""
        return "; ".join(check["seen"] for check in self.verdict()["checks"] if check["verdict"] != "pass")

    def left(self) -> list[object]:
        alive = [one for one in self.family.values() if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        return [*alive, *started_below(self.scratch), *self.scratch.iterdir()]


def started_below(scratch: Path) -> list[psutil.Process]:
    """Return every process whose folder for temporary files is this one or below it, whoever started it."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR", "").startswith(str(scratch)):
                found.append(process)
        except psutil.Error:
            continue
    return found


class Pair:
    """Both ranks of a run."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes

    def until(self, condition: Callable[[], object], seconds: float) -> None:
        """Wait, while nobody may end, and note what is started on the way."""
        deadline = time.monotonic() + seconds
        while not condition():
            logs = "\n".join(node.log.read_text() for node in self.nodes)
            assert time.monotonic() < deadline, logs
            assert all(node.process.poll() is None for node in self.nodes), logs
            for node in self.nodes:
                node.note()
            time.sleep(0.1)

    def until_any_ends(self, seconds: float) -> None:
        """Wait until the first rank has ended."""
        deadline = time.monotonic() + seconds
        while all(node.process.poll() is None for node in self.nodes):
            assert time.monotonic() < deadline, "nobody ended"
            time.sleep(0.1)

    def codes(self, seconds: float) -> list[int]:
        """Wait until every rank has ended and return how, in order."""
        deadline = time.monotonic() + seconds
        while any(node.process.poll() is None for node in self.nodes):
            assert time.monotonic() < deadline, "\n".join(node.log.read_text() for node in self.nodes)
            for node in self.nodes:
                node.note()
            time.sleep(0.1)
        return [node.process.wait() for node in self.nodes]


@contextmanager
def nodes(
    folder: Path,
    ranks: Sequence[int] = (0, 1),
    sets: Mapping[int, Sequence[str]] | None = None,
    environments: Mapping[int, Mapping[str, str]] | None = None,
    enter: Mapping[int, Sequence[str]] | None = None,
    address: str = "127.0.0.1",
) -> Iterator[Pair]:
    """Start the ranks, and see that they leave no process and no file outside their own folders."""
    meeting = {"MASTER_ADDR": address, "MASTER_PORT": str(free_port("127.0.0.1"))}
    pair = Pair(
        [
            Node(
                rank,
                folder,
                [part for assignment in (sets or {}).get(rank, ()) for part in ("--set", assignment)],
                {**LOOPBACK, **meeting, **(environments or {}).get(rank, {})},
                (enter or {}).get(rank, ()),
            )
            for rank in ranks
        ]
    )
    with ExitStack() as stack:
        for node in pair.nodes:
            stack.callback(node.process.wait)
            stack.callback(node.process.kill)
        yield pair
    deadline = time.monotonic() + GONE_WITHIN_S
    while (left := [one for node in pair.nodes for one in node.left()]) and time.monotonic() < deadline:
        time.sleep(0.1)
    for node in pair.nodes:
        shutil.rmtree(node.scratch)
    assert not left

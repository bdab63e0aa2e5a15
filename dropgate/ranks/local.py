"""Ranks that rank 0 starts itself, on its own machine, and whose end it sees to."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from dropgate.ranks.place import Place

END_S = 20.0
"""For a rank to end its workers."""


class LocalFollowers:
    """One process of this same tool for each rank but 0."""

    def __init__(self, place: Place, arguments: Sequence[str], out: Path) -> None:
        """Prepare; ``arguments`` are those of ``dropgate run``, without its folder."""
        self._place = place
        self._arguments = list(arguments)
        self._out = out
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start them all; what they print to standard output is rank 0's to say."""
        for rank in range(1, self._place.ranks):
            folder = rank_folder(self._out, rank)
            command = [sys.executable, "-m", "dropgate.cli", "run", *self._arguments, "--out", str(folder), "--quiet"]
            self._processes[rank] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env={**os.environ, **self._place.variables(rank)},
                start_new_session=True,  # a Ctrl-C on the terminal is rank 0's to handle
            )

    def exit_code(self, rank: int) -> int | None:
        """Return how a rank's process ended; ``None`` while it runs."""
        process = self._processes.get(rank)
        return process.poll() if process else None

    def end(self) -> None:
        """Wait for each to end as it was told; then ask; then kill."""
        for process in self._processes.values():
            for urge in (None, process.terminate, process.kill):
                if urge:
                    urge()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(END_S)
                    break


def rank_folder(out: Path, rank: int) -> Path:
    """Return the folder of a rank's own files: rank 0's with the rank behind its name."""
    return out if rank == 0 else out.with_name(f"{out.name}-rank{rank}")

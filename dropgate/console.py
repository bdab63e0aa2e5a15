"""Progress for people and for logs: live on a terminal, plain lines elsewhere. On standard error only."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class Narrator:
    """Says what is going on. ``quiet`` says nothing but errors."""

    def __init__(self, quiet: bool = False) -> None:
        """Write to standard error; colours and movement only where it is a terminal (NO_COLOR is honoured)."""
        self._quiet = quiet
        self._started_s = time.monotonic()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Say one line, with the seconds since the start."""
        if not self._quiet:
            self._console.print(f"[{time.monotonic() - self._started_s:6.1f} s] {text}", markup=False)

    @contextlib.contextmanager
    def counting(self, text: str, total: int) -> Iterator[Callable[[], None]]:
        """Count up to ``total``; the value is called once for each that is done, from any thread."""
        if self._quiet:
            yield lambda: None
        elif self._console.is_terminal:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            with Progress(*columns, console=self._console, transient=True) as bar:
                task = bar.add_task(text, total=total)
                yield lambda: bar.advance(task)
            self.say(f"{text}: done")
        else:
            yield self._quarters(text, total)

    def _quarters(self, text: str, total: int) -> Callable[[], None]:
        done = 0
        marks = {max(1, total * quarter // 4) for quarter in (1, 2, 3, 4)}

        def advance() -> None:
            nonlocal done
            done += 1
            if done in marks:
                self.say(f"{text}: {done} of {total}")

        return advance


def fail_line(text: str) -> None:
    """Write one clear error line."""
    sys.stderr.write(f"dropgate: {text}\n")

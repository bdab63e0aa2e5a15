"""The fault switch: a folder through which the self-test tells running engines what to break, and hears that they did.

``active`` holds the fault's name and a number that no two activations share; every process of the engine reads it at
each call of a patched function. ``fired-PID`` holds the activation and how often the fault did something there.
"""

from __future__ import annotations

import itertools
import os
import secrets
from pathlib import Path

ACTIVE = "active"


class FaultSwitch:
    """Either end of a switch."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists."""
        self.folder = folder
        self._number = itertools.count()
        self._nonce = secrets.token_hex(4)
        self._text = ""
        self._mark: tuple[int, int] | None = None

    def turn_to(self, fault: str | None) -> None:
        """Switch to a fault, or to none; the engine obeys from its next call of a patched function on."""
        text = f"{fault} {self._nonce}.{next(self._number)}" if fault else ""
        _replace(self.folder / ACTIVE, text)

    def activation(self) -> str:
        """Return the active fault's name and number; empty where there is none."""
        try:
            state = (self.folder / ACTIVE).stat()
            mark = (state.st_ino, state.st_mtime_ns)
            if mark != self._mark:
                self._text, self._mark = (self.folder / ACTIVE).read_text(encoding="utf-8"), mark
        except FileNotFoundError:
            self._text, self._mark = "", None
        return self._text

    def fault(self) -> str:
        """Return the active fault's name; empty where there is none."""
        return self.activation().partition(" ")[0]

    def note(self, activation: str, count: int) -> None:
        """Say that the fault has done something ``count`` times in this process, since it was switched to."""
        _replace(self.folder / f"fired-{os.getpid()}", f"{count} {activation}")

    def fired(self) -> int:
        """Return how often the active fault has done something, over all processes."""
        active, total = self.activation(), 0
        for path in self.folder.glob("fired-*"):
            count, _, activation = path.read_text(encoding="utf-8").partition(" ")
            total += int(count) if active and activation == active else 0
        return total


def _replace(path: Path, text: str) -> None:
    """Write a file that others read at any time: they see the old text or the new one, whole."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)

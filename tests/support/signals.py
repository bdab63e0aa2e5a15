"""Signals as a process of a test should begin with them."""

from __future__ import annotations

import signal


def heed_interrupts() -> None:
    """Begin as a terminal's or an agent's job does, in a child before its command.

    A shell without job control starts what it puts in the background with SIGINT ignored; all below it inherit that,
    and neither a shell script nor Python's own handler heeds what was ignored when it began.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)

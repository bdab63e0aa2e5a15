"""All faults by name: what each replaces, and in which of vLLM's processes that lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Process = Literal["API server", "engine core", "worker"]
"""The worker shares the engine core's process where the executor is ``uni``."""
Breaks = Callable[..., Any]
"""``(call, *arguments)``: what runs in place of the original while the fault is active."""


@dataclass(frozen=True)
class Call:
    """One call of a patched function."""

    original: Callable[..., Any]
    state: dict[str, Any]
    """The fault's own memory in this process; empty again at each activation."""
    fire: Callable[[], None]
    """To be called whenever something was really broken: a fault that never fires proves nothing."""

    def nth(self, number: int, item: object) -> bool:
        """Tell whether ``item`` is the ``number``-th different one of this activation, from 1."""
        seen = self.state.setdefault("seen", {})
        return bool(seen.setdefault(item, len(seen) + 1) == number)


@dataclass(frozen=True)
class Patch:
    """One function of vLLM's that a fault replaces."""

    fault: str
    target: str
    """``module:attribute`` or ``module:Class.method``."""
    process: Process
    breaks: Breaks


PATCHES: list[Patch] = []


def fault(target: str, process: Process, name: str | None = None) -> Callable[[Breaks], Breaks]:
    """Register the decorated function as a fault; ``name`` is needed where a fault replaces a second function."""

    def register(breaks: Breaks) -> Breaks:
        PATCHES.append(Patch(name or breaks.__name__, target, process, breaks))
        return breaks

    return register


def patches() -> list[Patch]:
    """Return every fault's patches; none of this imports vLLM."""
    from dropgate.faults import answers, cache, counters, engine, speculation

    assert all((answers, cache, counters, engine, speculation))  # noqa: S101  (imported for what they register)
    return PATCHES


def summaries() -> dict[str, tuple[str, str]]:
    """Return, by fault, what it does (its docstring's first line) and where."""
    found: dict[str, tuple[str, str]] = {}
    for patch in patches():
        found.setdefault(patch.fault, ((patch.breaks.__doc__ or "").splitlines()[0].rstrip("."), patch.process))
    return found

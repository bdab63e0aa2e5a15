"""Verdicts and how they combine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from dropgate.errors import EXIT_FAIL, EXIT_INVALID, EXIT_PASS


class Verdict(StrEnum):
    """Fail beats invalid beats pass."""

    PASS = "pass"  # noqa: S105  (a verdict, not a password)
    FAIL = "fail"
    INVALID = "invalid"

    @property
    def exit_code(self) -> int:
        """0, 1 or 75; only 75 may be retried."""
        return {Verdict.PASS: EXIT_PASS, Verdict.FAIL: EXIT_FAIL, Verdict.INVALID: EXIT_INVALID}[self]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: what was expected and what was seen, in words that stand alone."""

    name: str
    verdict: Verdict
    expected: str
    seen: str


@dataclass(frozen=True)
class Outcome:
    """What one promise came to."""

    checks: list[Check]
    facts: dict[str, Any] = field(default_factory=dict)
    """Numbers that a reader or a program wants beside the verdict."""


def combine(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst; nothing judged at all is invalid."""
    found = set(verdicts)
    if Verdict.FAIL in found:
        return Verdict.FAIL
    return Verdict.PASS if found == {Verdict.PASS} else Verdict.INVALID


def passes(name: str, good: bool, expected: str, seen: str, otherwise: Verdict = Verdict.FAIL) -> Check:
    """Return a check that passes when ``good``, else has the verdict ``otherwise``."""
    return Check(name, Verdict.PASS if good else otherwise, expected, seen)


def valid(name: str, good: bool, expected: str, seen: str) -> Check:
    """Return a check that is invalid, never failed, when it does not hold."""
    return passes(name, good, expected, seen, otherwise=Verdict.INVALID)


def tokens(count: int) -> str:
    """Write a count as people read it."""
    return f"{count:,}"


def signed(count: int) -> str:
    """Write a difference; no sign on zero."""
    return f"{count:+,}" if count else "0"


def summary(values: Iterable[tuple[int, str]]) -> str:
    """Write values by request index: one value when all agree, else each with its count and the odd ones' indices."""
    groups: dict[str, list[int]] = {}
    for index, value in values:
        groups.setdefault(value, []).append(index)
    if not groups:
        return "no requests"
    if len(groups) == 1:
        return next(iter(groups))
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    most = f"{ordered[0][0]} on {len(ordered[0][1])} requests"
    rest = [f"{value} on {_indices(indices)}" for value, indices in ordered[1:4]]
    more = f", and {len(ordered) - 4} more values" if len(ordered) > 4 else ""
    return f"{most}, {', '.join(rest)}{more}"


def _indices(indices: list[int]) -> str:
    shown = ", ".join(f"#{index}" for index in indices[:3])
    return f"{len(indices)} requests ({shown}, ...)" if len(indices) > 3 else shown

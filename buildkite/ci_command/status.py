"""The commit status that branch protection waits for, made from a verdict. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal

from pydantic import Field, JsonValue, ValidationError

from buildkite.ci_command.commands import Lanes
from buildkite.ci_command.models import MAX_DESCRIPTION, Answer, Status, first_problem
from buildkite.ci_command.redact import one_line

CONTEXT = "dropgate"


class Verdict(StrEnum):
    """What the gate concluded; `pending` while it has not."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    INVALID = "invalid"
    PENDING = "pending"


STATES = {
    Verdict.PASS: "success",
    Verdict.FAIL: "failure",
    Verdict.INVALID: "error",
    Verdict.PENDING: "pending",
}
# Fail beats invalid beats pass.
WEIGHT = {Verdict.PASS: 0, Verdict.INVALID: 1, Verdict.FAIL: 2}


class Check(Answer):
    """One promise that was judged."""

    name: str
    verdict: Literal["pass", "fail", "invalid"]
    expected: JsonValue = None
    seen: JsonValue = None


class VerdictFile(Answer):
    """The `verdict.json` that a dropgate run leaves beside its evidence; `schema` is its format's version."""

    schema_: int = Field(alias="schema")
    scenario: str
    verdict: Literal["pass", "fail", "invalid"]
    checks: tuple[Check, ...]


def context(lanes: Lanes) -> str:
    """Return the status a build sets.

    Only a build whose lanes the touched files chose may satisfy branch protection.
    """
    return CONTEXT if lanes is Lanes.AUTO else f"{CONTEXT}/{lanes.value}"


def status(verdict: Verdict, reason: str, url: str, lanes: Lanes = Lanes.AUTO) -> Status:
    """Return the status for a verdict, its reason cut to what GitHub takes."""
    return Status(
        state=STATES[verdict],
        context=context(lanes),
        description=one_line(reason or f"verdict: {verdict.value}", MAX_DESCRIPTION),
        target_url=url,
    )


def read(name: str, content: bytes) -> tuple[Verdict, str]:
    """Return the verdict of one `verdict.json` and the reason in a few words.

    The file's own verdict is not taken on trust: a check that is worse wins, and no check at all is invalid.

    Raises:
        ValueError: the file is malformed or of an unknown schema.

    """
    try:
        found = VerdictFile.model_validate_json(content)
    except ValidationError as error:
        raise ValueError(f"{name} is malformed ({first_problem(error)})") from error
    if found.schema_ != 1:
        raise ValueError(f"{name} has schema {found.schema_}, known is 1")
    if not found.checks:
        return (Verdict.FAIL if found.verdict == "fail" else Verdict.INVALID), f"{found.scenario}: no checks"
    worst = _worst([Verdict(check.verdict) for check in found.checks])
    claimed = Verdict(found.verdict)
    if _worst([worst, claimed]) is not worst:
        return claimed, f"{found.scenario}: the file says {claimed.value}, its checks {worst.value}"
    return worst, f"{found.scenario}: {_why(found.checks)}"


def combine(verdicts: Sequence[tuple[Verdict, str]]) -> tuple[Verdict, str]:
    """Return the worst verdict, its reason first; nothing judged is invalid."""
    if not verdicts:
        return Verdict.INVALID, "no verdict was given"
    worst = _worst([verdict for verdict, _ in verdicts])
    return worst, "; ".join(reason for verdict, reason in verdicts if verdict is worst)


def _worst(verdicts: Sequence[Verdict]) -> Verdict:
    return max(verdicts, key=lambda verdict: WEIGHT[verdict])


def _why(checks: Sequence[Check]) -> str:
    for verdict in ("fail", "invalid"):
        bad = [check for check in checks if check.verdict == verdict]
        if bad:
            more = f" (+{len(bad) - 1} more)" if len(bad) > 1 else ""
            first = bad[0]
            return f"{first.name} {verdict}{more}, expected {_brief(first.expected)}, seen {_brief(first.seen)}"
    return f"{len(checks)} {'check' if len(checks) == 1 else 'checks'} passed"


def _brief(value: JsonValue) -> str:
    return one_line(value if isinstance(value, str) else repr(value), 40)

"""The verdict over all lanes: what the plan promised against what was delivered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from buildkite.ci_command.status import Check, Verdict, combine, read
from buildkite.pipeline.lane import VERDICT
from buildkite.pipeline.plan import OUT, Plan

PASSED = "passed"
"""What Buildkite calls the outcome of a step that ended with 0."""


@dataclass(frozen=True)
class Delivered:
    """One report as it was found, or not."""

    name: str
    verdict: Verdict
    reason: str
    document: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @property
    def check(self) -> Check:
        """The report as one check of the build."""
        return _check(self.name, self.verdict, "pass", self.reason)


def deliver(plan: Plan | None, root: Path, head: str | None) -> dict[str, list[Delivered]]:
    """Look for every report that was promised, by lane; ``root`` holds the downloaded artifacts."""
    if plan is None:
        return {}
    return {lane: [_find(root, folder, head) for folder in folders] for lane, folders in plan.reports.items()}


def _find(root: Path, folder: str, head: str | None) -> Delivered:
    name, place = folder.removeprefix(f"{OUT}/"), root / folder
    try:
        content = (place / VERDICT).read_bytes()
        verdict, reason = read(VERDICT, content)
    except OSError:
        return Delivered(name, Verdict.INVALID, f"no {VERDICT}: the lane did not report")
    except ValueError as error:
        return Delivered(name, Verdict.INVALID, str(error))
    document = json.loads(content)
    of = section(document, "change").get("head")
    if head and of != head:
        return Delivered(name, Verdict.INVALID, f"it is of {f'commit {of}' if of else 'no commit'}, not of {head}")
    return Delivered(name, verdict, reason, document, place)


def section(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a verdict.json, empty where it has none."""
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def judge_build(
    plan: Plan | None, delivered: Mapping[str, list[Delivered]], outcomes: Mapping[str, str], head: str | None
) -> list[Check]:
    """Return the checks of the build: the plan, every promised report, and that each step ended as it reported."""
    checks = [_judge_plan(plan, head)]
    for lane, reports in delivered.items():
        found = [report.check for report in reports]
        worst, _ = combine([(report.verdict, "") for report in reports])
        outcome = outcomes.get(lane) or "unknown"
        if worst is Verdict.PASS and outcome != PASSED:
            found.append(_check(f"{lane}/step", Verdict.INVALID, PASSED, f"{outcome}, though it reports a pass"))
        checks += found
    return checks


def _judge_plan(plan: Plan | None, head: str | None) -> Check:
    expected = "lanes chosen for this commit"
    if plan is None:
        return _check("plan", Verdict.INVALID, expected, "no plan was recorded")
    if plan.problem:
        return _check("plan", Verdict.INVALID, expected, plan.problem)
    if plan.head != head:
        return _check("plan", Verdict.INVALID, expected, f"chosen for {plan.head}, this build is of {head}")
    if missing := set(plan.needed) - set(plan.lanes) - set(plan.absent):
        return _check("plan", Verdict.INVALID, expected, f"no step for {', '.join(sorted(missing))}")
    if plan.needed and not plan.lanes:
        return _check("plan", Verdict.INVALID, expected, f"no agents here for {', '.join(plan.needed)}")
    return _check("plan", Verdict.PASS, expected, f"{', '.join(plan.lanes) or 'none'}: {plan.why}")


def judge_choice(plan: Plan | None, own: Plan) -> list[Check]:
    """Hold the build's plan against the verdict step's ``own``, made from the default branch's files.

    The build's plan comes from the change itself, and one that drops a lane, or a report of it, would judge itself by
    less.
    """
    if plan is None or plan.problem:
        return []
    expected = "every report that the default branch asks for"
    if own.problem:
        return [_check("choice", Verdict.INVALID, expected, own.problem)]
    asked = [folder for folders in own.reports.values() for folder in folders]
    promised = {folder for folders in plan.reports.values() for folder in folders}
    if left := [folder.removeprefix(f"{OUT}/") for folder in asked if folder not in promised]:
        return [_check("choice", Verdict.INVALID, expected, f"not planned: {', '.join(left)}")]
    return [_check("choice", Verdict.PASS, expected, f"all {len(asked)} are planned")]


def summarize(checks: list[Check]) -> tuple[Verdict, dict[str, Any]]:
    """Return the verdict of the build, and the verdict.json that its status is made from."""
    verdict, _ = combine([(Verdict(check.verdict), "") for check in checks])
    return verdict, {
        "schema": 1,
        "scenario": "dropgate",
        "verdict": verdict.value,
        "checks": [check.model_dump() for check in checks],
    }


def _check(name: str, verdict: Verdict, expected: str, seen: str) -> Check:
    return Check.model_validate({"name": name, "verdict": verdict.value, "expected": expected, "seen": seen})

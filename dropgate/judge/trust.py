"""May the evidence be believed at all? What is found here is named; where nothing is, there is no check.

An engine that was broken on purpose, two servers under each other's name, a clock that jumped: none of these says
anything about the option, and all of them can look like a result.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from dropgate.evidence import Evidence, PhaseEvidence, RequestRecord, VariantEvidence
from dropgate.faults import MARKER, VARIABLE
from dropgate.judge.verdict import Check, valid
from dropgate.law import VARIANT_NAMES
from dropgate.variants import OPTION

NO_FAULT = "engine.no_fault"


def judge_unbroken(evidence: Evidence) -> list[Check]:
    """Name servers that could be broken on purpose: such a run is never a pass, whatever else it shows."""
    found = {name: told for name, seen in evidence.variants.items() if (told := _fault(seen))}
    said = ", ".join(f"{name}: {told}" for name, told in found.items())
    return [valid(NO_FAULT, False, "engines that nobody can break on purpose", said)] if found else []


def _fault(seen: VariantEvidence) -> str | None:
    lines = [
        line
        for phase in seen.phases.values()
        for text in (phase.metrics_before, phase.metrics_after)
        for line in text.splitlines()
        if line.startswith(MARKER)
    ]
    if lines:
        return next((line.partition('fault="')[2].partition('"')[0] for line in lines), "") or "a switch, off"
    return "a switch" if VARIABLE in seen.server.environment else None


def judge_arms(evidence: Evidence) -> list[Check]:
    """Compare the option on each server's command line with what the scenario says of that variant."""
    odd = []
    for name in VARIANT_NAMES:
        seen = evidence.variants.get(name)
        told = _option(seen.server.command) if seen else None
        wanted = bool(getattr(evidence.scenario.variants, name).get(OPTION, False))
        if told is not None and told != wanted:
            odd.append(f"{name}: {str(told).lower()}, not {str(wanted).lower()}")
    seen_text = "; ".join(odd)
    return [valid("engine.arms", False, f"{OPTION} as the scenario has it for each variant", seen_text)] if odd else []


def _option(command: list[str]) -> bool | None:
    """Return the option's value on a command line; ``None`` where it has no speculative configuration."""
    if "--speculative-config" not in command[:-1]:
        return None
    return bool(json.loads(command[command.index("--speculative-config") + 1]).get(OPTION, False))


def judge_clock(stem: str, phase: PhaseEvidence) -> list[Check]:
    """Check that the phase's own times follow each other: sent, first token, finished, all within the phase."""
    odd = [f"#{record.index}" for record in phase.requests if not _follows(phase, record)]
    odd += ["the phase itself"] if phase.finished_s < phase.started_s else []
    seen = f"{len(odd)} that do not: {', '.join(odd[:3])}"
    return [valid(f"{stem}.clock", False, "times that follow each other", seen)] if odd else []


def _follows(phase: PhaseEvidence, record: RequestRecord) -> bool:
    times: Iterable[float | None] = (
        *(phase.started_s, record.sent_s, record.first_token_s),
        *(record.finished_s, phase.finished_s),
    )
    known = [moment for moment in times if moment is not None]
    return known == sorted(known)

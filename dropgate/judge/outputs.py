"""Scenario A's answers must be the same in both variants, token by token, but for ties that the control explains."""

from __future__ import annotations

from dataclasses import asdict

from dropgate.evidence import RequestRecord
from dropgate.judge.divergence import Divergence, control_movements, divergences, judge_rate, noise_bound
from dropgate.judge.verdict import Check, Outcome, Verdict, passes
from dropgate.judge.view import PhaseView


def judge_outputs(baseline: PhaseView, candidate: PhaseView, control_size: int) -> Outcome:
    """Judge that every answer is the same in both variants, with the baseline's own noise as the measure of a tie."""
    records, control = baseline.phase.requests, baseline.phase.control
    whole = len(control) == control_size and all(again.ok and again.cached_tokens == 0 for again in control)
    expected, seen = f"{control_size} cold answers", f"{len(control)} answers, cold: {'yes' if whole else 'no'}"
    checks = [passes("outputs.control", whole, expected, seen, otherwise=Verdict.INVALID)]
    if not whole:
        return Outcome(checks)
    repeated = [records[again.index] for again in control]
    bound = noise_bound(control_movements(repeated, control), len(records))
    found = divergences(records, candidate.phase.requests)
    wrong = [divergence for divergence in found if not divergence.is_tie(bound)]
    control_found = len(divergences(repeated, control))
    checks.append(_judge_tokens(records, wrong, len(found) - len(wrong), bound))
    checks.append(judge_rate("outputs.divergence_rate", len(found), len(records), control_found, len(control)))
    said = {"phase": baseline.name, "left_server": baseline.variant, "right_server": candidate.variant, "bound": bound}
    shown = [{**said, "tie": divergence.is_tie(bound), **asdict(divergence)} for divergence in found]
    return Outcome(checks, {"divergences": shown})


def _judge_tokens(records: list[RequestRecord], wrong: list[Divergence], ties: int, bound: float) -> Check:
    total = sum(len(record.token_ids) for record in records)
    expected = f"{total:,} equal output tokens, apart from ties that moved by at most {bound:.4f} (control's noise)"
    seen = f"{len(wrong)} of {len(records)} answers differ, {ties} ties"
    if wrong:
        seen += "; first: " + "; ".join(map(str, wrong[:3]))
    return passes("outputs.identical", not wrong, expected, seen)

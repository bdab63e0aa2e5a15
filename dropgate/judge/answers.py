"""Whole answers must be the same: variant against variant, and each against the target without speculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dropgate.evidence import PhaseEvidence, RequestRecord
from dropgate.judge.divergence import Divergence, control_movements, divergences, judge_rate, noise_bound
from dropgate.judge.verdict import Check, Outcome, passes, tokens, valid
from dropgate.judge.view import PhaseView
from dropgate.scenario.workloads import Gsm8k


@dataclass(frozen=True)
class _Pair:
    """Two servers' answers to the same prompts."""

    stem: str
    left: str
    right: str
    records: Sequence[RequestRecord]
    found: list[Divergence]

    def ties(self, bound: float) -> int:
        return sum(divergence.is_tie(bound) for divergence in self.found)


def judge_answers(phases: Sequence[tuple[PhaseView, PhaseView, PhaseEvidence | None]], work: Gsm8k) -> Outcome:
    """Judge either path: (baseline, candidate, oracle) each; the baseline's controls are the measure of noise."""
    checks: list[Check] = []
    facts: dict[str, Any] = {"compared": 0, "divergent": 0, "ties": 0, "control_compared": 0, "control_divergent": 0}
    facts |= {"oracle_compared": 0, "oracle_divergent": 0, "divergences": []}
    for baseline, candidate, oracle in phases:
        found = _judge_controls(baseline, work)
        checks += found
        if any(check.verdict != "pass" for check in found):
            continue
        checks += _judge_phase(baseline, candidate, oracle, work, facts)
    return Outcome(checks, facts)


def _judge_controls(baseline: PhaseView, work: Gsm8k) -> list[Check]:
    phase, stem = baseline.phase, f"{baseline.name}.answers"
    cold = sum(again.ok and again.cached_tokens == 0 for again in phase.control)
    warm = sum(again.ok for again in phase.warm_control)
    return [
        valid(
            f"{stem}.cold_control",
            cold == len(phase.control) == work.control > 0,
            f"{max(1, work.control)} answers with a cold cache",
            f"{cold} of {len(phase.control)}",
        ),
        valid(
            f"{stem}.warm_control",
            warm == len(phase.warm_control) == work.warm_control > 0,
            f"{max(1, work.warm_control)} answers again",
            f"{warm} of {len(phase.warm_control)}",
        ),
    ]


def _judge_phase(
    baseline: PhaseView, candidate: PhaseView, oracle: PhaseEvidence | None, work: Gsm8k, facts: dict[str, Any]
) -> list[Check]:
    records, stem = baseline.phase.requests, f"{baseline.name}.answers"
    again = [*baseline.phase.control, *baseline.phase.warm_control]
    repeated = [records[record.index] for record in again]
    control_found = divergences(repeated, again)
    positions = sum(len(record.token_ids) for record in records)
    movements = control_movements(repeated, again)
    # Movements have heavier tails than a normal law, so what the control itself showed counts as well.
    bound = max(noise_bound(movements, positions), max(map(abs, movements), default=0.0))
    pair = _pair(stem, "baseline", "candidate", records, candidate.phase.requests)
    facts["compared"] += len(records)
    facts["divergent"] += len(pair.found)
    facts["ties"] += pair.ties(bound)
    facts["control_compared"] += len(again)
    facts["control_divergent"] += len(control_found)
    checks = [_judge_pair(pair, bound)]
    checks.append(
        judge_rate(f"{stem}.divergence_rate", len(pair.found), len(records), len(control_found), len(repeated))
    )
    pairs = [pair]
    if work.oracle:
        told = oracle.requests if oracle else []
        checks.append(_judge_oracle(stem, told, records, work.oracle))
        if checks[-1].verdict == "pass":
            sides = (("baseline", records), ("candidate", candidate.phase.requests))
            pairs += [_pair(stem, "oracle", name, told, said[: len(told)]) for name, said in sides]
            checks += [_judge_pair(one, bound) for one in pairs[1:]]
            facts["oracle_compared"] += sum(len(one.records) for one in pairs[1:])
            facts["oracle_divergent"] += sum(len(one.found) for one in pairs[1:])
    facts["divergences"] += [_shown(baseline.name, one, divergence, bound) for one in pairs for divergence in one.found]
    return checks


def _pair(stem: str, left: str, right: str, records: Sequence[RequestRecord], others: Sequence[RequestRecord]) -> _Pair:
    return _Pair(stem, left, right, records, divergences(records, others))


def _judge_oracle(stem: str, told: list[RequestRecord], records: list[RequestRecord], count: int) -> Check:
    same = [record.prompt_sha256 for record in told] == [record.prompt_sha256 for record in records[:count]]
    whole = sum(record.ok and record.steps_accepted is None for record in told)
    return valid(
        f"{stem}.oracle",
        same and whole == count,
        f"{count} answers to the same prompts, without speculation",
        f"{whole} such answers of {len(told)}, the prompts are {'the same' if same else 'others'}",
    )


def _judge_pair(pair: _Pair, bound: float) -> Check:
    """Judge token by token: a divergence is a tie, or the answers are not the same."""
    wrong = [divergence for divergence in pair.found if not divergence.is_tie(bound)]
    total = sum(len(record.token_ids) for record in pair.records)
    seen = f"{len(wrong)} of {len(pair.records)} answers differ, {pair.ties(bound)} ties"
    if wrong:
        seen += "; first: " + "; ".join(map(str, wrong[:3]))
    return passes(
        f"{pair.stem}.{pair.left}_{pair.right}",
        not wrong,
        f"{tokens(total)} equal output tokens, apart from ties that moved by at most {bound:.4f} (control's noise)",
        seen,
    )


def _shown(phase: str, pair: _Pair, divergence: Divergence, bound: float) -> dict[str, Any]:
    said = {"phase": phase, "left_server": pair.left, "right_server": pair.right, "bound": bound}
    return {**said, "tie": divergence.is_tie(bound), **asdict(divergence)}

"""Evidence -> Judgement: pure, so that it can be repeated anywhere, years later. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dropgate.evidence import Evidence
from dropgate.judge.bench import judge_bench, judge_bench_pair
from dropgate.judge.measures import Measures, delta, measure, measure_acceptance, measure_accuracy
from dropgate.judge.nodes import judge_nodes
from dropgate.judge.promises import judge_promise, phases_of
from dropgate.judge.timing import timing_metrics
from dropgate.judge.validity import (
    Expected,
    expected_phases,
    judge_engine_state,
    judge_pair,
    judge_protocol,
    judge_run,
    judge_traffic,
)
from dropgate.judge.verdict import Check, Outcome, Verdict, combine, valid
from dropgate.judge.view import PhaseView, view_phase
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.metrics import CounterError

__all__ = ["Check", "Judgement", "Verdict", "judge"]


@dataclass(frozen=True)
class Judgement:
    """What a run's evidence amounts to."""

    verdict: Verdict
    checks: list[Check]
    metrics: dict[str, Measures]
    """By ``baseline``, ``candidate`` and ``delta``; a variant that could not be measured is left out.

    ``timing`` has the ratios of times, where blocks were taken for that.
    """
    promises: list[dict[str, Any]] = field(default_factory=list)
    """By promise of the scenario: its kind, its verdict and the numbers behind it."""


def judge(evidence: Evidence) -> Judgement:
    """Judge a run: validity first; a promise is only judged on a run, and on phases, that are worth it."""
    run = [*_guarded("run", judge_run, evidence).checks, *_guarded("nodes", judge_nodes, evidence).checks]
    views: dict[str, list[PhaseView]] = {}
    sections = {
        phase.name: _judge_phase(evidence, phase, views) for phase in expected_phases(evidence.scenario.workloads)
    }

    def worth(*phases: str) -> bool:
        checks = [*run, *(check for name in phases for check in sections[name])]
        return combine(check.verdict for check in checks) is Verdict.PASS

    checks = [*run, *(check for section in sections.values() for check in section)]
    promises = []
    for promise in evidence.scenario.promises:
        if worth(*phases_of(promise)):
            outcome = _guarded(promise.kind, judge_promise, evidence, views, promise)
        else:
            missing = valid(promise.kind, False, "a valid run", "not judged: see the checks above")
            outcome = Outcome([missing])
        checks += outcome.checks
        verdict = combine(check.verdict for check in outcome.checks)
        promises.append({**promise.model_dump(include={"kind", "path"}), "verdict": verdict, **outcome.facts})
    metrics = _metrics(evidence, views)
    if "prefix" in sections and worth("prefix") and (timing := timing_metrics(evidence)):
        metrics["timing"] = timing
    return Judgement(combine(check.verdict for check in checks), checks, metrics, promises)


def _judge_phase(evidence: Evidence, expected: Expected, views: dict[str, list[PhaseView]]) -> list[Check]:
    """Judge whether one phase is worth judging, in both variants and as a pair; readable views are added."""
    checks = []
    found = views.setdefault(expected.name, [])
    for variant in VARIANT_NAMES:
        checks += _guarded(f"{expected.name}.{variant}", _judge_variant, evidence, variant, expected, found).checks
    if len(found) == len(VARIANT_NAMES):
        same = judge_bench_pair if expected.driver == "bench" else judge_pair
        checks += _guarded(f"{expected.name}.pair", same, *found).checks
    return checks


def _judge_variant(evidence: Evidence, variant: VariantName, expected: Expected, views: list[PhaseView]) -> list[Check]:
    stem, seen = f"{expected.name}.{variant}", evidence.variants.get(variant)
    phase = seen.phases.get(expected.name) if seen else None
    if phase is None:
        return [valid(f"{stem}.ran", False, "the workload was run", "it was not")]
    if (phase.bench is not None) != (expected.driver == "bench"):
        return [valid(f"{stem}.driver", False, expected.driver, "another")]
    checks = [] if phase.bench else judge_protocol(stem, phase, expected)
    try:
        view = view_phase(expected.name, variant, phase)
    except CounterError as error:
        return [*checks, valid(f"{stem}.counters", False, "whole counters", str(error))]
    views.append(view)
    checks += judge_engine_state(view)
    if not phase.bench:
        return [*checks, judge_traffic(view, len(phase.requests))]
    return checks + judge_bench(view, expected, _prompt_lengths(evidence, expected))


def _prompt_lengths(evidence: Evidence, expected: Expected) -> list[int]:
    """Return the timed prompts' lengths in tokens, as the engine's own tokenizer gave them where they are questions."""
    if expected.prompt_tokens is not None:
        return [expected.prompt_tokens] * expected.requests
    asked = evidence.questions.token_ids if evidence.questions else []
    return [len(token_ids) for token_ids in asked]


def _metrics(evidence: Evidence, views: Mapping[str, Sequence[PhaseView]]) -> dict[str, Measures]:
    metrics: dict[str, Measures] = {}
    for name, found in views.items():
        for view in found:
            measures = metrics.setdefault(view.variant, {})
            measures |= measure(view) if name == "prefix" else {name: measure_acceptance(view)}
    for variant in VARIANT_NAMES:
        seen = evidence.variants.get(variant)
        if seen and seen.accuracy and variant in metrics:
            metrics[variant]["accuracy"] = measure_accuracy(seen.accuracy)
    if set(VARIANT_NAMES) <= set(metrics):
        metrics["delta"] = delta(metrics["baseline"], metrics["candidate"])
    return metrics


def _guarded(name: str, judge_part: Callable[..., list[Check] | Outcome], *arguments: object) -> Outcome:
    """Judge one part; a check that crashes is invalid, and says how."""
    try:
        found = judge_part(*arguments)
    except Exception as error:  # a crashed check must not read as a pass, nor end the judging of the others
        crashed = valid(name, False, "a check that runs", f"crashed: {type(error).__name__}: {error}")
        return Outcome([crashed])
    return found if isinstance(found, Outcome) else Outcome(found)

"""Evidence -> Judgement: pure, so that it can be repeated anywhere, years later. No I/O, no clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dropgate.evidence import Evidence
from dropgate.judge.bench import judge_bench_outputs, judge_bench_pair, judge_bench_prefix, judge_bench_validity
from dropgate.judge.identities import judge_identities
from dropgate.judge.measures import Measures, delta, measure
from dropgate.judge.nodes import judge_nodes
from dropgate.judge.outputs import judge_outputs
from dropgate.judge.prefix import judge_prefix
from dropgate.judge.timing import judge_timing, timing_metrics
from dropgate.judge.validity import judge_engine_state, judge_pair, judge_protocol, judge_run, valid
from dropgate.judge.verdict import Check, Verdict, combine
from dropgate.judge.view import PhaseView, view_phase
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.metrics import CounterError
from dropgate.scenario import OutputsPromise, PrefixPromise, Promise, TimingPromise

__all__ = ["Check", "Judgement", "Verdict", "judge"]


@dataclass(frozen=True)
class Judgement:
    """What a run's evidence amounts to."""

    verdict: Verdict
    checks: list[Check]
    metrics: dict[str, Measures]
    """By ``baseline``, ``candidate`` and ``delta``; a variant that could not be measured is left out."""


def judge(evidence: Evidence) -> Judgement:
    """Judge a run: validity first; a promise is only judged on a run that is worth it."""
    checks = _guarded("run", judge_run, evidence) + _guarded("nodes", judge_nodes, evidence)
    views: list[PhaseView] = []
    for variant in VARIANT_NAMES:
        checks += _guarded(f"prefix.{variant}", _judge_phase, evidence, variant, views)
    if len(views) == len(VARIANT_NAMES):
        sent_by_bench = all(view.phase.bench for view in views)
        checks += _guarded("pair", judge_bench_pair if sent_by_bench else judge_pair, *views)
    worth_judging = len(views) == len(VARIANT_NAMES) and combine(check.verdict for check in checks) is Verdict.PASS
    for promise in evidence.scenario.promises:
        if worth_judging:
            checks += _guarded(promise.kind, _judge_promise, evidence, views, promise)
        else:
            checks.append(valid(promise.kind, False, "a valid run", "not judged: see the checks above"))
    metrics = _metrics(views)
    if worth_judging and (timing := timing_metrics(evidence)):
        metrics["timing"] = timing
    return Judgement(combine(check.verdict for check in checks), checks, metrics)


def _metrics(views: list[PhaseView]) -> dict[str, Measures]:
    metrics: dict[str, Measures] = {view.variant: measure(view) for view in views}
    if len(views) == len(VARIANT_NAMES):
        metrics["delta"] = delta(metrics["baseline"], metrics["candidate"])
    return metrics


def _judge_phase(evidence: Evidence, variant: VariantName, views: list[PhaseView]) -> list[Check]:
    seen = evidence.variants.get(variant)
    phase = seen.phases.get("prefix") if seen else None
    if phase is None:
        return [valid(f"prefix.{variant}.ran", False, "the workload was run", "it was not")]
    work = evidence.scenario.workloads.prefix
    if (phase.bench is not None) != (work.driver == "bench"):
        return [valid(f"prefix.{variant}.driver", False, work.driver, "another")]
    checks = [] if phase.bench else judge_protocol(variant, phase, work)
    try:
        view = view_phase(variant, phase)
    except CounterError as error:
        return [*checks, valid(f"prefix.{variant}.counters", False, "whole counters", str(error))]
    views.append(view)
    return checks + (judge_bench_validity(view, work) if phase.bench else judge_engine_state(view))


def _judge_promise(evidence: Evidence, views: list[PhaseView], promise: Promise) -> list[Check]:
    baseline, candidate = views
    if isinstance(promise, TimingPromise):
        return judge_timing(evidence, promise)
    if (work := evidence.scenario.workloads.prefix).driver == "bench":
        if isinstance(promise, PrefixPromise):
            return judge_bench_prefix(baseline, candidate, work, promise)
        return judge_bench_outputs(baseline, candidate)
    if isinstance(promise, PrefixPromise):
        draft_length = int(evidence.scenario.speculative["num_speculative_tokens"])
        identities = [check for view in views for check in judge_identities(view, draft_length)]
        return judge_prefix(baseline, candidate, promise) + identities
    assert isinstance(promise, OutputsPromise)  # noqa: S101
    return judge_outputs(baseline, candidate, min(work.control, work.requests))


def _guarded(name: str, judge_part: Callable[..., list[Check]], *arguments: object) -> list[Check]:
    """Judge one part; a check that crashes is invalid, and says how."""
    try:
        return judge_part(*arguments)
    except Exception as error:  # a crashed check must not read as a pass, nor end the judging of the others
        return [valid(name, False, "a check that runs", f"crashed: {type(error).__name__}: {error}")]

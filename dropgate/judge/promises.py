"""Which judge hears which promise, and the phases that it is heard on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dropgate.evidence import ACCEPTANCE_PHASES, HIT_PHASE, Evidence
from dropgate.judge.acceptance import PHASE_OF_PATH, judge_acceptance, judge_band
from dropgate.judge.accuracy import judge_accuracy
from dropgate.judge.answers import judge_answers
from dropgate.judge.bench_totals import judge_bench_drafts, judge_bench_outputs, judge_bench_prefix
from dropgate.judge.identities import judge_identities
from dropgate.judge.outputs import judge_outputs
from dropgate.judge.prefix import judge_hits, judge_prefix
from dropgate.judge.timing import judge_timing
from dropgate.judge.verdict import Check, Outcome
from dropgate.judge.view import PhaseView
from dropgate.law import VARIANT_NAMES
from dropgate.scenario.promises import (
    AcceptanceBandPromise,
    AcceptancePromise,
    AccuracyPromise,
    HitPathPromise,
    OutputsPromise,
    PrefixPromise,
    Promise,
    TimingPromise,
)
from dropgate.scenario.workloads import PrefixRepetition

Views = Mapping[str, Sequence[PhaseView]]
"""By phase: the baseline's and the candidate's."""


def phases_of(promise: Promise) -> tuple[str, ...]:
    """Return the phases that must be worth judging before a promise is."""
    match promise:
        case PrefixPromise() | OutputsPromise() | TimingPromise():
            return ("prefix",)
        case AcceptancePromise() | AcceptanceBandPromise():
            return (PHASE_OF_PATH[promise.path],)
        case HitPathPromise():
            return (HIT_PHASE,)
        case AccuracyPromise():
            return ()
        case _:
            return ACCEPTANCE_PHASES


def judge_promise(evidence: Evidence, views: Views, promise: Promise) -> Outcome:
    """Judge one promise on phases that are worth it."""
    draft_length = int(evidence.scenario.speculative["num_speculative_tokens"])
    match promise:
        case PrefixPromise():
            return Outcome(_judge_prefix(evidence, views, promise, draft_length))
        case OutputsPromise():
            return _judge_outputs(evidence, views)
        case TimingPromise():
            return Outcome(judge_timing(evidence, promise))
        case AcceptancePromise():
            return judge_acceptance(*_pair(views, PHASE_OF_PATH[promise.path]), promise, draft_length)
        case HitPathPromise():
            return Outcome(judge_hits(*_pair(views, HIT_PHASE)))
        case AcceptanceBandPromise():
            return _judge_band(evidence, views, promise, draft_length)
        case AccuracyPromise():
            return _judge_accuracy(evidence, promise)
        case _:
            return _judge_answers(evidence, views)


def _pair(views: Views, phase: str) -> tuple[PhaseView, PhaseView]:
    baseline, candidate = views[phase]
    return baseline, candidate


def _prefix_work(evidence: Evidence) -> PrefixRepetition:
    assert evidence.scenario.workloads.prefix is not None  # noqa: S101  (the scenario was validated)
    return evidence.scenario.workloads.prefix


def _judge_prefix(evidence: Evidence, views: Views, promise: PrefixPromise, draft_length: int) -> list[Check]:
    pair, work = _pair(views, "prefix"), _prefix_work(evidence)
    if work.driver == "bench":
        return judge_bench_prefix(*pair, work, promise, draft_length)
    return judge_prefix(*pair, promise) + [check for view in pair for check in judge_identities(view, draft_length)]


def _judge_outputs(evidence: Evidence, views: Views) -> Outcome:
    pair, work = _pair(views, "prefix"), _prefix_work(evidence)
    if work.driver == "bench":
        return Outcome(judge_bench_outputs(*pair))
    return judge_outputs(*pair, min(work.control, work.requests))


def _judge_band(evidence: Evidence, views: Views, promise: AcceptanceBandPromise, draft_length: int) -> Outcome:
    """Judge the rates; where nothing else looks at the counters behind them, judge those first."""
    pair = _pair(views, PHASE_OF_PATH[promise.path])
    totals = [check for view in pair if view.phase.bench for check in judge_bench_drafts(view, draft_length)]
    band = judge_band(pair, promise, evidence.reference_rates)
    return Outcome([*totals, *band.checks], band.facts)


def _judge_accuracy(evidence: Evidence, promise: AccuracyPromise) -> Outcome:
    accuracy = evidence.scenario.accuracy
    assert accuracy is not None  # noqa: S101
    baseline, candidate = (evidence.variants[name].accuracy for name in VARIANT_NAMES)
    return judge_accuracy(baseline, candidate, accuracy.problems, promise)


def _judge_answers(evidence: Evidence, views: Views) -> Outcome:
    work = evidence.scenario.workloads.gsm8k
    assert work is not None  # noqa: S101
    oracle = evidence.variants.get("oracle")
    told = oracle.phases if oracle else {}
    sent = ACCEPTANCE_PHASES if work.driver == "client" else (HIT_PHASE,)
    phases = [(*_pair(views, name), told.get(name)) for name in sent]
    return judge_answers(phases, work)

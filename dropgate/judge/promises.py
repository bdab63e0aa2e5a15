"""Which judge hears which promise, and the phases that it is heard on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dropgate.evidence import Evidence
from dropgate.judge.acceptance import PHASE_OF_PATH, judge_acceptance, judge_band
from dropgate.judge.accuracy import judge_accuracy
from dropgate.judge.answers import judge_answers
from dropgate.judge.identities import judge_identities
from dropgate.judge.outputs import judge_outputs
from dropgate.judge.prefix import judge_hits, judge_prefix
from dropgate.judge.validity import ACCEPTANCE_PHASES, HIT_PHASE
from dropgate.judge.verdict import Outcome
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
)

Views = Mapping[str, Sequence[PhaseView]]
"""By phase: the baseline's and the candidate's."""


def phases_of(promise: Promise) -> tuple[str, ...]:
    """Return the phases that must be worth judging before a promise is."""
    match promise:
        case PrefixPromise() | OutputsPromise():
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
            identities = [check for view in views["prefix"] for check in judge_identities(view, draft_length)]
            return Outcome(judge_prefix(*_pair(views, "prefix"), promise) + identities)
        case OutputsPromise():
            return _judge_outputs(evidence, views)
        case AcceptancePromise():
            return judge_acceptance(*_pair(views, PHASE_OF_PATH[promise.path]), promise, draft_length)
        case HitPathPromise():
            return Outcome(judge_hits(*_pair(views, HIT_PHASE)))
        case AcceptanceBandPromise():
            return judge_band(_pair(views, PHASE_OF_PATH[promise.path]), promise, evidence.reference_rates)
        case AccuracyPromise():
            return _judge_accuracy(evidence, promise)
        case _:
            return _judge_answers(evidence, views)


def _pair(views: Views, phase: str) -> tuple[PhaseView, PhaseView]:
    baseline, candidate = views[phase]
    return baseline, candidate


def _judge_outputs(evidence: Evidence, views: Views) -> Outcome:
    work = evidence.scenario.workloads.prefix
    assert work is not None  # noqa: S101  (the scenario was validated)
    return judge_outputs(*_pair(views, "prefix"), min(work.control, work.requests))


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
    phases = [(*_pair(views, name), told.get(name)) for name in ACCEPTANCE_PHASES]
    return judge_answers(phases, work)

"""A replay's outcome as a judgement like any other run's: the same judge, the same verdict.json."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dropgate.judge import Judgement
from dropgate.judge.identities import judge_identities
from dropgate.judge.measures import delta, measure
from dropgate.judge.prefix import judge_prefix
from dropgate.judge.verdict import Check, combine
from dropgate.judge.view import PhaseView, view_phase
from dropgate.law import VARIANT_NAMES
from dropgate.replay.evidence import phase_evidence
from dropgate.replay.facts import worth_judging
from dropgate.replay.result import ReplayFacts
from dropgate.replay.run import Outcome
from dropgate.scenario.promises import PrefixPromise

TABLE = "scenario_a"
"""The workload whose counts are scenario A's table, where a layout has it."""

NOT_TIMED: dict[str, None] = {"request_throughput": None, "ttft_ms": None}
"""A replay's clock counts scheduler steps, not seconds."""


def replay_judgement(outcome: Outcome) -> Judgement:
    """Judge a replay: its own laws and, on scenario A's workload, what a server's run is judged by."""
    workload = next((one for one in outcome.scenario.workloads if one.name == TABLE and one.hits == "law"), None)
    if workload is None or not worth_judging(outcome.seen):
        return Judgement(combine(check.verdict for check in outcome.checks), list(outcome.checks), {})
    views = [view_phase("prefix", name, phase_evidence(outcome.seen.workload(TABLE, name))) for name in VARIANT_NAMES]
    checks = [*outcome.checks, *_checks(views, outcome.scenario.layout.drafter.num_speculative_tokens)]
    baseline, candidate = ({**measure(view), **NOT_TIMED} for view in views)
    metrics = {"baseline": baseline, "candidate": candidate, "delta": delta(baseline, candidate)}
    return Judgement(combine(check.verdict for check in checks), checks, metrics)


def _checks(views: list[PhaseView], draft_length: int) -> list[Check]:
    baseline, candidate = views
    identities = [check for view in views for check in judge_identities(view, draft_length)]
    return judge_prefix(baseline, candidate, PrefixPromise(kind="prefix_law")) + identities


def replay_heading(outcome: Outcome) -> str:
    """Return the heading of a replay's table."""
    facts = outcome.seen.facts
    commit = f" of commit {facts.engine.commit}" if facts and facts.engine.commit else ""
    return f"{outcome.seen.scenario}: {outcome.scenario.summary}\nvLLM {outcome.seen.vllm_version}{commit}, no model"


def replay_facts(outcome: Outcome) -> list[str]:
    """Return what a table of counts does not show: steps and deferrals, for each workload and both variants."""
    steps = replay_steps(outcome)
    return [
        f"steps:    {key}: {steps[key]['steps']}, at most {steps[key]['admitted_at_most']} admitted in one, "
        f"{steps[key]['deferred']} deferrals"
        for key in steps
        if key.startswith(f"{TABLE}/")
    ]


def replay_steps(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Return, for each ``workload/variant``, its scheduler steps, the most admitted in one, and all deferrals."""
    return {
        f"{seen.workload}/{seen.variant}": {
            "steps": len(seen.steps),
            "admitted_at_most": max((step.admitted for step in seen.steps), default=0),
            "deferred": sum(step.deferred for step in seen.steps),
        }
        for seen in outcome.seen.workloads
    }


def _facts(facts: ReplayFacts | None) -> dict[str, Any]:
    """Say of engine and change what a run's verdict.json says; nothing of a replay that was saved without them."""
    if facts is None:
        return {}
    commit = {"commit": facts.engine.commit} if facts.engine.commit else {}
    change = {"change": facts.change.model_dump(mode="json")} if facts.change else {}
    return {"engine": {"version": facts.engine.version, **commit}, **change, "dropgate": facts.dropgate}


def replay_document(outcome: Outcome, judgement: Judgement) -> dict[str, Any]:
    """Return the content of verdict.json; steps, admissions and deferrals stand beside the counts."""
    return {
        "schema": 1,
        "scenario": outcome.seen.scenario,
        "verdict": judgement.verdict,
        "engine": {"version": outcome.seen.vllm_version},
        **_facts(outcome.seen.facts),
        "checks": [asdict(check) for check in judgement.checks],
        "metrics": judgement.metrics,
        "steps": replay_steps(outcome),
    }

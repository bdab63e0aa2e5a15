"""verdict.json: the judgement for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from dropgate.evidence import Evidence
from dropgate.judge import Judgement

SCHEMA = 1


def verdict_document(evidence: Evidence, judgement: Judgement) -> dict[str, Any]:
    """Return the content of verdict.json; it follows from the evidence alone."""
    change = {"change": evidence.change.model_dump(mode="json")} if evidence.change else {}
    commit = {"commit": evidence.engine.commit} if evidence.engine.commit else {}
    return {
        "schema": SCHEMA,
        "scenario": evidence.scenario.name,
        "verdict": judgement.verdict,
        "engine": {"version": evidence.engine.version, **commit},
        **change,
        "dropgate": evidence.dropgate,
        "checks": [dataclasses.asdict(check) for check in judgement.checks],
        "metrics": judgement.metrics,
        **_promises(judgement),
        "costs": _costs(evidence),
    }


def _promises(judgement: Judgement) -> dict[str, Any]:
    """Return the numbers behind each promise, and the identity of the answers by itself."""
    found = {"promises": judgement.promises}
    identity = [promise for promise in judgement.promises if "control_divergent" in promise]
    return (
        {**found, "identity": {key: identity[0][key] for key in identity[0] if key not in ("kind", "verdict")}}
        if identity
        else found
    )


def _costs(evidence: Evidence) -> dict[str, float] | None:
    costs = evidence.costs
    return None if costs is None else {**costs.model_dump(), "added_share": costs.added_share}

"""`dropgate run` on a node of several: who leads, who follows, and what a follower leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from dropgate import __version__
from dropgate.console import Narrator
from dropgate.engine.interpreter import EngineIdentity, describe_engine
from dropgate.errors import EXIT_INVALID, DropgateError, EngineError
from dropgate.evidence_folder import EvidenceFolder
from dropgate.ranks.crew import ALONE, Crew
from dropgate.ranks.follower import Follower
from dropgate.ranks.leader import Leader
from dropgate.ranks.local import LocalFollowers
from dropgate.ranks.place import Place
from dropgate.scenario import Scenario


def crew_of(
    scenario: Scenario,
    place: Place | None,
    identity: EngineIdentity,
    narrator: Narrator,
    arguments: Sequence[str],
    out: Path,
) -> AbstractContextManager[Crew]:
    """Return rank 0's crew, with the ranks that it starts itself; nobody where one node is all."""
    if place is None:
        return nullcontext(ALONE)
    local = LocalFollowers(place, arguments, out) if place.local else None
    return Leader(scenario, place, identity, narrator.say, local)


def follow(
    scenario: Scenario,
    place: Place,
    require_node: Callable[[Scenario, Place], EngineIdentity],
    folder: EvidenceFolder,
    narrator: Narrator,
) -> tuple[int, dict[str, Any]]:
    """Take part as another rank than 0; return the exit code and verdict.json's content: rank 0's, if it was heard.

    A machine that lacks something says so to rank 0, which ends the run at once instead of waiting for it.
    """
    lacking = None
    try:
        identity = require_node(scenario, place)
    except DropgateError as error:
        lacking, identity = str(error), describe_engine()
    document = None
    try:
        code, document = Follower(scenario, place, identity, folder, narrator.say).follow(lacking)
        reason = lacking or f"rank 0 ended with code {code} and without a verdict"
    except EngineError as error:
        code, reason = EXIT_INVALID, str(error)
    return code, document or _invalid(scenario, place, identity, reason)


def _invalid(scenario: Scenario, place: Place, identity: EngineIdentity, reason: str) -> dict[str, Any]:
    check = {"name": f"ranks.{place.rank}", "verdict": "invalid", "expected": "rank 0's verdict", "seen": reason}
    return {
        "schema": 1,
        "scenario": scenario.name,
        "verdict": "invalid",
        "engine": {"version": identity.version},
        "dropgate": __version__,
        "checks": [check],
        "metrics": {},
        "costs": None,
    }

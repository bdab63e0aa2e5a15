"""What can be known before anything is started: the machine, the engine, the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dropgate.engine.interpreter import EngineIdentity, describe_engine, require_option
from dropgate.engine.process import require_free
from dropgate.errors import UnmetNeedError
from dropgate.host import unmet_need
from dropgate.ranks.place import Place
from dropgate.scenario import Scenario
from dropgate.variants import api_host
from dropgate.workload.accuracy import require_lm_eval, require_rows
from dropgate.workload.gsm8k import asked
from dropgate.workload.questions import Questions, load_questions


@dataclass(frozen=True)
class Prepared:
    """What is known before anything is started."""

    identity: EngineIdentity
    questions: Questions | None = None
    """What scenario B asks."""
    scored: Questions | None = None
    """What lm-eval scores."""


def require_node(scenario: Scenario, place: Place | None = None) -> EngineIdentity:
    """Look at one node: its hardware, its engine and, where the API is served, its port.

    Raises:
        UnmetNeedError: this machine lacks what the scenario needs.
        InputError: the engine or the port cannot be used.

    """
    if lacking := unmet_need(scenario.needs):
        raise UnmetNeedError(f"{scenario.name}: {lacking}")
    identity = require_option(describe_engine())
    if scenario.engine.port is not None and (place is None or place.rank == 0):
        require_free(scenario.name, api_host(scenario, place.address if place else None), scenario.engine.port)
    return identity


def prepare(
    scenario: Scenario,
    identity: EngineIdentity,
    gsm8k: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Prepared:
    """Look at the data of a run whose engine is known; ``gsm8k`` is a file of questions.

    Raises:
        UnmetNeedError: the data holds too little.
        InputError: it cannot be used.

    """
    if not (work := scenario.workloads.gsm8k):
        return Prepared(identity)
    questions = load_questions(gsm8k, say)
    asked(questions, work)
    if not work.accuracy:
        return Prepared(identity, questions)
    require_lm_eval()
    return Prepared(identity, questions, require_rows(questions, work.accuracy))

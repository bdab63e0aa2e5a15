"""Which engine was replayed, for which change, and whether it is the one that was asked for."""

from __future__ import annotations

import datetime

from dropgate import __version__
from dropgate.engine.interpreter import asked_commit, describe_engine
from dropgate.evidence import ChangeFacts, EngineFacts
from dropgate.host import change_under_test, host_facts
from dropgate.judge.validity import judge_commit
from dropgate.judge.verdict import Check, Verdict
from dropgate.replay.result import ReplayFacts, ReplaySeen


def gather_facts(interpreter: str, vllm_version: str) -> ReplayFacts:
    """Ask the interpreter and the environment what `dropgate run` asks them; ``vllm_version`` is what was replayed.

    Raises:
        InputError: the interpreter cannot be run.

    """
    identity, change = describe_engine(interpreter), change_under_test()
    known = identity.model_dump(include={"python", "packages", "commit"})
    return ReplayFacts(
        dropgate=__version__,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        host=host_facts(),
        engine=EngineFacts(**known, version=vllm_version, asked_commit=asked_commit()),
        change=ChangeFacts.model_validate(change) if change else None,
    )


def judge_facts(seen: ReplaySeen) -> list[Check]:
    """Check that the engine is of the commit that was asked for, if one was."""
    return judge_commit(seen.facts.engine) if seen.facts else []


def worth_judging(seen: ReplaySeen) -> bool:
    """Say whether what was replayed is the engine under test; another one's counts say nothing of it."""
    return all(check.verdict is Verdict.PASS for check in judge_facts(seen))

"""What `dropgate replay` does, less the printing of verdicts: replay, write references, make the matrix."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

from dropgate.errors import InputError
from dropgate.evidence_folder import write_new
from dropgate.judge.verdict import Verdict
from dropgate.replay.layout import load_replay
from dropgate.replay.matrix import table
from dropgate.replay.reference import REFERENCES, find_reference, make_reference, write_reference
from dropgate.replay.result import ReplaySeen
from dropgate.replay.run import Outcome, judge_replay, replay_in, replay_names, replay_path

SEEN = "replay.json"


def save_seen(seen: ReplaySeen, out: Path) -> Path:
    """Save what a replay saw to a folder; it is loaded back by `load_seen`.

    Raises:
        InputError: there is something of that name already.

    """
    path = out / SEEN
    if path.exists():
        raise InputError(f"--out {out}: {SEEN} is there already; evidence is never overwritten")
    write_new(path, seen.model_dump_json() + "\n")
    return path


def load_seen(folder: Path) -> ReplaySeen:
    """Load what a replay saw.

    Raises:
        InputError: the folder holds no replay, or one that does not fit.

    """
    path = folder / SEEN
    try:
        return ReplaySeen.model_validate_json(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except ValueError as error:
        raise InputError(f"{path}: not a replay: {str(error).splitlines()[0]}") from None


def write_references(names: Sequence[str], python: str | None = None, folder: Path = REFERENCES) -> list[Path]:
    """Replay scenarios (default: all) and write their references; refuses a run in which a check failed.

    Raises:
        InputError: a scenario does not fit, or a check besides the reference itself did not pass.

    """
    written = []
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    for seen in replay_in([replay_path(name) for name in names or replay_names()], python):
        outcome = judge_replay(load_replay(replay_path(seen.scenario)), seen, None)
        own = [one for one in outcome.checks if not one.name.endswith(".reference")]
        wrong = [one for one in own if one.verdict is not Verdict.PASS]
        if wrong:
            what = f"{wrong[0].name}: expected {wrong[0].expected}, saw {wrong[0].seen}"
            raise InputError(f"{seen.scenario}: no reference is written from a run that does not pass: {what}")
        written.append(write_reference(make_reference(seen, today), folder))
    return written


def version_matrix(pythons: Sequence[str], names: Sequence[str] = ()) -> str:
    """Replay scenarios (default: all) in every interpreter and render the counts that differ as Markdown."""
    by_version: dict[str, dict[str, ReplaySeen]] = {}
    for python in pythons:
        for seen in replay_in([replay_path(name) for name in names or replay_names()], python):
            by_version.setdefault(seen.vllm_version, {})[seen.scenario] = seen
    return table(by_version)


def judge_folder(folder: Path) -> Outcome:
    """Judge a saved replay again, without vLLM.

    Raises:
        InputError: there is no replay, or none of this repository's scenarios.

    """
    seen = load_seen(folder)
    return judge_replay(load_replay(replay_path(seen.scenario)), seen, find_reference(seen))

"""Replay scenarios by name, in a process of their own, and hold the result against laws and references."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dropgate.engine.environment import engine_environment
from dropgate.engine.interpreter import engine_python
from dropgate.errors import EXIT_BAD_INPUT, EngineError, InputError
from dropgate.judge.verdict import Check, valid
from dropgate.law import VARIANT_NAMES
from dropgate.replay.facts import gather_facts, judge_facts, worth_judging
from dropgate.replay.laws import judge_workload
from dropgate.replay.layout import ReplayScenario, load_replay
from dropgate.replay.reference import Reference, find_reference
from dropgate.replay.result import ReplaySeen

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "fixtures" / "scenarios" / "replay"
DEADLINE = 600.0
"""Seconds for one process, imports of vLLM and all."""


@dataclass(frozen=True)
class Outcome:
    """One replayed scenario and the checks of it."""

    scenario: ReplayScenario
    seen: ReplaySeen
    checks: tuple[Check, ...]


def replay_names() -> list[str]:
    """List the replay scenarios of this repository by name."""
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def replay_path(name: str) -> Path:
    """Find a replay scenario by name, or by its path.

    Raises:
        InputError: there is none; the known names are listed.

    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml"):
        return path
    if name not in replay_names():
        raise InputError(f"no replay '{name}' in {SCENARIOS}; known: {', '.join(replay_names())}")
    return SCENARIOS / f"{name}.yaml"


def run_replay(name: str, python: str | None = None) -> Outcome:
    """Replay a scenario on the vLLM of an interpreter (default: `DROPGATE_ENGINE_PYTHON`, else this one).

    Raises:
        InputError: the scenario is unknown or does not fit, or vLLM refuses its layout.
        EngineError: vLLM broke down, or the deadline passed.

    """
    return run_replays([name], python)[0]


def run_replays(names: Sequence[str], python: str | None = None) -> list[Outcome]:
    """Replay several scenarios in one process; raises as `run_replay` does."""
    scenarios = [load_replay(replay_path(name)) for name in names]
    replays = replay_in([replay_path(name) for name in names], python)
    return [
        judge_replay(scenario, seen, find_reference(seen)) for scenario, seen in zip(scenarios, replays, strict=True)
    ]


def judge_replay(scenario: ReplayScenario, seen: ReplaySeen, reference: Reference | None) -> Outcome:
    """Judge what a replay saw against the laws and, where there is one, its reference. Pure."""
    checks = judge_facts(seen)
    if not worth_judging(seen):
        checks.append(valid("laws", False, "the engine under test", "not judged: see the check above"))
        return Outcome(scenario, seen, tuple(checks))
    for workload in scenario.workloads:
        baseline, candidate = (seen.workload(workload.name, variant) for variant in VARIANT_NAMES)
        expected = reference.workloads.get(workload.name) if reference else None
        checks += judge_workload(scenario.layout, workload, baseline, candidate, expected)
    return Outcome(scenario, seen, tuple(checks))


def replay_in(paths: Sequence[Path], python: str | None = None, deadline: float = DEADLINE) -> list[ReplaySeen]:
    """Run the worker in an interpreter and load what it saw; `deadline` is in seconds.

    Raises:
        InputError: the worker refused a scenario; its own line says why.
        EngineError: the worker died or ran out of time.

    """
    interpreter = python or engine_python()
    if os.sep in interpreter:
        interpreter = os.path.abspath(interpreter)  # noqa: PTH100  (a venv's python is a link that must stay one)
    with tempfile.TemporaryDirectory(prefix="dropgate-replay-") as folder:
        command = [interpreter, "-m", "dropgate.replay.worker", folder, *(str(path.resolve()) for path in paths)]
        environment = {**engine_environment(os.environ, {}, folder), "PYTHONPATH": str(ROOT)}
        try:
            done = subprocess.run(
                command, env=environment, cwd=folder, capture_output=True, text=True, timeout=deadline
            )
        except subprocess.TimeoutExpired:
            raise EngineError(f"the replay did not end within {deadline:g} s: {paths[0]}") from None
        if done.returncode:
            raise _error(done)
        names = [load_replay(path).name for path in paths]
        replays = [ReplaySeen.model_validate_json((Path(folder) / f"{name}.json").read_text()) for name in names]
    facts = gather_facts(interpreter, replays[0].vllm_version) if replays else None
    return [seen.model_copy(update={"facts": facts}) for seen in replays]


def _error(done: subprocess.CompletedProcess[str]) -> Exception:
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}, no message"]
    if done.returncode == EXIT_BAD_INPUT and lines[-1].startswith("dropgate: "):
        return InputError(lines[-1].removeprefix("dropgate: "))
    return EngineError(f"the replay broke down: {lines[-1]}")

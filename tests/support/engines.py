"""Real engines, booted once a session and shared by the tests of one xdist group."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dropgate.engine.interpreter import describe_engine
from dropgate.engine.server import Server, wait_ready
from dropgate.evidence import Evidence, QuestionSet
from dropgate.law import VARIANT_NAMES, ServerName, VariantName
from dropgate.scenario import Scenario, load_scenario
from dropgate.selftest.bench import measure as measure_works
from dropgate.selftest.bench import plans_of, put_together
from dropgate.variants import variant
from dropgate.workload.gsm8k import question_set
from dropgate.workload.questions import Questions

UNIT = 128
SMALL = (
    "workloads.prefix.requests=24",
    "workloads.prefix.concurrency=8",
    f"workloads.prefix.prefix_tokens={3 * UNIT}",
    "workloads.prefix.suffix_tokens=64",
    f"engine.flags.block-size={UNIT}",
    'engine.environment.OMP_NUM_THREADS="1"',
    "promises=[{kind: prefix_law}, {kind: same_outputs}]",
)
"""The embedded default with a small unit, a prefix of three units and few requests."""

Measure = Callable[..., Evidence]


@pytest.fixture(scope="session")
def small() -> Scenario:
    """The embedded default, small."""
    return load_scenario("tiny_eagle3_cpu", SMALL)


@pytest.fixture(scope="session")
def engines(small: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[VariantName, Server]]:
    """Both variants' real servers, ready."""
    folder = tmp_path_factory.mktemp("engines")
    python = describe_engine().python
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(Server(small, variant(small, name), python, folder / f"{name}.log"))
            for name in VARIANT_NAMES
        }
        wait_ready(list(servers.values()))
        yield servers


@pytest.fixture(scope="session")
def measure(small: Scenario) -> Measure:
    """Run the small scenario on any two running servers, whichever option each has."""

    def run_on(baseline: Server, candidate: Server, scenario: Scenario = small) -> Evidence:
        return measured({"baseline": baseline, "candidate": candidate}, scenario)

    return run_on


def measured(
    servers: dict[ServerName, Server], scenario: Scenario, asked: dict[ServerName, QuestionSet] | None = None
) -> Evidence:
    """Run a scenario's phases on servers that are ready, whichever option each has, as ``dropgate run`` does.

    ``asked`` are each server's questions, where the scenario has any.
    """
    plans = {name: plans_of(scenario, name, asked and asked[name]) for name in servers}
    seen, errors = measure_works(servers, scenario, plans)
    assert errors == []
    return put_together(scenario, seen, asked=asked and asked["baseline"])


def tokenised(server: Server, scenario: Scenario, questions: Questions) -> QuestionSet:
    """Turn questions into token ids by one server's tokenizer, so that all are sent the very same."""
    assert scenario.workloads.gsm8k
    return question_set(questions, scenario.workloads.gsm8k, server.tokenize)


def dropgate_command(*arguments: str) -> list[str]:
    """Return the command line of the tool under this interpreter."""
    return [sys.executable, "-m", "dropgate.cli", *arguments]


def run_dropgate(*arguments: str, timeout: float = 600, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the tool as a user would, with variables of the environment replaced."""
    command, env = dropgate_command(*arguments), {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, cwd=ROOT, env=env)


ROOT = Path(__file__).resolve().parents[2]

"""Clean pairs, over and over: how many of them the gate does not let pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from dropgate.engine.server import Server, stop_together, wait_ready
from dropgate.evidence import QuestionSet, VariantEvidence
from dropgate.judge import judge
from dropgate.law import ServerName
from dropgate.scenario import Scenario
from dropgate.selftest.bench import Seen, identity, measure, plans_of, put_together
from dropgate.selftest.works import WorkName, work_scenario
from dropgate.variants import variant
from dropgate.workload.gsm8k import question_set
from dropgate.workload.questions import GENERATED, Questions, load_questions

PAIRS: dict[str, dict[WorkName, tuple[str, ...]]] = {
    "A/A": {
        "prefix": ("variants.candidate={}", "promises=[{kind: same_outputs}]"),
        "answers": (
            "variants.candidate={}",
            "promises=[{kind: acceptance, path: cold, margin_pp: 1.0}, {kind: acceptance, path: hit, margin_pp: 1.5}, "
            "{kind: same_answers}]",
        ),
    },
    "A/B": {
        "prefix": (),
        "answers": (
            "promises=[{kind: acceptance, path: cold, margin_pp: 1.0}, {kind: acceptance, path: hit, margin_pp: 1.5}, "
            "{kind: hit_path_law}, {kind: same_answers}]",
        ),
    },
}
"""What is promised of two equal servers, and of the two variants."""


ROLES: dict[str, ServerName] = {"baseline": "baseline", "A/A": "candidate", "A/B": "candidate", "oracle": "oracle"}
"""The servers by name, and as what each is asked."""


AT_ONCE = 2
"""Servers that are asked at the same time: counts and answers are compared, not times."""


def count_false_alarms(folder: Path, runs: int, say: Callable[[str], None]) -> tuple[int, int]:
    """Return how many clean runs were not a pass, of how many: ``runs`` of either pair, on engines booted once.

    Every run has prompts and questions of its own, so that no two have the same ties.
    """
    alarms = 0
    with ExitStack() as stack:
        servers = {name: stack.enter_context(_server(name, folder)) for name in ROLES}
        wait_ready(list(servers.values()), say)
        for number in range(runs):
            odd = _run(servers, number)
            alarms += sum(map(bool, odd.values()))
            for pair, checks in odd.items():
                say(f"run {number + 1} of {runs}, {pair}: {'; '.join(checks) or 'pass'}")
        stop_together(list(servers.values()))
    return alarms, runs * len(PAIRS)


def _server(name: str, folder: Path) -> Server:
    """Prepare one of four servers: the baseline, one more like it, the candidate, and the target alone."""
    scenario = work_scenario("answers", PAIRS[name]["answers"] if name in PAIRS else ())
    log = folder / f"{name.replace('/', '-')}.log"
    return Server(scenario, variant(scenario, ROLES[name]), identity().python, log)


def _run(servers: Mapping[str, Server], number: int) -> dict[str, list[str]]:
    """Run both works on both pairs; return what did not pass, by pair."""
    odd: dict[str, list[str]] = {pair: [] for pair in PAIRS}
    for work, own in _own_sizes(number).items():
        asked = _asked(servers["baseline"], number) if work == "answers" else None
        one = partial(_seen, scenario=work_scenario(work, own), asked=asked)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sides = dict(zip(servers, pool.map(one, servers.values(), servers), strict=True))
        for pair, promised in PAIRS.items():
            scenario = work_scenario(work, (*own, *promised[work]))
            seen: Seen = {"baseline": sides["baseline"][0], "candidate": sides[pair][0]}
            errors = [*sides["baseline"][1], *sides[pair][1]]
            if scenario.workloads.gsm8k:
                seen, errors = {**seen, "oracle": sides["oracle"][0]}, errors + sides["oracle"][1]
            judgement = judge(put_together(scenario, seen, errors, asked))
            odd[pair] += [f"{check.name}: {check.seen}" for check in judgement.checks if check.verdict != "pass"]
    return odd


def _own_sizes(number: int) -> dict[WorkName, tuple[str, ...]]:
    return {"prefix": (f"workloads.prefix.seed={number}",), "answers": ()}


def _asked(server: Server, number: int) -> QuestionSet:
    """Return this run's own slice of the questions."""
    work = work_scenario("answers").workloads.gsm8k
    assert work is not None  # noqa: S101
    rows = load_questions(GENERATED).rows
    start = number * work.questions % (len(rows) - work.questions)
    return question_set(Questions("a slice", rows[start : start + work.questions]), work, server.tokenize)


def _seen(
    server: Server, name: str, scenario: Scenario, asked: QuestionSet | None
) -> tuple[VariantEvidence, list[str]]:
    role = ROLES[name]
    seen, errors = measure({role: server}, scenario, {role: plans_of(scenario, role, asked)})
    return seen[role], errors

"""Every fault against the gate: what it said, what it should have said."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dropgate.engine.server import Server, wait_ready
from dropgate.errors import DropgateError, EngineError, InputError
from dropgate.evidence import Evidence, VariantEvidence
from dropgate.judge import Verdict, judge
from dropgate.judge.trust import NO_FAULT
from dropgate.measure import server_facts
from dropgate.selftest.bench import Bench, measure, odd_checks, saved_and_loaded, verdict_of
from dropgate.selftest.harness import HARNESS, Place
from dropgate.selftest.models import broken, noisy
from dropgate.selftest.rows import REFUSED, ROWS, Row
from dropgate.selftest.works import work_scenario
from dropgate.variants import variant

BOOTED_BROKEN = {"dies_at_boot"}
"""Faults that are active before their engine boots."""
CLEAN_EVERY = 12
"""Faults after which the engines are shown to be clean again."""


@dataclass(frozen=True)
class Outcome:
    """What the gate said of one fault."""

    row: Row
    verdict: str
    named: tuple[str, ...]
    """The checks that did not pass, or what the refusal said."""
    seconds: float
    problem: str = ""
    """Why this is not what was expected; empty where it is."""


def run_rows(bench: Bench, rows: Sequence[Row], say: Callable[[str], None]) -> Iterator[Outcome]:
    """Try every fault on booted engines; those are shown to be clean before, now and then, and after.

    Raises:
        NotCleanError: they are not in the end; before that, the faults on such a workload are not as expected.

    """
    for number, row in enumerate(rows, 1):
        outcome = _tried(bench, number, row)
        say(f"{number} of {len(rows)}: {told(outcome)}")
        yield outcome
        if number % CLEAN_EVERY == 0:
            bench.clean("prefix", again=True)
    for work in dict.fromkeys(row.work for row in rows):
        bench.clean(work, again=True)
    say("without a fault the engines pass, before and after")


def told(outcome: Outcome) -> str:
    """Say one outcome in a line."""
    row = outcome.row
    seen = f"{outcome.verdict}, {', '.join(outcome.named[:3]) or 'nothing named'}"
    good = "as expected" if not outcome.problem else f"NOT AS EXPECTED ({outcome.problem})"
    return f"{row.fault} in {' and '.join(row.variants)}: {seen}; {good}; {outcome.seconds:.0f} s"


def _tried(bench: Bench, number: int, row: Row) -> Outcome:
    began, fired = time.monotonic(), None
    folder = bench.folder / f"{number:02}-{row.fault}"
    try:
        evidence, fired = HOW[row.put](bench, row, folder)
        judgement = judge(saved_and_loaded(evidence, folder / "evidence"))
        verdict: str = verdict_of(judgement)
        odd = odd_checks(judgement)
        named = tuple(name for name, check in odd.items() if check.verdict == row.verdict) or tuple(odd)
        right = row.check in odd and odd[row.check].verdict == row.verdict
        marked = any(check.name == NO_FAULT for check in judgement.checks)
        if row.put == "switch" and not marked:
            return Outcome(
                row, verdict, named, time.monotonic() - began, "the evidence does not say that it was broken"
            )
    except DropgateError as error:
        verdict = REFUSED if isinstance(error, InputError) else Verdict.INVALID
        named, right = (str(error),), row.check in str(error)
    problem = "" if verdict == row.verdict else f"expected {row.verdict}"
    problem = problem or ("" if right else f"{row.check} is not named")
    problem = "the fault never did anything" if fired == 0 else problem
    return Outcome(row, verdict, named, time.monotonic() - began, problem)


Tried = tuple[Evidence, int | None]
"""What was seen, and how often the fault did something where that can be told."""


def _switched(bench: Bench, row: Row, _: Path) -> Tried:
    try:
        return bench.broken(row.work, row.sets, row.fault, row.variants), bench.fired(row.work, row.variants)
    finally:
        bench.mend()


def _booted(bench: Bench, row: Row, folder: Path) -> Tried:
    """Boot a candidate for this fault alone."""
    clean, scenario = bench.clean(row.work, row.sets), work_scenario(row.work, row.sets)
    switch = None
    if row.fault in WEIGHTS:
        scenario = broken(scenario, *WEIGHTS[row.fault], folder / "model")
        server = Server(scenario, variant(scenario, "candidate"), bench.python, bench.folder / f"{row.fault}.log")
    else:
        server, switch = bench.armed(scenario, "candidate", row.fault)
    if switch and row.fault in BOOTED_BROKEN:
        switch.turn_to(row.fault)
    try:
        with server:
            wait_ready([server])
            if switch:
                switch.turn_to(row.fault)
            seen, errors = measure({"candidate": server}, scenario, {"candidate": bench.plans(scenario, "candidate")})
    except EngineError as error:
        seen, errors = {"candidate": VariantEvidence(server=server_facts(server, 0.0))}, [str(error)]
    evidence = bench.evidence(work_scenario(row.work, row.sets), {**clean, **seen}, errors)
    return evidence, switch.fired() if switch else None


WEIGHTS = {"draft_weights_noisy": ("draft", noisy)}


def _misused(bench: Bench, row: Row, folder: Path) -> Tried:
    folder.mkdir()
    return HARNESS[row.fault](Place(bench, row.work, folder)), None


HOW: dict[str, Callable[[Bench, Row, Path], Tried]] = {"switch": _switched, "boot": _booted, "harness": _misused}


def chosen(names: Sequence[str], short: bool) -> list[Row]:
    """Return the rows that are asked for: by name, the short ones, or all.

    Raises:
        InputError: there is no such fault.

    """
    if unknown := set(names) - {row.fault for row in ROWS}:
        raise InputError(
            f"no fault named {', '.join(sorted(unknown))}; there are {', '.join(row.fault for row in ROWS)}"
        )
    return [row for row in ROWS if (row.short or not short) and (row.fault in names or not names)]

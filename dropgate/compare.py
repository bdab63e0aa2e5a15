"""`dropgate compare DIR1 DIR2`: two runs side by side; counts exactly, times only as ratios within a run."""

from __future__ import annotations

import argparse
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from dropgate.evidence import ACCEPTANCE_PHASES, Evidence, PhaseEvidence
from dropgate.evidence_folder import load_evidence
from dropgate.judge import Judgement, Verdict, judge
from dropgate.judge.bench import OWN, told
from dropgate.replay.command import SEEN, judge_folder
from dropgate.replay.judgement import replay_judgement
from dropgate.report.tables import DASH, Row, result_tables
from dropgate.report.terminal import STYLES, WIDTH


@dataclass(frozen=True)
class Side:
    """One of the runs."""

    folder: Path
    engine: str
    machine: str
    work: dict[str, str]
    """By table: what was sent, as one word; counts of other work are not comparable."""
    verdict: Verdict
    rows: dict[tuple[str, str], Row]
    """By table and metric."""


@dataclass(frozen=True)
class Difference:
    """One count of one variant: the same, or not, or not to be compared."""

    table: str
    metric: str
    variant: str
    values: tuple[str, str]
    state: str


SAME, DIFFERS, OTHER_WORK, MISSING = "same", "differs", "other work", "missing"


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    text = "lay two saved runs side by side: counts exactly, times only as ratios within a run"
    parser = commands.add_parser("compare", help=text, description=f"{text}. Exit code 1: a count differs.")
    for name in ("first", "second"):
        parser.add_argument(name, type=Path, metavar="DIR", help="a folder that `dropgate run` or `replay` wrote")
    parser.set_defaults(command=_compare)


def _compare(options: argparse.Namespace) -> int:
    sides = load_side(options.first), load_side(options.second)
    counts = differences(*sides)
    print_comparison(sides, counts, Console(highlight=False, width=WIDTH))
    return verdict_of(counts, sides).exit_code


def load_side(folder: Path) -> Side:
    """Load and judge a run or a replay.

    Raises:
        InputError: there is neither, or it cannot be read.

    """
    if (folder / SEEN).is_file():
        outcome = judge_folder(folder)
        judgement, work = replay_judgement(outcome), outcome.seen.scenario
        return _side(folder, f"vLLM {outcome.seen.vllm_version}", "no engine", judgement, lambda _: work)
    evidence = load_evidence(folder)
    side = folder, evidence.engine.title, evidence.machine, judge(evidence)
    return _side(*side, lambda name: _work(evidence, name))


def _side(folder: Path, engine: str, machine: str, judgement: Judgement, work: Any) -> Side:
    tables = result_tables(judgement, None, None)
    rows = {(table.name, row.metric): row for table in tables for row in table.rows}
    return Side(folder, engine, machine, {table.name: work(table.name) for table in tables}, judgement.verdict, rows)


PHASES = {
    "prefix cache": "prefix",
    **dict(zip(("acceptance, cold", "acceptance, hit path"), ACCEPTANCE_PHASES, strict=True)),
}


def _work(evidence: Evidence, table: str) -> str:
    """Return a checksum over what was sent: every prompt in order, and how."""
    baseline, workloads = evidence.variants["baseline"], evidence.scenario.workloads
    phase = baseline.phases.get(PHASES.get(table, ""))
    prompts = _prompts(phase, evidence) if phase else []
    scored = [sample.prompt_sha256 for sample in baseline.accuracy.samples] if baseline.accuracy else []
    how = workloads.prefix if table == "prefix cache" else workloads.gsm8k
    keys = {"concurrency", "output_tokens", "populate"}
    sent = {"how": how.model_dump(include=keys) if how else None, "prompts": prompts if phase else scored}
    return hashlib.sha256(json.dumps(sent).encode()).hexdigest()


def _prompts(phase: PhaseEvidence, evidence: Evidence) -> list[str]:
    if phase.bench is None:
        return [record.prompt_sha256 for record in phase.requests]
    said = told(phase.bench.timed, OWN | {"--dataset-path"})
    return [*said, evidence.questions.sha256 if evidence.questions else ""]


def differences(one: Side, other: Side) -> list[Difference]:
    """Compare every count that either run has; rates and times are no counts."""
    found = []
    for key in dict.fromkeys([*one.rows, *other.rows]):
        rows = one.rows.get(key), other.rows.get(key)
        if any(row and row.kind != "count" for row in rows):
            continue
        for variant in ("baseline", "candidate"):
            left, right = (getattr(row, variant) if row else DASH for row in rows)
            if one.work.get(key[0]) != other.work.get(key[0]):
                state = OTHER_WORK
            elif DASH in (left, right):
                state = MISSING
            else:
                state = SAME if left == right else DIFFERS
            found.append(Difference(*key, variant, (left, right), state))
    return found


def verdict_of(counts: list[Difference], sides: tuple[Side, Side]) -> Verdict:
    """Return fail where a count differs, invalid where a run is or where not every count can be compared."""
    states = {one.state for one in counts}
    if DIFFERS in states:
        return Verdict.FAIL
    if states != {SAME} or any(side.verdict is Verdict.INVALID for side in sides):
        return Verdict.INVALID
    return Verdict.PASS


def print_comparison(sides: tuple[Side, Side], counts: list[Difference], console: Console) -> None:
    """Print the runs, their counts, and the ratios that may be compared."""
    for number, side in enumerate(sides, 1):
        console.print(f"{number}: {side.folder}: {side.verdict}; {side.engine}; {side.machine}", markup=False)
    table = _table("count", "variant", "1", "2", "")
    for one in counts:
        style = {SAME: "green", DIFFERS: "bold red"}.get(one.state, "yellow")
        table.add_row(f"{one.table}: {one.metric}", one.variant, *one.values, f"[{style}]{one.state}[/]")
    console.print(table)
    ratios = _ratios(*sides)
    if ratios:
        table = _table("change by the option, within each run", "1", "2")
        for row in ratios:
            table.add_row(*row)
        console.print(table)
    if sides[0].machine != sides[1].machine:
        console.print("The machines differ, so no time of one is laid beside a time of the other.")
    verdict = verdict_of(counts, sides)
    differ = sum(one.state == DIFFERS for one in counts)
    same = sum(one.state == SAME for one in counts)
    console.print(f"verdict:  {verdict}", style=STYLES[verdict], end="")
    console.print(f" ({same} of {len(counts)} counts are the same, {differ} differ)", markup=False)


def _ratios(one: Side, other: Side) -> list[tuple[str, str, str]]:
    """Return what the option changes within either run, where both did the same work."""
    return [
        (f"{key[0]}: {row.metric}", row.change, other.rows[key].change)
        for key, row in one.rows.items()
        if row.kind != "count" and key in other.rows and one.work.get(key[0]) == other.work.get(key[0])
    ]


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in ("1", "2") else "left", overflow="fold")
    return table

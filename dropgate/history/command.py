"""`dropgate history add | list | show`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from dropgate.errors import EXIT_PASS, InputError
from dropgate.evidence_folder import load_evidence
from dropgate.history.store import Run, add, history, runs
from dropgate.history.trend import grouped, trends, write_textfile
from dropgate.judge import Verdict, judge
from dropgate.report.save import replace_text
from dropgate.report.terminal import STYLES, WIDTH

DATABASE = Path("runs") / "history.sqlite3"


def add_parser(commands: Any) -> None:
    """Add the command to the command line."""
    text = "keep verdicts and measures of many runs, and show how they change"
    actions = commands.add_parser("history", help=text, description=text).add_subparsers(
        required=True, metavar="ACTION"
    )
    adding = _action(actions, "add", "judge saved runs and add them; a run is added once", _add)
    adding.add_argument("folders", type=Path, metavar="DIR", nargs="+", help="folders that `dropgate run` wrote")
    listing = _action(actions, "list", "list the runs, oldest first", _list)
    showing = _action(actions, "show", "show each measure's level by scenario and machine, and where it changed", _show)
    showing.add_argument("--html", type=Path, metavar="FILE", help="write the trends as a page")
    for parser in (listing, showing):
        parser.add_argument("--scenario", help="only this one")
    for parser in (adding, showing):
        parser.add_argument("--prom", type=Path, metavar="FILE", help="write the newest runs for Prometheus (.prom)")


def _action(
    actions: Any, name: str, text: str, command: Callable[[argparse.Namespace], int]
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(name, help=text, description=text)
    parser.add_argument("--db", type=Path, default=DATABASE, metavar="FILE", help=f"the history (default: {DATABASE})")
    parser.set_defaults(command=command)
    return parser


def _add(options: argparse.Namespace) -> int:
    seen = [(folder, load_evidence(folder)) for folder in options.folders]
    with history(options.db, create=True) as connection:
        for folder, evidence in seen:
            judgement = judge(evidence)
            new = add(connection, folder, evidence, judgement)
            sys.stdout.write(f"{folder}: {judgement.verdict}, {'added' if new else 'known already'}\n")
        found = runs(connection)
    if options.prom:
        write_textfile(options.prom, found)
    return EXIT_PASS


def _list(options: argparse.Namespace) -> int:
    console, table = _console(), _table("run", "scenario", "engine", "verdict", "checks")
    for run in _found(options):
        style = STYLES[Verdict(run.verdict)]
        checks = f"{run.checks_passed}/{run.checks}"
        table.add_row(run.created, run.scenario, run.engine[:14], f"[{style}]{run.verdict}[/]", checks)
    console.print(table)
    return EXIT_PASS


def _show(options: argparse.Namespace) -> int:
    found = _found(options)
    console = _console()
    for (scenario, hardware), group in grouped(found).items():
        console.print(f"{scenario}: {hardware}, {len(group)} runs", markup=False)
        table = _table("", "variant", "first", "newest", "changes of level")
        for trend in trends(group):
            for variant, values in trend.values.items():
                places = [f"{trend.runs[place].engine[:14]}" for place in trend.changes[variant]]
                ends = (f"{values[0]:,.6g}", f"{values[-1]:,.6g}")
                table.add_row(trend.title, variant, *ends, ", ".join(places) or "none")
        console.print(table)
    if options.html:
        from dropgate.history.page import trend_page  # the pictures' library takes longer to load than all else

        replace_text(options.html, trend_page(found))
        console.print(f"page: {options.html}", markup=False)
    if options.prom:
        write_textfile(options.prom, found)
    return EXIT_PASS


def _found(options: argparse.Namespace) -> list[Run]:
    with history(options.db) as connection:
        found = runs(connection, options.scenario)
    if not found:
        raise InputError(f"--db {options.db}: no run{f' of {options.scenario}' if options.scenario else ''}")
    return found


def _console() -> Console:
    return Console(highlight=False, width=WIDTH)


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table

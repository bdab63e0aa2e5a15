"""``python -m dropgate.selftest``: the kill matrix, false alarms, kills at any moment."""

from __future__ import annotations

import argparse
import datetime
import signal
import sys
import time
from pathlib import Path

from dropgate.console import Narrator, fail_line
from dropgate.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_INVALID, EXIT_PASS, DropgateError, InputError
from dropgate.host import host_facts
from dropgate.selftest.alarms import count_false_alarms
from dropgate.selftest.bench import Bench, NotCleanError
from dropgate.selftest.lifecycle import run_rounds
from dropgate.selftest.matrix import Outcome, chosen, run_rows, told
from dropgate.selftest.readme import put_into, table


def main(arguments: list[str] | None = None) -> int:
    """Run one self-test; exit code 0 where all was as it must be, 1 where not, 75 where it could not be said."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(options.command(options))
    except InputError as error:
        fail_line(str(error))
        return EXIT_BAD_INPUT
    except DropgateError as error:
        fail_line(str(error))
        return EXIT_INVALID


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dropgate.selftest", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    matrix = commands.add_parser("kill-matrix", help="break the engine and the harness in every known way")
    matrix.add_argument("faults", metavar="FAULT", nargs="*", help="only these (default: all)")
    matrix.add_argument("--short", action="store_true", help="only those that are part of `make test`")
    matrix.add_argument("--readme", type=Path, metavar="FILE", help="write the table, as it is, between its markers")
    matrix.set_defaults(command=_kill_matrix)
    alarms = commands.add_parser("false-alarms", help="run clean A/A and A/B pairs and count what does not pass")
    alarms.add_argument("-n", type=int, default=40, help="runs of each (default: 40)")
    alarms.set_defaults(command=_false_alarms)
    lifecycle = commands.add_parser("lifecycle", help="kill runs at random moments and look for what is left")
    lifecycle.add_argument("-n", type=int, default=50, help="rounds (default: 50)")
    lifecycle.add_argument("--seed", type=int, default=20260901)
    lifecycle.set_defaults(command=_lifecycle)
    for one in (matrix, alarms, lifecycle):
        one.add_argument("--out", type=Path, metavar="DIR", help="new folder for evidence and logs")
    return parser


def _folder(options: argparse.Namespace, name: str) -> Path:
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder: Path = options.out or Path("runs") / f"{name}-{stamp}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"--out {folder}: {error.strerror}") from None
    return folder.resolve()


def _kill_matrix(options: argparse.Namespace) -> int:
    rows, began_s = chosen(options.faults, options.short), time.monotonic()
    bench, say = Bench(_folder(options, "kill-matrix")), Narrator().say
    say(f"{len(rows)} faults; evidence and logs in {bench.folder}; booting")
    outcomes: list[Outcome] = []
    left = ""
    with bench.booted({row.work for row in rows}):
        try:
            for outcome in run_rows(bench, rows, say):
                outcomes.append(outcome)  # one by one: what was seen counts, whatever comes after it
        except NotCleanError as error:
            left = str(error)
    minutes = (time.monotonic() - began_s) / 60
    wrong = [outcome for outcome in outcomes if outcome.problem]
    host = host_facts()
    note = f"{minutes:.0f} minutes, {host['cpus']} x {host['processor']}, {datetime.date.today().isoformat()}"
    note += f"; {left}" if left else ""
    text = table(outcomes, note)
    (bench.folder / "kill-matrix.md").write_text(text + "\n", encoding="utf-8")
    sys.stdout.write(text + "\n")
    for line in [*map(told, wrong), *([left] if left else [])]:
        fail_line(line)
    if options.readme:  # what was not caught is published too
        put_into(options.readme, text)
    return EXIT_FAIL if wrong or left else EXIT_PASS


def _false_alarms(options: argparse.Namespace) -> int:
    alarms, runs = count_false_alarms(_folder(options, "false-alarms"), options.n, Narrator().say)
    sys.stdout.write(f"{alarms} of {runs} clean runs were not a pass\n")
    return EXIT_FAIL if alarms else EXIT_PASS


def _lifecycle(options: argparse.Namespace) -> int:
    clean = run_rounds(_folder(options, "lifecycle"), options.n, options.seed, Narrator().say)
    sys.stdout.write(f"{clean} of {options.n} rounds left nothing behind, and the next run passed\n")
    return EXIT_PASS if clean == options.n else EXIT_FAIL


if __name__ == "__main__":
    sys.exit(main())

"""One lane: its commands one after another, each leaving a verdict, whatever happens to it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from buildkite.ci_command.status import Check, Verdict, VerdictFile, combine, read
from buildkite.pipeline import junit
from buildkite.pipeline.files import Lane, Report
from dropgate.errors import EXIT_BAD_INPUT, EXIT_FAIL, EXIT_INVALID, EXIT_PASS
from dropgate.host import change_under_test

VERDICT = "verdict.json"
DISPUTED = "verdict.disputed.json"
EXITS = {Verdict.PASS: EXIT_PASS, Verdict.FAIL: EXIT_FAIL, Verdict.INVALID: EXIT_INVALID}
EXIT_STOPPED = 128 + signal.SIGTERM


class LaneRun:
    """A lane under way. A SIGTERM goes to the running command too, whose end is awaited; the rest is then not begun."""

    def __init__(self, name: str, lane: Lane, out: Path) -> None:
        self.name = name
        self.lane = lane
        self.out = out
        self.stopped = False

    def run(self) -> int:
        """Run every report and return the lane's exit code: 0, 1 or 75 by the worst verdict, 143 when stopped."""
        signal.signal(signal.SIGTERM, self._stop)
        verdicts = [self._report(name, report) for name, report in self.lane.reports.items()]
        worst, _ = combine([(verdict, "") for verdict in verdicts])
        return EXIT_STOPPED if self.stopped else EXITS[worst]

    def _stop(self, *_: object) -> None:
        self.stopped = True

    def _report(self, name: str, report: Report) -> Verdict:
        folder = self.out / name
        folder.mkdir(parents=True)
        code = None if self.stopped else self._execute(name, report, folder)
        verdict, reason = conclude(f"{self.name}/{name}", report, None if self.stopped else code, folder)
        sys.stdout.write(f"dropgate-ci: {self.name}/{name}: {verdict.value}: {reason}\n")
        sys.stdout.flush()
        return verdict

    def _execute(self, name: str, report: Report, folder: Path) -> int:
        command = shlex.split(report.command.format(report=name, out=folder))
        environment = {**os.environ}
        if report.verdict == "junit":
            environment["PYTEST_ADDOPTS"] = f"--junitxml={folder / junit.NAME}"
        sys.stdout.write(f"--- {self.name}/{name}: {shlex.join(command)}\n")  # a group in Buildkite's log
        sys.stdout.flush()
        try:
            return subprocess.Popen(command, env=environment).wait()
        except OSError as error:
            sys.stdout.write(f"{command[0]}: {error.strerror}\n")
            return EXIT_BAD_INPUT


def conclude(name: str, report: Report, code: int | None, folder: Path) -> tuple[Verdict, str]:
    """Leave verdict.json and junit.xml in the report's folder and return the verdict; ``code`` None: was stopped."""
    path = folder / VERDICT
    found = _written(path) if report.verdict == "written" else None
    if found is not None and code is not None and EXITS[found[0]] == code:
        content = path.read_bytes()
    else:
        if path.exists():
            path.rename(folder / DISPUTED)
        content = json.dumps(_document(name, _checks(report, code, folder, found)), indent=1).encode()
        path.write_bytes(content)
    if not (folder / junit.NAME).exists():
        junit.write(folder / junit.NAME, name, VerdictFile.model_validate_json(content).checks)
    return read(name, content)


def _written(path: Path) -> tuple[Verdict, str] | None:
    try:
        return read(path.name, path.read_bytes())
    except (OSError, ValueError):
        return None


def _checks(report: Report, code: int | None, folder: Path, found: tuple[Verdict, str] | None) -> Sequence[Check]:
    if code is None:
        return [_check("command.finished", "invalid", "the command ends by itself", "it was stopped, or not begun")]
    if report.verdict == "written":
        said = f"{VERDICT}: {found[0].value}" if found else f"no readable {VERDICT}"
        return [_check("command.verdict", "invalid", "a verdict and the exit code of it", f"{said}, exit code {code}")]
    if report.verdict == "exit":
        verdict = (
            "invalid" if code < 0 else "fail" if code else "pass"
        )  # below 0: killed by a signal, so it said nothing
        return [_check("command.exit", verdict, "exit code 0", f"exit code {code}")]
    return _from_junit(code, folder)


def _from_junit(code: int, folder: Path) -> Sequence[Check]:
    try:
        checks = junit.checks_of(folder / junit.NAME)
    except ValueError as error:
        return [_check("tests.reported", "invalid", junit.NAME, str(error))]
    ran = _check("tests.ran", "pass" if checks else "invalid", "at least one test", f"{len(checks)} test files")
    # A failure explains any exit code; without one, only 0 is clean.
    clean = code == 0 or any(check.verdict == "fail" for check in checks)
    return [ran, *checks, _check("tests.exit", "pass" if clean else "invalid", "exit code 0", f"exit code {code}")]


def _check(name: str, verdict: str, expected: str, seen: str) -> Check:
    return Check.model_validate({"name": name, "verdict": verdict, "expected": expected, "seen": seen})


def _document(name: str, checks: Sequence[Check]) -> dict[str, Any]:
    worst, _ = combine([(Verdict(check.verdict), "") for check in checks])
    change = change_under_test()
    return {
        "schema": 1,
        "scenario": name,
        "verdict": worst.value,
        **({"change": change} if change else {}),
        "checks": [check.model_dump() for check in checks],
    }

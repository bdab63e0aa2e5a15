"""A lane's command becomes a verdict: only its own word and a matching exit code pass."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

import pytest

from buildkite.ci_command.status import Verdict, read
from buildkite.pipeline.files import Lane, Report
from buildkite.pipeline.junit import checks_of
from buildkite.pipeline.lane import DISPUTED, VERDICT, LaneRun, conclude

PASS, FAIL, INVALID = Verdict.PASS, Verdict.FAIL, Verdict.INVALID
GOOD = '<testcase classname="tests.a" name="one"/>'
BAD = '<testcase classname="tests.a" name="two"><failure message="no">x</failure></testcase>'
ERROR = '<testcase classname="tests.b" name="three"><error message="no"/></testcase>'
SKIP = '<testcase classname="tests.a" name="four"><skipped type="pytest.skip" message="hardware"/></testcase>'
XFAIL = '<testcase classname="tests.a" name="five"><skipped type="pytest.xfail" message="known"/></testcase>'


def concluded(folder: Path, kind: Literal["written", "junit", "exit"], code: int | None) -> Verdict:
    verdict, reason = conclude("lane/report", Report(command="x", verdict=kind), code, folder)
    assert reason
    again, _ = read(VERDICT, (folder / VERDICT).read_bytes())
    assert again is verdict
    assert (folder / "junit.xml").exists()
    return verdict


def write(folder: Path, verdict: str) -> None:
    check = {"name": "prefix", "verdict": verdict, "expected": "1", "seen": "2"}
    content = {"schema": 1, "scenario": "s", "verdict": verdict, "checks": [check], "more": 1}
    (folder / VERDICT).write_text(json.dumps(content))


@pytest.mark.parametrize(("said", "code", "verdict"), [("pass", 0, PASS), ("fail", 1, FAIL), ("invalid", 75, INVALID)])
def test_a_written_verdict_counts_and_is_left_as_it_is(tmp_path: Path, said: str, code: int, verdict: Verdict) -> None:
    write(tmp_path, said)
    before = (tmp_path / VERDICT).read_bytes()
    assert concluded(tmp_path, "written", code) is verdict
    assert (tmp_path / VERDICT).read_bytes() == before


@pytest.mark.parametrize(
    ("said", "code"), [("pass", 1), ("pass", 75), ("pass", 130), ("fail", 0), ("invalid", 0), ("pass", None)]
)
def test_a_written_verdict_that_the_exit_code_denies_is_invalid(tmp_path: Path, said: str, code: int | None) -> None:
    write(tmp_path, said)
    assert concluded(tmp_path, "written", code) is INVALID
    assert json.loads((tmp_path / DISPUTED).read_text())["verdict"] == said


@pytest.mark.parametrize("code", [0, 1, 2, 75, 130, None])
@pytest.mark.parametrize("text", [None, "", "{", '{"schema": 1, "scenario": "s", "verdict": "pass", "checks": []}'])
def test_a_command_that_wrote_no_verdict_is_invalid(tmp_path: Path, code: int | None, text: str | None) -> None:
    if text is not None:
        (tmp_path / VERDICT).write_text(text)
    assert concluded(tmp_path, "written", code) is INVALID


@pytest.mark.parametrize(("code", "verdict"), [(0, PASS), (1, FAIL), (2, FAIL), (-9, INVALID), (None, INVALID)])
def test_an_exit_code_alone(tmp_path: Path, code: int | None, verdict: Verdict) -> None:
    assert concluded(tmp_path, "exit", code) is verdict


def test_what_was_stopped_says_nothing_whatever_its_exit_code_and_the_rest_is_not_begun(tmp_path: Path) -> None:
    stopped = Report(command="sh -c 'kill -TERM $PPID; exit 1'", verdict="exit")
    rest = Report(command=f"touch {tmp_path}/begun", verdict="exit")
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert LaneRun("unit", Lane(reports={"lint": stopped, "tests": rest}), tmp_path / "out").run() == 143
    finally:
        signal.signal(signal.SIGTERM, before)
    for report in ("lint", "tests"):
        assert read(VERDICT, (tmp_path / "out" / report / VERDICT).read_bytes())[0] is INVALID
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("cases", "code", "verdict"),
    [
        (GOOD, 0, PASS),
        (GOOD + XFAIL, 0, PASS),
        (GOOD + BAD, 1, FAIL),
        (GOOD + ERROR, 2, FAIL),
        (BAD + SKIP, 2, FAIL),
        (GOOD + SKIP, 0, INVALID),
        (SKIP, 75, INVALID),
        (GOOD, 75, INVALID),
        (GOOD, 2, INVALID),
        ("", 0, INVALID),
        (GOOD, None, INVALID),
    ],
)
def test_pytests_own_report(tmp_path: Path, cases: str, code: int | None, verdict: Verdict) -> None:
    (tmp_path / "junit.xml").write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    assert concluded(tmp_path, "junit", code) is verdict


@pytest.mark.parametrize("text", [None, "", "<testsuites>"])
def test_pytest_without_a_report_is_invalid(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "junit.xml").write_text(text)
    assert concluded(tmp_path, "junit", 0) is INVALID


def test_a_failure_is_named(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(f"<testsuite>{SKIP}{GOOD}{BAD}{ERROR}</testsuite>")
    first, second = checks_of(tmp_path / "junit.xml")
    assert first.seen == "1 skipped, 1 passed, 1 failed; first: two: no"
    assert (second.name, second.verdict) == ("tests.b", "fail")


def test_a_verdict_is_also_left_as_junit(tmp_path: Path) -> None:
    write(tmp_path, "fail")
    concluded(tmp_path, "written", 1)
    [case] = ElementTree.parse(tmp_path / "junit.xml").getroot().iter("testcase")  # noqa: S314 - our own
    assert (case.get("name"), case[0].tag, case[0].get("message")) == ("prefix", "failure", "expected 1, seen 2")

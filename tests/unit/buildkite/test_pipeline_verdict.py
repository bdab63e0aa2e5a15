"""The verdict step: nothing that was promised can go missing, be skipped or be empty without it noticing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from buildkite.ci_command.status import Check, Verdict
from buildkite.pipeline import files
from buildkite.pipeline.annotation import LIMIT, annotation, fitted
from buildkite.pipeline.choice import Choice
from buildkite.pipeline.lane import VERDICT
from buildkite.pipeline.plan import Plan, make_plan
from buildkite.pipeline.verdict import deliver, judge_build, judge_choice, summarize

HEAD, BASE = "a" * 40, "b" * 40
LANES = list(files.lanes().lanes)
PLAN = make_plan(Choice(LANES, "a test"), {"DROPGATE_HEAD_SHA": HEAD, "DROPGATE_BASE_SHA": BASE})
FOLDERS = [folder for folders in PLAN.reports.values() for folder in folders]
PASSED = dict.fromkeys(LANES, "passed")


def document(verdict: str = "pass", **changes: Any) -> dict[str, Any]:
    check = {"name": "prefix", "verdict": verdict, "expected": "1", "seen": "2"}
    whole = {
        "schema": 1,
        "scenario": "s",
        "verdict": verdict,
        "checks": [check],
        "change": {"head": HEAD, "base": BASE},
    }
    return {**whole, "engine": {"version": "0.32.0", "commit": "c" * 9}, **changes}


def save(root: Path, folder: str, content: dict[str, Any] | str) -> Path:
    place = root / folder
    place.mkdir(parents=True, exist_ok=True)
    (place / VERDICT).write_text(content if isinstance(content, str) else json.dumps(content))
    return place


@pytest.fixture
def delivered_all(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        save(tmp_path, folder, document())
    return tmp_path


def judged(root: Path, plan: Plan | None = PLAN, outcomes: dict[str, str] = PASSED) -> tuple[Verdict, list[Check]]:
    checks = judge_build(plan, deliver(plan, root, HEAD), outcomes, HEAD)
    verdict, summary = summarize(checks)
    assert summary["verdict"] == verdict
    return verdict, [check for check in checks if check.verdict != "pass"]


def test_everything_delivered_passes(delivered_all: Path) -> None:
    assert judged(delivered_all) == (Verdict.PASS, [])
    assert len(FOLDERS) == 16


LOST: dict[str, Callable[[Path], object]] = {
    "no verdict": lambda place: (place / VERDICT).unlink(),
    "an empty file": lambda place: (place / VERDICT).write_text(""),
    "a cut file": lambda place: (place / VERDICT).write_text('{"schema": 1,'),
    "no checks": lambda place: save(place, ".", document(checks=[])),
    "another schema": lambda place: save(place, ".", document(schema=2)),
    "a skip": lambda place: save(place, ".", document("skipped")),
    "invalid": lambda place: save(place, ".", document("invalid")),
    "a check that is worse": lambda place: save(place, ".", {**document("invalid"), "verdict": "pass"}),
    "another commit": lambda place: save(place, ".", document(change={"head": "d" * 40})),
    "no commit": lambda place: save(place, ".", document(change={})),
    "a list": lambda place: save(place, ".", "[]"),
}


@pytest.mark.parametrize("how", LOST)
@pytest.mark.parametrize("folder", FOLDERS)
def test_no_required_report_can_be_lost_unseen(delivered_all: Path, folder: str, how: str) -> None:
    LOST[how](delivered_all / folder)
    verdict, odd = judged(delivered_all)
    assert verdict is Verdict.INVALID
    assert [check.name for check in odd] == [folder.removeprefix("ci-out/")]


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_report_that_the_default_branch_asks_for_can_be_left_out_of_the_plan(folder: str) -> None:
    fewer = {lane: [one for one in folders if one != folder] for lane, folders in PLAN.reports.items()}
    [check] = judge_choice(PLAN.model_copy(update={"reports": fewer}), PLAN)
    assert (check.verdict, check.seen) == ("invalid", f"not planned: {folder.removeprefix('ci-out/')}")


def test_a_plan_may_hold_more_than_the_default_branch_asks_for() -> None:
    more = PLAN.model_copy(update={"reports": {**PLAN.reports, "new": ["ci-out/new/one"]}})
    assert [check.verdict for check in judge_choice(more, PLAN)] == ["pass"]
    assert [check.verdict for check in judge_choice(PLAN, Plan(why="x"))] == ["pass"]
    assert [check.seen for check in judge_choice(PLAN, Plan(why="x", problem="lanes.yml:3"))] == ["lanes.yml:3"]
    assert judge_choice(None, PLAN) == judge_choice(Plan(why="x", problem="y"), PLAN) == []


def test_a_failure_beats_what_is_missing(delivered_all: Path) -> None:
    save(delivered_all, FOLDERS[0], document("fail"))
    (delivered_all / FOLDERS[1] / VERDICT).unlink()
    verdict, odd = judged(delivered_all)
    assert (verdict, [check.verdict for check in odd]) == (Verdict.FAIL, ["fail", "invalid"])


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("outcome", ["hard_failed", "soft_failed", "errored", ""])
def test_a_step_that_did_not_end_as_it_reported_is_invalid(delivered_all: Path, lane: str, outcome: str) -> None:
    verdict, odd = judged(delivered_all, outcomes={**PASSED, lane: outcome})
    assert verdict is Verdict.INVALID
    assert [check.name for check in odd] == [f"{lane}/step"]


@pytest.mark.parametrize("lane", LANES)
def test_a_lane_that_was_needed_and_got_no_step_is_missed(delivered_all: Path, lane: str) -> None:
    fewer = {name: folders for name, folders in PLAN.reports.items() if name != lane}
    verdict, [odd] = judged(delivered_all, PLAN.model_copy(update={"reports": fewer}))
    assert (verdict, odd.seen) == (Verdict.INVALID, f"no step for {lane}")


@pytest.mark.parametrize(
    ("plan", "seen"),
    [
        (None, "no plan was recorded"),
        (Plan(why="x", head=HEAD, problem="lanes.yml:3: ..."), "lanes.yml:3: ..."),
        (Plan(why="x", head="d" * 40), f"chosen for {'d' * 40}, this build is of {HEAD}"),
        (Plan(why="x"), f"chosen for None, this build is of {HEAD}"),
        (Plan(why="x", head=HEAD, needed=["gpu"], absent=["gpu"]), "no agents here for gpu"),
    ],
)
def test_without_a_plan_for_this_commit_nothing_passes(tmp_path: Path, plan: Plan | None, seen: str) -> None:
    verdict, [odd] = judged(tmp_path, plan)
    assert (verdict, odd.name, odd.seen) == (Verdict.INVALID, "plan", seen)


def test_a_change_that_needs_no_lane_passes_at_once(tmp_path: Path) -> None:
    assert judged(tmp_path, make_plan(Choice([], "only documentation"), {"DROPGATE_HEAD_SHA": HEAD})) == (
        Verdict.PASS,
        [],
    )


def annotated(root: Path) -> str:
    delivered = deliver(PLAN, root, HEAD)
    checks = judge_build(PLAN, delivered, PASSED, HEAD)
    return annotation(PLAN, summarize(checks)[0], checks, delivered)


def test_the_annotation_has_the_table_the_checks_the_engines_and_the_commits(delivered_all: Path) -> None:
    (save(delivered_all, "ci-out/cpu/tiny_eagle3_cpu", document("fail")) / "report.md").write_text("| cached | 1,536 |")
    text = annotated(delivered_all)
    assert text.startswith(f"## dropgate: fail\n\nHead `{HEAD}`, base `{BASE}`; a test.\n")
    assert "| fail | cpu/tiny_eagle3_cpu | s: prefix fail, expected 1, seen 2 |" in text
    assert f"| cpu/tiny_eagle3_cpu | 0.32.0 | {'c' * 9} | {HEAD} | {BASE} |" in text
    assert "### cpu/tiny_eagle3_cpu\n\n| cached | 1,536 |" in text


TWO_TABLES = "## dropgate: pass\n\n| cached | 1,536 |\n\n| acceptance rate | 40.7 % |\n\n<details>x</details>"


def test_the_annotation_takes_each_report_as_it_is_with_every_table_and_that_of_each_run_of_a_lane_of_tests(
    delivered_all: Path,
) -> None:
    run = save(
        delivered_all, "ci-out/gpu/pytest/pytest/test_a0/out", document(engine={"version": "0.33", "commit": "e"})
    )
    for place in (delivered_all / "ci-out/cpu/tiny_eagle3_cpu", run):
        (place / "report.md").write_text(TWO_TABLES)
    (run.parent / VERDICT).write_text("[")
    text = annotated(delivered_all)
    assert f"### cpu/tiny_eagle3_cpu\n\n{TWO_TABLES}\n" in text
    assert f"### gpu/pytest/pytest/test_a0/out\n\n{TWO_TABLES}\n" in text
    assert f"| gpu/pytest/pytest/test_a0/out | 0.33 | e | {HEAD} | {BASE} |" in text


def test_what_a_report_says_cannot_break_the_table(delivered_all: Path) -> None:
    save(delivered_all, FOLDERS[0], document(engine={"version": "a|b\n\n# x"}))
    assert f"| a\\|b # x | - | {HEAD} | {BASE} |" in annotated(delivered_all)


def test_a_long_annotation_is_cut_at_a_line_and_says_where_the_whole_is(delivered_all: Path) -> None:
    place = save(delivered_all, "ci-out/cpu/tiny_eagle3_cpu", document())
    (place / "report.md").write_text("| ü |\n" * 300_000)
    text = annotated(delivered_all)
    assert len(text.encode()) > LIMIT
    short = fitted(text, "ci-out/verdict/annotation.md")
    assert LIMIT - 100 < len(short.encode()) <= LIMIT
    assert short.startswith("Shortened; the whole is the artifact `ci-out/verdict/annotation.md`.\n\n## dropgate: pass")
    assert short.endswith("| ü |\n")
    assert fitted("short", "x") == "short"

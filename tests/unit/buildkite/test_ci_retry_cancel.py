"""`/ci retry` runs again what was invalid and never a failure; `/ci cancel` ends the head's builds only."""

from __future__ import annotations

from typing import Any

import pytest
from ci_world import World

from tests.support.ci_standins import BUILDKITE_TOKEN, HEAD, MOVED, Fault, link, marks


def job(key: str, state: str = "failed", **fields: Any) -> dict[str, Any]:
    return {"id": f"id-{key}", "type": "script", "step_key": key, "state": state, "retried": False, **fields}


VERDICT = job("verdict", exit_status=1)
PASSED = job("unit", "passed", exit_status=0)


@pytest.mark.parametrize(
    ("jobs", "again", "left"),
    [
        ([PASSED, job("gpu", exit_status=75), VERDICT], ["gpu", "verdict"], ""),
        ([VERDICT, job("gpu", exit_status=75), job("cpu", exit_status=-1)], ["gpu", "cpu", "verdict"], ""),
        ([job("gpu", "timed_out", exit_status=None), VERDICT], ["gpu", "verdict"], ""),
        ([job("gpu", "expired"), VERDICT], ["gpu", "verdict"], ""),
        ([job("gpu", exit_status=255, signal_reason="agent_stop"), VERDICT], ["gpu", "verdict"], ""),
        ([PASSED, job("verdict", exit_status=75)], ["verdict"], ""),
        (
            [job("cpu", exit_status=1), job("gpu", exit_status=75), VERDICT],
            ["gpu", "verdict"],
            "`cpu` ended with exit 1",
        ),
        ([{"id": "w", "type": "waiter"}, job("gpu", exit_status=75)], ["gpu"], ""),
        ([job("gpu", exit_status=75, retried=True), job("cpu", exit_status=75)], ["cpu"], ""),
    ],
    ids=[
        "invalid",
        "two",
        "timed-out",
        "expired",
        "agent-lost",
        "verdict-only",
        "with-a-failure",
        "wait",
        "retried",
    ],
)
def test_retry_runs_again_what_was_invalid_and_the_verdict_last(
    world: World, jobs: list[dict[str, Any]], again: list[str], left: str
) -> None:
    """Exit 75, time-outs and lost agents say nothing about the commit; everything else is a verdict."""
    world.buildkite.add(state="failed", jobs=[dict(one) for one in jobs])
    assert world.comment("/ci retry", login="maintainer") == 0
    assert [path.split("/")[-2] for path in world.buildkite.changes()] == [f"id-{key}" for key in again]
    names = ", ".join(f"`{key}`" for key in again)
    said = f"✅ Retried {names} in Buildkite CI {link(1201)} for commit {HEAD[:12]}."
    assert world.answers == [said + (f"\n\nNot retried, because a failure is a verdict: {left}." if left else "")]
    assert world.states == [(HEAD, "dropgate", "pending")]


FAILURE = [PASSED, job("cpu", exit_status=1), job("gpu", "canceled"), VERDICT]


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        (None, f"commit {HEAD[:12]} has no build"),
        ({"state": "failed", "commit": MOVED}, f"commit {HEAD[:12]} has no build"),
        ({"state": "failed", "meta_data": marks("8", "auto")}, f"commit {HEAD[:12]} has no build"),
        ({"state": "running"}, f"build {link(1201)} is running"),
        ({"state": "passed", "blocked": True}, f"build {link(1201)} is blocked"),
        ({"state": "passed"}, f"build {link(1201)} is passed"),
        ({"state": "canceled"}, f"build {link(1201)} is canceled"),
        (
            {"state": "failed", "jobs": FAILURE},
            f"in build {link(1201)} `cpu` ended with exit 1, `gpu` is canceled, and a failure is a verdict",
        ),
    ],
    ids=[
        "no-build",
        "other-commit",
        "other-pull",
        "running",
        "blocked",
        "passed",
        "canceled",
        "failures-only",
    ],
)
def test_retry_never_runs_a_failure_again(world: World, build: dict[str, Any] | None, reason: str) -> None:
    """Nothing is sent to Buildkite, and the status keeps what it says."""
    if build is not None:
        world.buildkite.add(**build)
    world.comment("/ci retry", login="maintainer")
    assert world.answers == [f"⛔ Nothing was retried: {reason}. `/ci run` starts a new build."]
    assert world.buildkite.changes() == world.states == []
    assert world.github.reactions == ["eyes", "confused"]


def test_a_step_s_name_cannot_write_on_the_pull_request(world: World) -> None:
    """Step names come from the pull request's own pipeline."""
    name = "x` @acme/all ![](http://e)\n\n# <script>" + "y" * 99
    world.buildkite.add(state="failed", jobs=[job(name, exit_status=1)])
    world.comment("/ci retry", login="maintainer")
    assert "`x' @acme/all ![](http://e) # <script>yyyyy" in world.answers[0]
    assert world.answers[0].count("`") == 4


def test_a_step_named_like_a_token_is_not_repeated(world: World) -> None:
    """The last gate stands before every comment, wherever its words came from."""
    world.buildkite.add(state="failed", jobs=[job(BUILDKITE_TOKEN, exit_status=1)])
    world.comment("/ci retry", login="maintainer")
    assert "`[hidden]` ended with exit 1" in world.answers[0]


@pytest.mark.parametrize(("status", "states"), [(422, ["pending", "error"]), (500, ["pending", "error"])])
def test_a_refused_retry_is_told_and_leaves_no_pending_status(world: World, status: int, states: list[str]) -> None:
    """A retry is never sent twice, because Buildkite may have taken the first one."""
    world.buildkite.add(state="failed", jobs=[job("gpu", exit_status=75)])
    world.buildkite.faults = [Fault("PUT", "/retry$", status, b'{"message": "no"}', times=9)]
    assert world.comment("/ci retry", login="maintainer") == 1
    assert world.answers[0].startswith("❌ `/ci retry` failed: `Buildkite: PUT ")
    assert [state for _, _, state in world.states] == states
    assert len(world.buildkite.changes()) == 1


def test_a_retry_that_fails_half_way_stays_pending(world: World) -> None:
    """One job runs again, so a verdict will come; what failed is told."""
    world.buildkite.add(state="failed", jobs=[job("cpu", exit_status=75), job("gpu", exit_status=75)])
    world.buildkite.faults = [Fault("PUT", "/id-gpu/retry$", 422, b'{"message": "no"}')]
    assert world.comment("/ci retry", login="maintainer") == 1
    assert "/id-gpu/retry answered 422: no" in world.answers[0]
    assert world.states == [(HEAD, "dropgate", "pending")]


def test_cancel_ends_the_head_s_active_builds_and_no_others(world: World) -> None:
    """A passed build, another commit's and another pull request's stay; a pending status becomes invalid."""
    for build in (
        {"state": "running"},
        {"state": "scheduled", "meta_data": marks("7", "gpu")},
        {"state": "passed"},
        {"state": "running", "commit": MOVED},
        {"state": "running", "meta_data": marks("8", "auto")},
    ):
        world.buildkite.add(**build)
    world.comment("/ci cancel", login="maintainer")
    assert [build["state"] for build in world.buildkite.builds] == [
        "canceled",
        "canceled",
        "passed",
        "running",
        "running",
    ]
    assert world.answers == [f"✅ Canceled Buildkite CI {link(1202)}, {link(1201)} for commit {HEAD[:12]}."]
    assert world.states == [(HEAD, "dropgate/gpu", "error"), (HEAD, "dropgate", "error")]


def test_cancel_says_when_there_is_nothing_to_cancel(world: World) -> None:
    """Neither a build that ended long ago nor one that ends just then."""
    world.comment("/ci cancel", login="maintainer", number=1)
    world.buildkite.add(state="blocked")
    world.comment("/ci cancel", login="maintainer", number=2)
    assert world.answers == [
        f"⛔ No active build of commit {HEAD[:12]} to cancel.",
        f"Ended before it could be canceled: {link(1201)}.",
    ]
    assert world.states == []


def test_cancel_is_not_held_up_by_conflict_or_closing(world: World) -> None:
    """Stopping a waste of machines is always right."""
    world.github.pull |= {"mergeable": False, "state": "closed"}
    world.buildkite.add(state="running")
    world.comment("/ci cancel", login="maintainer")
    assert world.buildkite.builds[0]["state"] == "canceled"


def test_cancel_survives_an_error_and_tells_a_lasting_one(world: World) -> None:
    """Canceling twice does no harm, so it is sent again."""
    world.buildkite.add(state="running")
    world.buildkite.faults = [Fault("PUT", "/cancel$", 500)]
    assert world.comment("/ci cancel", login="maintainer", number=1) == 0
    world.buildkite.add(state="running")
    world.buildkite.faults = [Fault("PUT", "/cancel$", 500, times=9)]
    assert world.comment("/ci cancel", login="maintainer", number=2) == 1
    assert [answer[0] for answer in world.answers] == ["✅", "❌"]


@pytest.mark.parametrize("command", ["/ci retry", "/ci cancel"])
def test_retry_and_cancel_are_for_the_same_people_as_run(world: World, command: str) -> None:
    """An author without delegation can do neither."""
    world.buildkite.add(state="running", jobs=[job("gpu", exit_status=75)])
    world.comment(command, login="author")
    assert world.answers[0].startswith(f"⛔ `{command}` was not carried out:\n- missing: ")
    assert world.buildkite.requests == []


def test_retry_of_a_conflicting_pull_request_is_refused(world: World) -> None:
    """What cannot be merged is not worth the machines."""
    world.github.pull["mergeable"] = False
    world.buildkite.add(state="failed", jobs=[job("gpu", exit_status=75)])
    world.comment("/ci retry", login="maintainer")
    assert "conflicts with its base branch" in world.answers[0]
    assert world.buildkite.requests == []

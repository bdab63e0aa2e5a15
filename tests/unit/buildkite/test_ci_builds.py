"""One comment starts one build, an active build is joined, and what cannot be said is logged."""

from __future__ import annotations

from typing import Any

import pytest
from ci_world import COMMENT, World

from tests.support.ci_standins import HEAD, MOVED, TRIGGERED, Fault, link, marks


def test_a_repeated_delivery_changes_nothing(world: World) -> None:
    """The same comment delivered again finds its answer and stops at the first request."""
    world.comment("/ci run", login="maintainer")
    before = (list(world.buildkite.requests), world.github.changes())
    assert world.comment("/ci run", login="maintainer") == 0
    assert (world.buildkite.requests, world.github.changes()) == before
    assert world.output.endswith("comment 555: repeated\n")


@pytest.mark.parametrize("body", ["/ci run", "/ci nonsense"])
def test_a_denial_or_the_list_is_not_repeated_either(world: World, body: str) -> None:
    """One comment gets one answer, whatever it was."""
    for _ in range(2):
        world.comment(body, login="author")
    assert len(world.answers) == 1


def test_a_build_whose_answer_was_lost_is_found_again(world: World) -> None:
    """The comment's id in the build's meta-data is enough; a verdict that came meanwhile stays."""
    world.comment("/ci run", login="maintainer")
    world.github.comments.clear()
    world.github.statuses.append({"sha": HEAD, "context": "dropgate", "state": "success"})
    world.buildkite.builds[0]["state"] = "passed"
    world.comment("/ci run", login="maintainer")
    assert len(world.created) == 1
    assert world.answers == [TRIGGERED]
    assert world.states[-1] == (HEAD, "dropgate", "success")


def test_a_build_without_a_linked_status_is_announced_all_the_same(world: World) -> None:
    """Linking is a courtesy; the first pending status already blocks the merge."""
    world.github.faults = [Fault("GET", "/commits/", times=9)]
    assert world.comment("/ci run", login="maintainer") == 0
    assert world.answers == [TRIGGERED]
    assert world.states == [(HEAD, "dropgate", "pending")]


def test_the_first_error_is_the_one_that_is_told(world: World) -> None:
    """GitHub failing too must not hide why there is no build."""
    world.buildkite.faults = [Fault("POST", "/builds$", 422, b'{"message": "no such branch"}')]
    world.buildkite.on_fault = lambda: world.github.faults.append(Fault("POST", "/statuses/", 500, times=4))
    assert world.comment("/ci run", login="maintainer") == 1
    assert "answered 422: no such branch" in world.answers[0]
    assert world.states == [(HEAD, "dropgate", "pending")]


def test_a_verdict_that_comes_at_once_is_not_overwritten(world: World) -> None:
    """A build without lanes can be judged before its link is added to the pending status."""
    success = {"sha": HEAD, "context": "dropgate", "state": "success"}
    world.buildkite.on_create = lambda: world.github.statuses.append(success)
    world.comment("/ci run", login="maintainer")
    assert world.states == [(HEAD, "dropgate", "pending"), (HEAD, "dropgate", "success")]


def test_a_failed_comment_may_be_delivered_again(world: World) -> None:
    """A failure is no answer: running the workflow again starts the build after all."""
    world.buildkite.faults = [Fault("POST", "/builds$", 422, b'{"message": "no"}')]
    assert world.comment("/ci run", login="maintainer") == 1
    assert world.comment("/ci run", login="maintainer") == 0
    assert [answer[0] for answer in world.answers] == ["❌", "✅"]
    assert world.states[-1] == (HEAD, "dropgate", "pending")


def test_somebody_else_s_marker_does_not_silence_a_command(world: World) -> None:
    """Anybody can type our marker; only our own comment counts."""
    world.github.add_comment(f"<!-- dropgate-ci {COMMENT} answered -->", login="passerby")
    world.comment("/ci run", login="maintainer")
    assert len(world.created) == 1


def test_the_marker_is_found_behind_many_comments(world: World) -> None:
    """The comments are read page by page."""
    world.github.page_size = 2
    for _ in range(5):
        world.github.add_comment("chatter", login="passerby")
    world.comment("/ci run", login="maintainer")
    world.comment("/ci run", login="maintainer")
    assert len(world.created) == 1
    assert len(world.answers) == 1


def test_two_comments_start_one_build(world: World) -> None:
    """The second comment is told about the first one's build."""
    world.comment("/ci run", login="maintainer", number=1)
    world.comment("/ci run", login="maintainer", number=2)
    assert len(world.created) == 1
    active = f"✅ Buildkite CI {link(1201)} is already scheduled for commit {HEAD[:12]}; "
    assert world.answers == [TRIGGERED, active + "no second build was started."]
    assert world.states == [(HEAD, "dropgate", "pending")] * 2


@pytest.mark.parametrize(
    ("build", "starts"),
    [
        ({"state": "creating"}, False),
        ({"state": "running"}, False),
        ({"state": "failing"}, False),
        ({"state": "blocked"}, False),
        ({"state": "passed", "blocked": True}, False),
        ({"state": "running", "meta_data": {**marks("7", "x"), "dropgate-lanes": ["gpu"]}}, False),
        ({"state": "canceling"}, True),
        ({"state": "canceled"}, True),
        ({"state": "failed"}, True),
        ({"state": "passed"}, True),
        ({"state": "running", "commit": MOVED}, True),
        ({"state": "running", "meta_data": marks("7", "gpu")}, True),
        ({"state": "running", "meta_data": marks("8", "auto")}, True),
        ({"state": "running", "meta_data": {}}, True),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
@pytest.mark.parametrize("ignores_filters", [False, True])
def test_only_an_active_build_of_the_same_commit_lanes_and_pull_request_is_joined(
    world: World, build: dict[str, Any], starts: bool, ignores_filters: bool
) -> None:
    """It may be on a later page, and a server that ignores the filters must not fool us."""
    world.buildkite.page_size = 2
    world.buildkite.ignores_filters = ignores_filters
    world.buildkite.add(**build)
    for _ in range(3):
        world.buildkite.add(state="passed")
    world.comment("/ci run", login="maintainer")
    assert bool(world.created) is starts


def test_an_answer_that_cannot_be_posted_still_shows_in_the_log(world: World) -> None:
    """The build stands, the run is red, and a later delivery answers without a second build."""
    world.github.faults = [Fault("POST", "/comments$", 500, times=99)]
    assert world.comment("/ci run", login="maintainer") == 1
    assert "failed: GitHub: POST /repos/acme/engine/issues/7/comments answered 500" in world.output
    assert "the failure could not be reported on the pull request" in world.output
    world.github.faults = []
    assert world.comment("/ci run", login="maintainer") == 0
    assert len(world.created) == 1
    assert world.answers == [TRIGGERED]


def test_a_next_page_on_another_host_is_not_followed(world: World) -> None:
    """The token goes to its own service only."""
    header = {"Link": f'<{world.buildkite.url}/repos/x>; rel="next"'}
    world.github.faults = [Fault("GET", "/comments$", 200, b"[]", header)]
    assert world.comment("/ci run", login="maintainer") == 1
    assert "GitHub: the next page is on another host; not followed" in world.answers[0]
    assert world.buildkite.requests == []


def test_pages_without_end_are_given_up(world: World) -> None:
    """A loop in the links does not hold the runner."""
    header = {"Link": f'<{world.github.url}/repos/acme/engine/issues/7/comments?since=x>; rel="next"'}
    world.github.faults = [Fault("GET", "/comments$", 200, b"[]", header, times=50)]
    assert world.comment("/ci run", login="maintainer") == 1
    assert "GitHub: more than 50 pages of /repos/acme/engine/issues/7/comments" in world.answers[0]


def test_a_build_for_another_commit_is_not_announced(world: World) -> None:
    """Should Buildkite answer with another commit than the one that was asked for, that is a failure."""
    other = b'{"number": 9, "state": "scheduled", "commit": "HEAD", "web_url": "https://buildkite.com/x"}'
    world.buildkite.faults = [Fault("POST", "/builds$", 201, other)]
    assert world.comment("/ci run", login="maintainer") == 1
    assert "build #9 is not of the checked commit" in world.answers[0]
    assert world.states == [(HEAD, "dropgate", "pending"), (HEAD, "dropgate", "error")]

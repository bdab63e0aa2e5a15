"""Which comments are commands, who is trusted beside the roles, and which pull requests can be built."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from ci_world import World

from tests.support.ci_standins import HEAD, MOVED, OLD, PULL, TRIGGERED

MEGABYTE = 1024 * 1024
Given = Callable[[World], object]


@pytest.mark.parametrize(
    ("body", "lanes", "context"),
    [
        ("/ci run", "auto", "dropgate"),
        (" \r\n\t/ci run\r\n", "auto", "dropgate"),
        (" " * MEGABYTE + "/ci run" + "\n" * MEGABYTE, "auto", "dropgate"),
        ("/ci run gpu", "gpu", "dropgate/gpu"),
        ("/ci run replay\n", "replay", "dropgate/replay"),
    ],
    ids=["plain", "spaces-around", "megabytes-around", "gpu", "replay"],
)
def test_run_builds_the_lanes_it_names(world: World, body: str, lanes: str, context: str) -> None:
    """Only a run whose lanes the files choose may set the required status."""
    assert world.comment(body, login="maintainer") == 0
    assert [build["env"]["DROPGATE_LANES"] for build in world.created] == [lanes]
    assert world.states == [(HEAD, context, "pending")] * 2
    only = "" if lanes == "auto" else f" Lanes: {lanes} only, so the required status stays as it is."
    assert world.answers == [TRIGGERED + only]


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "LGTM",
        "please /ci run",
        "`/ci run`",
        "> /ci run",
        "/CI run",
        "/cite the paper",
        "/ci-run",
        "/ci.run",
        "\x00/ci run",
        "\u200b/ci run",
        "\ufeff/ci run",
        "\xa0/ci run",
        "\x1f/ci run",
        "/ci\x00run",
        "x" * MEGABYTE + "/ci run",
        "\x1b[2J" * (MEGABYTE // 4),
    ],
    ids=lambda body: repr(body)[:20],
)
def test_any_other_comment_is_ignored_silently(world: World, body: str | None) -> None:
    """Talk is not for us: no request, no reaction, no answer."""
    assert world.comment(body, login="maintainer") == 0
    assert world.github.requests == world.buildkite.requests == []
    assert world.output == "dropgate-ci: comment 555: ignored\n"


@pytest.mark.parametrize(
    "body",
    [
        "/ci",
        "/ci rnu",
        "/ci RUN",
        "/ci run\x85",
        "/ci  run",
        "/ci run please",
        "/ci run\nthanks",
        "/ci run\x1b[31m",
        "/ci run\x00",
        "/ci run\u202e",
        "/ci $(id); `id` @everyone <!-- x -->",
        "/ci run " + "x" * MEGABYTE,
        "/ci \x07" + "\x00" * MEGABYTE,
    ],
    ids=lambda body: repr(body)[:20],
)
def test_a_mistyped_command_is_answered_with_the_list(world: World, body: str) -> None:
    """The answer repeats nothing of what was typed, and nobody's rights are looked up."""
    assert world.comment(body) == 0
    assert world.github.reactions == ["eyes", "confused"]
    (answer,) = world.answers
    assert answer.startswith("❓ Not a command.")
    assert [line.split("`")[1] for line in answer.splitlines()[1:]] == [
        "/ci run",
        "/ci run gpu",
        "/ci run replay",
        "/ci retry",
        "/ci cancel",
    ]
    assert not any(strange in answer for strange in ("$(", "everyone", "please", "xxx", "\x07"))
    assert world.buildkite.requests == []
    assert not any("/pulls/" in request.path for request in world.github.requests)


@pytest.mark.parametrize(
    "changes",
    [
        {"issue": {"number": PULL}},
        {"action": "edited"},
        {"action": "deleted"},
        {"repository": {"full_name": "someone/else"}},
        {"comment": {"id": 1, "user": None, "created_at": "2026-01-01T00:00:00Z", "body": "/ci run"}},
    ],
    ids=["not-a-pull-request", "edited", "deleted", "other-repository", "no-author"],
)
def test_an_event_that_is_no_new_comment_on_our_pull_request_is_ignored(
    world: World, changes: dict[str, object]
) -> None:
    """Editing a comment does not start CI, nor does an issue."""
    assert world.comment("/ci run", "maintainer", **changes) == 0
    assert world.github.requests == world.buildkite.requests == []


def test_the_first_word_can_be_chosen(world: World) -> None:
    """A repository that already has a /ci command installs this one under another name."""
    world.env["DROPGATE_COMMAND_PREFIX"] = "/dropgate"
    world.comment("/ci run", login="maintainer")
    assert world.github.requests == []
    world.comment("/dropgate run", login="maintainer")
    assert world.answers == [TRIGGERED]
    assert world.created[0]["message"] == f"PR #{PULL}: /dropgate run by @maintainer"


def test_the_configured_list_is_trusted_whatever_the_case(world: World) -> None:
    """Logins are compared as GitHub does, and may be written with an @."""
    world.env["DROPGATE_TRUSTED_USERS"] = "someone, @Friend\nother"
    world.github.pull["draft"] = True
    world.comment("/ci run", login="fRIEND")
    assert world.answers == [TRIGGERED]


def test_the_ready_labels_can_be_chosen(world: World) -> None:
    """Labels may hold spaces; the default one no longer counts then."""
    world.env["DROPGATE_READY_LABELS"] = "ready to test, ready-all"
    world.label("ready")
    world.comment("/ci run", number=1)
    world.label("ready to test")
    world.comment("/ci run", number=2)
    assert [answer[0] for answer in world.answers] == ["⛔", "✅"]


@pytest.mark.parametrize(
    ("reviews", "approved"),
    [
        ([("reviewer", "APPROVED", HEAD)], True),
        ([("reviewer", "APPROVED", HEAD), ("reviewer", "COMMENTED", HEAD)], True),
        ([("reviewer", "CHANGES_REQUESTED", OLD), ("reviewer", "APPROVED", HEAD)], True),
        ([("reader", "APPROVED", HEAD), ("reviewer", "APPROVED", HEAD)], True),
        ([("reviewer", "COMMENTED", HEAD)] * 5 + [("reviewer", "APPROVED", HEAD)], True),
        ([("reviewer", "APPROVED", OLD)], False),
        ([("reviewer", "APPROVED", None)], False),
        ([("reviewer", "DISMISSED", HEAD)], False),
        ([("reviewer", "APPROVED", HEAD), ("reviewer", "CHANGES_REQUESTED", HEAD)], False),
        ([("reviewer", "APPROVED", HEAD), ("reviewer", "DISMISSED", HEAD)], False),
        ([("reader", "APPROVED", HEAD)], False),
        ([("stranger", "APPROVED", HEAD)], False),
        ([("reviewer", "PENDING", HEAD)], False),
        ([("reviewer", "COMMENTED", HEAD)], False),
    ],
    ids=lambda value: (
        "+".join(f"{r[0]}-{r[1]}-{(r[2] or 'none')[:2]}" for r in value[-2:]) if isinstance(value, list) else str(value)
    ),
)
def test_an_approval_counts_only_from_write_access_standing_and_of_this_head(
    world: World, reviews: list[tuple[str, str, str]], approved: bool
) -> None:
    """Two reviews a page, so that later pages are read too."""
    world.github.page_size = 2
    for review in reviews:
        world.review(*review)
    world.comment("/ci run")
    assert bool(world.created) is approved


def test_nobody_approves_their_own_pull_request(world: World) -> None:
    """Even were GitHub to let an author without write access approve."""
    world.review("author")
    world.comment("/ci run")
    assert world.created == []


def test_a_vanished_reviewer_and_a_vanished_author_are_nobody(world: World) -> None:
    """Deleted accounts are null in GitHub's answers."""
    world.github.reviews.append({"user": None, "state": "APPROVED", "commit_id": HEAD})
    world.comment("/ci run", number=1)
    world.github.pull["user"] = None
    world.label("ready")
    world.comment("/ci run", number=2)
    assert [answer[0] for answer in world.answers] == ["⛔", "⛔"]


MERGEABLE = [
    ("said at last", [{"mergeable": None}, {"mergeable": True}], TRIGGERED, [1, 2]),
    (
        "conflict at last",
        [{"mergeable": False}],
        "conflicts with its base branch, merge or rebase first",
        [1],
    ),
    ("never said", [], "has not yet said whether the pull request conflicts", [1, 2, 4, 8, 16]),
    ("head moved", [{"mergeable": True, "head": {"sha": MOVED}}], "has not yet said whether", [1]),
]


@pytest.mark.parametrize(("then", "answer", "sleeps"), [row[1:] for row in MERGEABLE], ids=[r[0] for r in MERGEABLE])
def test_mergeability_that_is_still_computed_is_waited_for(
    world: World, then: list[dict[str, object]], answer: str, sleeps: list[int]
) -> None:
    """The wait is bounded, and what GitHub says of a newer head proves nothing about the checked one."""
    world.github.pull["mergeable"] = None
    world.github.then = then
    world.comment("/ci run", login="maintainer")
    assert answer in world.answers[0]
    assert world.sleeps == sleeps
    assert bool(world.created) is (answer == TRIGGERED)


def test_the_head_that_was_checked_is_built_and_a_newer_one_is_named(world: World) -> None:
    """A push between the check and the build is not built; the answer says so."""
    world.github.then = [{"head": {"sha": MOVED}}]
    world.comment("/ci run", login="maintainer")
    assert [build["commit"] for build in world.created] == [HEAD]
    assert {sha for sha, _, _ in world.states} == {HEAD}
    assert world.answers == [
        f"{TRIGGERED}\n\n⚠️ The head moved to {MOVED[:12]} while {HEAD[:12]} was being checked. "
        f"The build covers {HEAD[:12]} only; comment `/ci run` again for the new head."
    ]


@pytest.mark.parametrize("then", [[], [{"state": "closed"}]], ids=["before", "meanwhile"])
def test_a_closed_pull_request_is_not_built(world: World, then: list[dict[str, object]]) -> None:
    """Neither one that was closed before the comment nor one closed while it was judged."""
    world.github.pull["state"] = "open" if then else "closed"
    world.github.then = then
    world.comment("/ci run", login="maintainer")
    assert "closed" in world.answers[0]
    assert world.buildkite.changes() == []
    assert world.states == []


@pytest.mark.parametrize(
    ("repo", "branch"),
    [
        (
            {"full_name": "stranger/engine", "clone_url": "https://github.com/stranger/engine.git"},
            "stranger:main",
        ),
        (None, "pull-7:main"),
    ],
    ids=["fork", "deleted-fork"],
)
def test_a_fork_s_main_never_passes_for_ours(world: World, repo: dict[str, str] | None, branch: str) -> None:
    """A pipeline may treat builds of main as trusted, so a fork's branch carries its owner."""
    world.github.pull["head"] |= {"ref": "main", "repo": repo}
    world.comment("/ci run", login="maintainer")
    (build,) = world.created
    assert build["branch"] == branch
    assert build.get("pull_request_repository") == (repo["clone_url"] if repo else None)


EVENTS = {
    "cut": (b'{"action": "created", "comm', "the event is malformed: Invalid JSON"),
    "empty": (b"", "the event is malformed: Invalid JSON"),
    "list": (b"[]", "the event is malformed: Input should be an object"),
    "field missing": (b'{"action": "created"}', "the event is malformed: comment: Field required"),
    "not UTF-8": (b'{"action": "\xff"}', "the event is malformed: "),
    "lone surrogate": (json.dumps({"action": "\ud800"}).encode(), "the event is malformed: "),
    "newline in login": (
        json.dumps({"action": "created", "comment": {"id": 1, "user": {"login": "a\n::b"}}}).encode(),
        "the event is malformed: comment.user.login: String should match",
    ),
}


@pytest.mark.parametrize(("event", "line"), EVENTS.values(), ids=EVENTS)
def test_a_malformed_event_ends_in_one_clear_line(world: World, event: bytes, line: str) -> None:
    """Without a pull request to answer on, the failed workflow run is what shows."""
    assert world.deliver(event) == 2
    assert world.output.startswith(f"dropgate-ci: {line}")
    assert world.output.count("\n") == 1
    assert world.github.requests == []

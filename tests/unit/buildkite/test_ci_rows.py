"""Every row of role x label x draft x approval x conflict, from the comment to the build and the answer."""

from __future__ import annotations

from itertools import product

import pytest
from ci_world import COMMENT, World

from tests.support.ci_standins import BASE, HEAD, PULL, TRIGGERED

TRUSTED, UNTRUSTED = ("write", "maintain", "admin"), ("unknown", "read", "triage")
DRAFT = "missing: the pull request is a draft, mark it ready for review"
DELEGATION = "missing: a ready label, or an approval of the current head by someone with write access"
CONFLICT = "the pull request conflicts with its base branch, merge or rebase first"

# (ready label, draft, approved) -> what an author without write access still needs
AUTHOR = {
    (False, False, False): [DELEGATION],
    (False, False, True): [],
    (False, True, False): [DRAFT, DELEGATION],
    (False, True, True): [DRAFT, DELEGATION],
    (True, False, False): [],
    (True, False, True): [],
    (True, True, False): [DRAFT],
    (True, True, True): [DRAFT],
}
ROWS = list(product(TRUSTED + UNTRUSTED, (False, True), (False, True), (False, True), (False, True)))


def row_id(row: tuple[str, bool, bool, bool, bool]) -> str:
    role, *flags = row
    names = ("ready", "draft", "approved", "conflict")
    return "-".join([role, *(name for name, flag in zip(names, flags, strict=True) if flag)])


@pytest.mark.parametrize("row", ROWS, ids=row_id)
def test_an_author_may_run_exactly_when_the_policy_says_so(
    world: World, row: tuple[str, bool, bool, bool, bool]
) -> None:
    """Write access is enough; without it an author needs delegation; a conflict stops everybody."""
    role, ready, draft, approved, conflict = row
    world.github.roles |= {"author": role} if role != "unknown" else {}
    if role == "unknown":
        del world.github.roles["author"]
    world.github.pull |= {"draft": draft, "mergeable": not conflict}
    if ready:
        world.label("bug", "ready")
    if approved:
        world.review()
    missing = [] if role in TRUSTED else AUTHOR[ready, draft, approved]
    missing = missing or ([CONFLICT] if conflict else [])

    assert world.comment("/ci run") == 0

    if missing:
        assert world.answers == ["⛔ `/ci run` was not carried out:\n" + "\n".join(f"- {m}" for m in missing)]
        assert world.github.reactions == ["eyes", "confused"]
        assert world.buildkite.requests == []
        assert world.states == []
    else:
        assert world.answers == [TRIGGERED]
        assert world.github.reactions == ["eyes", "rocket"]
        assert [(b["commit"], b["meta_data"]["dropgate-lanes"]) for b in world.created] == [(HEAD, "auto")]
        assert world.states == [(HEAD, "dropgate", "pending")] * 2


@pytest.mark.parametrize("role", TRUSTED + UNTRUSTED)
@pytest.mark.parametrize("draft", [False, True])
def test_somebody_else_may_run_only_with_write_access(world: World, role: str, draft: bool) -> None:
    """Labels and approvals delegate CI to the author, not to passers-by."""
    world.github.roles = {"reviewer": "write"} | ({} if role == "unknown" else {"passerby": role})
    world.github.pull["draft"] = draft
    world.label("ready")
    world.review()

    assert world.comment("/ci run", login="passerby") == 0

    if role in TRUSTED:
        assert world.answers == [TRIGGERED]
    else:
        needs = "missing: write access to this repository, or a place on its list of trusted CI users"
        assert world.answers == [f"⛔ `/ci run` was not carried out:\n- {needs}"]
        assert world.buildkite.requests == []


def test_a_build_is_told_everything_the_pipeline_needs(world: World) -> None:
    """The build carries the checked head, its base, the pull request, the comment and the lanes."""
    world.comment("/ci run gpu", login="maintainer")
    repository = "acme/engine"
    assert world.created == [
        {
            "commit": HEAD,
            "branch": "topic",
            "message": f"PR #{PULL}: /ci run gpu by @maintainer",
            "env": {
                "DROPGATE_HEAD_SHA": HEAD,
                "DROPGATE_BASE_SHA": BASE,
                "DROPGATE_PULL_REQUEST": str(PULL),
                "DROPGATE_COMMENT_ID": str(COMMENT),
                "DROPGATE_LANES": "gpu",
                "DROPGATE_REPOSITORY": repository,
            },
            "meta_data": {
                "dropgate-comment-id": str(COMMENT),
                "dropgate-pull-request": str(PULL),
                "dropgate-lanes": "gpu",
                "dropgate-head": HEAD,
                "dropgate-base": BASE,
            },
            "pull_request_id": PULL,
            "pull_request_base_branch": "main",
            "pull_request_labels": [],
            "pull_request_repository": "https://github.com/acme/engine.git",
            "ignore_pipeline_branch_filters": True,
        }
    ]


def test_the_whole_conversation_in_order(world: World) -> None:
    """Read everything, mark the commit pending, start the build, link it, then answer."""
    world.comment("/ci run", login="maintainer")
    github = "/repos/acme/engine"
    assert [str(request) for request in world.github.requests] == [
        f"GET {github}/issues/{PULL}/comments",
        f"POST {github}/issues/comments/{COMMENT}/reactions",
        f"GET {github}/pulls/{PULL}",
        f"GET {github}/collaborators/maintainer/permission",
        f"GET {github}/pulls/{PULL}",
        f"POST {github}/statuses/{HEAD}",
        f"GET {github}/commits/{HEAD}/statuses",
        f"POST {github}/statuses/{HEAD}",
        f"POST {github}/issues/{PULL}/comments",
        f"POST {github}/issues/comments/{COMMENT}/reactions",
    ]
    assert [request.method for request in world.buildkite.requests] == ["GET", "GET", "POST"]
    assert world.github.statuses[-1]["target_url"] == "https://buildkite.com/acme/dropgate/builds/1201"
    assert world.sleeps == []

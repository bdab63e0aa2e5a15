"""What goes wrong between the comment and the build, and what is then said, sent again or left alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from ci_world import World

from tests.support.ci_standins import BUILDKITE_TOKEN, HEAD, PIPELINE, PULL, TRIGGERED, Fault

STATUSES = tuple[tuple[str, str, str], ...]
PENDING, ERROR = (HEAD, "dropgate", "pending"), (HEAD, "dropgate", "error")
AGAIN = "Comment again to try again; a build that did start is found, not started twice."
PULL_PATH = f"/repos/acme/engine/pulls/{PULL}"
ROLE_PATH = "/repos/acme/engine/collaborators/maintainer/permission"

# Where a fault strikes.
role, pull = partial(Fault, "GET", "/permission$"), partial(Fault, "GET", "/pulls/7$")
react, answer = partial(Fault, "POST", "/reactions$"), partial(Fault, "POST", "/comments$")
mark = partial(Fault, "POST", "/statuses/")
look, start = partial(Fault, "GET", "/builds$"), partial(Fault, "POST", "/builds$")


@dataclass(frozen=True)
class Case:
    """One fault and what must come of it; `posts` counts the requests to start a build."""

    name: str
    fault: Fault
    code: int = 0
    answer: str = TRIGGERED
    sleeps: tuple[float, ...] = ()
    posts: int = 1
    builds: int = 1
    states: STATUSES = (PENDING, PENDING)


def told(name: str, fault: Fault, reason: str, **expected: Any) -> Case:
    """Return a case that fails before a build is asked for, and says so on the pull request."""
    text = f"❌ `/ci run` failed: `{reason}`\n\n{AGAIN}"
    return Case(name, fault, 1, text, **{"posts": 0, "builds": 0, "states": (), **expected})


def refused(name: str, status: int, body: bytes, said: str, headers: dict[str, str] | None = None) -> Case:
    """Return a case in which Buildkite refuses for good: not tried again, and the status tells too."""
    fault = start(status, body, headers or {}, times=9)
    reason = f"Buildkite: POST {PIPELINE} answered {status}: {said}"
    return told(name, fault, reason, posts=1, states=(PENDING, ERROR))


def malformed(name: str, fault: Fault, where: str, problem: str, **expected: Any) -> Case:
    """Return a case in which a service answers something its API does not document."""
    return told(name, fault, f"{where}: the answer is malformed ({problem})", **expected)


FILTER = b'{"message": "Build does not match the pipeline\'s filter condition"}'
LIMITED = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "99999999999"}
SCRIPT = b'{"number": 1, "state": "running", "commit": "x", "web_url": "javascript:alert(1)"}'

REFUSALS = [
    refused("422", 422, FILTER, "Build does not match the pipeline's filter condition"),
    refused("422-list", 422, b'{"message": "Failed", "errors": [{"field": "x"}]}', "Failed; {'field': 'x'}"),
    refused("422-markdown", 422, b'{"message": "`@all` [x](e)\\n# <!-- \\u0007"}', "'@all' [x](e) # <!--"),
    refused("422-token", 422, b'{"message": "not %s"}' % BUILDKITE_TOKEN.encode(), "not [hidden]"),
    refused("422-other-token", 422, b'{"message": "ghp_abcdefghijklmnopqrstuvwxyz0123456"}', "[hidden]"),
    refused("422-bearer", 422, b'{"message": "Bearer abc.def"}', "Bearer [hidden]"),
    refused("422-token-at-the-cut", 422, b'{"message": "%s%s"}' % (b"y" * 200, BUILDKITE_TOKEN.encode()),
            "y" * 200 + "[hidden]"),
    refused("422-no-json", 422, b"<html>", "Unprocessable Entity"),
    refused("422-array", 422, b"[1]", "Unprocessable Entity"),
    refused("422-megabyte", 422, b'{"message": "%s"}' % (b"x" * 2**20), "x" * 220 + "…"),
    refused("401", 401, b'{"message": "Authentication required"}', "Authentication required"),
    refused("404", 404, b'{"message": "No pipeline found"}', "No pipeline found"),
    refused("redirect", 302, b"", "Found", {"Location": "http://127.0.0.1:9/builds"}),
]  # fmt: skip
# Nothing happened at 429, so even a POST is sent again, after the time that was asked for.
LIMITS = [
    Case("429-seconds", start(429, headers={"Retry-After": "7"}), sleeps=(7,), posts=2),
    Case("429-buildkite", start(429, headers={"RateLimit-Reset": "42"}), sleeps=(42,), posts=2),
    Case("429-no-time", look(429, times=2), sleeps=(1, 2)),
    Case("429-nonsense", look(429, headers={"Retry-After": "soon"}), sleeps=(1,)),
    Case("429-past", look(429, headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), sleeps=(1,)),
    told("429-an-hour", look(429, b'{"message": "slow down"}', {"Retry-After": "3600"}),
         f"Buildkite: GET {PIPELINE} answered 429: slow down"),
    Case("429-github", role(429, headers={"Retry-After": "3"}), sleeps=(3,)),
    Case("403-second-limit", role(403, headers={"Retry-After": "5"}), sleeps=(5,)),
    told("403-first-limit", pull(403, b'{"message": "API rate limit exceeded"}', LIMITED),
         f"GitHub: GET {PULL_PATH} answered 403: API rate limit exceeded"),
    told("403-plain", pull(403, b'{"message": "Forbidden"}'),
         f"GitHub: GET {PULL_PATH} answered 403: Forbidden"),
]  # fmt: skip
ERRORS = [
    Case("500-once", pull(), sleeps=(1,)),
    Case("502-three-times", role(502, times=3), sleeps=(1, 2, 4)),
    Case("503-with-a-time", look(503, headers={"Retry-After": "9"}), sleeps=(9,)),
    Case("500-ignores-the-window", look(500, headers={"RateLimit-Reset": "42"}), sleeps=(1,)),
    told("500-for-ever", pull(times=9), f"GitHub: GET {PULL_PATH} answered 500: Internal Server Error",
         sleeps=(1, 2, 4)),
    Case("500-build-not-started", start(), sleeps=(1, 1), posts=2),
    Case("500-build-started", start(after=True), sleeps=(1,)),
    told("500-for-every-build", start(times=9),
         f"Buildkite: POST {PIPELINE} answered 500: Internal Server Error",
         sleeps=(1, 1, 1, 2, 1, 4, 1), posts=4, states=(PENDING, ERROR)),
]  # fmt: skip
SILENCE = [
    Case("timeout-on-a-read", pull(hang=True), sleeps=(1,)),
    Case("timeout-build-started", start(hang=True, after=True), sleeps=(1,)),
    Case("timeout-build-not-started", start(hang=True), sleeps=(1, 1), posts=2),
    told("timeout-on-every-look", look(hang=True, times=9),
         f"Buildkite: GET {PIPELINE}: no answer in 0.25 s", sleeps=(1, 2, 4)),
    Case("lost-build-started", start(drop=True, after=True), sleeps=(1,)),
    Case("lost-on-a-read", role(drop=True), sleeps=(1,)),
    told("lost-on-every-read", role(drop=True, times=9),
         f"GitHub: GET {ROLE_PATH}: connection failed (ConnectionError)", sleeps=(1, 2, 4)),
]  # fmt: skip
MALFORMED = [
    malformed("html", pull(200, b"<html>"), f"GitHub: GET {PULL_PATH}",
              "Invalid JSON: expected value at line 1 column 1"),
    malformed("text-for-draft", pull(200, b'{"number": 7, "state": "open", "draft": "false"}'),
              f"GitHub: GET {PULL_PATH}", "draft: Input should be a valid boolean"),
    malformed("no-permission", role(200, b"{}"), f"GitHub: GET {ROLE_PATH}", "permission: Field required"),
    malformed("object-for-builds", look(200, b"{}"), f"Buildkite: GET {PIPELINE}",
              "Input should be a valid array"),
    Case("cut-build-started", start(201, b'{"number": 12', after=True), sleeps=(1,)),
    malformed("cut-build-not-found", start(201, b'{"number": 12'), f"Buildkite: POST {PIPELINE}",
              "Invalid JSON: EOF while parsing an object at line 1 column 13",
              sleeps=(1,), posts=1, states=(PENDING, ERROR)),
    malformed("script-for-a-link", start(201, SCRIPT), f"Buildkite: POST {PIPELINE}",
              "web_url: String should match pattern '^https?://[^\\s()<>\\[\\]]+$'",
              sleeps=(1,), posts=1, states=(PENDING, ERROR)),
]  # fmt: skip
AROUND = [
    Case("no-reaction-allowed", react(403, times=9)),
    told("no-status-allowed", mark(403, b'{"message": "Resource not accessible"}', times=9),
         f"GitHub: POST /repos/acme/engine/statuses/{HEAD} answered 403: Resource not accessible"),
    Case("status-500-once", mark(), sleeps=(1,)),
    Case("answer-lost-on-the-way-back", answer(after=True), sleeps=(1,)),
    Case("answer-timed-out", answer(hang=True), sleeps=(1, 1)),
]  # fmt: skip
CASES = [*REFUSALS, *LIMITS, *ERRORS, *SILENCE, *MALFORMED, *AROUND]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_fault_is_survived_or_told(world: World, case: Case) -> None:
    """No fault starts two builds, passes unseen, or is answered by knocking for ever."""
    service = world.buildkite if case.fault.path == "/builds$" else world.github
    service.faults = [replace(case.fault)]
    if case.fault.hang:
        world.read_timeout = 0.25

    code = world.comment("/ci run", login="maintainer")

    assert service.faults != [case.fault], "the fault never struck"
    assert (code, world.answers) == (case.code, [case.answer])
    assert tuple(world.sleeps) == case.sleeps
    assert (len(world.created), len(world.buildkite.builds)) == (case.posts, case.builds)
    assert tuple(world.states) == case.states
    if case.fault.path != "/reactions$":
        assert world.github.reactions == ["eyes", "confused" if case.code else "rocket"]

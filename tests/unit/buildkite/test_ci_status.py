"""The commit status: from a verdict or a verdict file to what branch protection sees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ci_world import World

from buildkite.ci_command import config
from buildkite.ci_command.github import GitHub
from buildkite.ci_command.redact import Redactor
from buildkite.ci_command.status import Verdict, status
from buildkite.ci_command.transport import Patience, Transport
from tests.support.ci_standins import BUILD_URL, GITHUB_TOKEN, HEAD, Fault

URL = f"{BUILD_URL}/1201"
DEFAULT: dict[str, Any] = {"name": "prefix_law", "verdict": "pass", "expected": 512, "seen": 512}


def publish(world: World, *arguments: str) -> int:
    return world.run("status", "--sha", HEAD, "--url", URL, *arguments)


def check(verdict: str, name: str = "prefix_law", seen: object = 496) -> dict[str, Any]:
    return {**DEFAULT, "verdict": verdict, "name": name, "seen": seen}


def save(folder: Path, name: str, verdict: str, *checks: dict[str, Any], **changes: Any) -> str:
    path = folder / name
    content = {"schema": 1, "scenario": "mtp", "verdict": verdict, "checks": checks, **changes}
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("verdict", "state"),
    [("pass", "success"), ("fail", "failure"), ("invalid", "error"), ("pending", "pending")],
)
def test_a_verdict_becomes_a_state(world: World, verdict: str, state: str) -> None:
    """The reason and the link are there for whoever looks at the merge box."""
    assert publish(world, "--verdict", verdict, "--reason", "two lines\nbecome one\x07") == 0
    assert world.github.statuses == [
        {
            "sha": HEAD,
            "state": state,
            "context": "dropgate",
            "description": "two lines become one",
            "target_url": URL,
        }
    ]


def test_a_long_reason_is_cut_to_what_github_takes(world: World) -> None:
    """GitHub refuses 141 characters."""
    publish(world, "--verdict", "fail", "--reason", "é" * 500)
    publish(world, "--verdict", "fail", "--reason", "é" * 140)
    publish(world, "--verdict", "fail")
    descriptions = [status["description"] for status in world.github.statuses]
    assert descriptions == ["é" * 139 + "…", "é" * 140, "verdict: fail"]


def test_a_token_in_a_reason_is_hidden_even_at_the_cut(world: World) -> None:
    """Reasons come from logs."""
    publish(world, "--verdict", "fail", "--reason", "x" * 120 + GITHUB_TOKEN)
    assert world.github.statuses[0]["description"] == "x" * 120 + "[hidden]"
    assert GITHUB_TOKEN[:20] not in world.output


@pytest.mark.parametrize("lanes", ["gpu", "replay"])
@pytest.mark.parametrize("how", ["option", "environment"])
def test_partial_lanes_never_set_the_required_status(world: World, lanes: str, how: str) -> None:
    """Else a run of one lane would let a pull request merge."""
    if how == "environment":
        world.env["DROPGATE_LANES"] = lanes
    publish(world, "--verdict", "pass", *(["--lanes", lanes] if how == "option" else []))
    assert world.states == [(HEAD, f"dropgate/{lanes}", "success")]


FILES = {
    "pass": (["pass"], [[check("pass"), check("pass")]], "success", "mtp: 2 checks passed"),
    "fail": (["fail"], [[check("fail")]], "failure", "mtp: prefix_law fail, expected 512, seen 496"),
    "invalid": (
        ["invalid"],
        [[check("invalid", seen=None)]],
        "error",
        "mtp: prefix_law invalid, expected 512, seen None",
    ),
    "fail beats invalid": (
        ["fail"],
        [[check("invalid", "a"), check("fail", "b"), check("fail", "c")]],
        "failure",
        "mtp: b fail (+1 more), expected 512, seen 496",
    ),
    "worse than it says": (["pass"], [[check("pass"), check("fail")]], "failure", "mtp: prefix_law fail, "),
    "invalid under pass": (["pass"], [[check("invalid")]], "error", "mtp: prefix_law invalid, "),
    "worse than its checks": (
        ["fail"],
        [[check("pass")]],
        "failure",
        "mtp: the file says fail, its",
    ),
    "no checks": (["pass"], [[]], "error", "mtp: no checks"),
    "no checks, fail": (["fail"], [[]], "failure", "mtp: no checks"),
    "worst of two": (
        ["pass", "invalid"],
        [[check("pass")], [check("invalid")]],
        "error",
        "mtp: prefix_law invalid, expected 512, seen 496",
    ),
    "long values": (
        ["fail"],
        [[check("fail", seen="x" * 999)]],
        "failure",
        "mtp: prefix_law fail, expected 512, seen " + "x" * 39 + "…",
    ),
}


@pytest.mark.parametrize(("verdicts", "checks", "state", "reason"), FILES.values(), ids=FILES)
def test_verdict_files_are_believed_only_as_far_as_their_checks_go(
    world: World, tmp_path: Path, verdicts: list[str], checks: list[list[Any]], state: str, reason: str
) -> None:
    """Fail beats invalid beats pass, within a file and across files; no check is no pass."""
    pairs = enumerate(zip(verdicts, checks, strict=True))
    paths = [save(tmp_path, f"{i}.json", verdict, *found) for i, (verdict, found) in pairs]
    assert publish(world, "--verdict-json", *paths) == 0
    assert world.states == [(HEAD, "dropgate", state)]
    assert world.github.statuses[0]["description"].startswith(reason)


BROKEN = {
    "missing": (None, "verdict.json: No such file or directory"),
    "empty": (b"", "verdict.json is malformed (Invalid JSON: EOF"),
    "cut": (b'{"schema": 1', "verdict.json is malformed (Invalid JSON: EOF"),
    "other schema": (
        b'{"schema": 2, "scenario": "mtp", "verdict": "pass", "checks": []}',
        "verdict.json has schema 2, known is 1",
    ),
    "other verdict": (
        b'{"schema": 1, "scenario": "mtp", "verdict": "maybe", "checks": []}',
        "verdict.json is malformed (verdict: Input should be 'pass', 'fail' or 'invalid')",
    ),
}


@pytest.mark.parametrize(("content", "reason"), BROKEN.values(), ids=BROKEN)
def test_an_unreadable_verdict_is_invalid_beside_a_pass(
    world: World, tmp_path: Path, content: bytes | None, reason: str
) -> None:
    """The step fails too: exit 75, which may be retried."""
    path = tmp_path / "verdict.json"
    if content is not None:
        path.write_bytes(content)
    good = save(tmp_path, "good.json", "pass", check("pass"))
    assert publish(world, "--verdict-json", good, str(path)) == 75
    assert world.states == [(HEAD, "dropgate", "error")]
    assert world.github.statuses[0]["description"].startswith(reason)


def test_no_verdict_file_at_all_is_invalid(world: World) -> None:
    """A pattern that matched nothing must not leave the status as it was."""
    assert publish(world, "--verdict-json") == 75
    assert world.github.statuses[0]["description"] == "no verdict was given"
    assert world.states == [(HEAD, "dropgate", "error")]


def test_the_pipeline_s_environment_is_enough(world: World) -> None:
    """In a Buildkite step nothing needs to be said twice."""
    del world.env["GITHUB_REPOSITORY"]
    world.env |= {
        "DROPGATE_REPOSITORY": "acme/engine",
        "DROPGATE_HEAD_SHA": HEAD,
        "DROPGATE_LANES": "auto",
        "BUILDKITE_BUILD_URL": URL,
    }
    assert world.run("status", "--verdict", "pass") == 0
    assert world.github.statuses[0]["target_url"] == URL


def test_a_status_that_cannot_be_published_is_an_error(world: World) -> None:
    """A 500 is tried again; a refusal is not."""
    world.github.faults = [Fault("POST", "/statuses/", times=2)]
    assert publish(world, "--verdict", "pass") == 0
    assert world.sleeps == [1, 2]
    world.github.faults = [Fault("POST", "/statuses/", 404, b'{"message": "Not Found"}')]
    assert publish(world, "--verdict", "pass") == 1
    assert "not published: GitHub: POST /repos/acme/engine/statuses/" in world.output


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ({"GITHUB_TOKEN": " "}, "not set: GITHUB_TOKEN"),
        (
            {"GITHUB_REPOSITORY": "engine"},
            "GITHUB_REPOSITORY (or DROPGATE_REPOSITORY) must be set to owner/name",
        ),
        ({"GITHUB_API_URL": "http://example.com"}, "GITHUB_API_URL must be an https URL"),
        ({"GITHUB_API_URL": "ftp://127.0.0.1"}, "GITHUB_API_URL must be an https URL"),
        ({"DROPGATE_LANES": "all"}, "DROPGATE_LANES must be one of auto, gpu, replay"),
    ],
    ids=lambda value: next(iter(value.items())) if isinstance(value, dict) else None,
)
def test_a_wrong_setting_is_named(world: World, env: dict[str, str], line: str) -> None:
    """One line, exit 2, nothing sent."""
    world.env |= env
    assert publish(world, "--verdict", "pass") == 2
    assert world.output == f"dropgate-ci: {line}\n"
    assert world.github.requests == []


@pytest.mark.parametrize("where", [("main", URL), (HEAD[:12], URL), (HEAD.upper(), URL), (HEAD, "builds/1")])
def test_a_status_needs_a_whole_commit_and_a_link(world: World, where: tuple[str, str]) -> None:
    """A branch or a short commit could mean another one by now."""
    sha, url = where
    assert world.run("status", "--verdict", "pass", "--sha", sha, "--url", url) == 2
    assert "give --sha" in world.output
    assert world.github.requests == []


def test_the_client_is_the_last_gate_before_github(world: World) -> None:
    """Whoever publishes, a token does not get through."""
    redact = Redactor([GITHUB_TOKEN])
    settings = config.github_settings(world.env)
    with Transport("GitHub", settings.api_url, settings.token, Patience(), redact) as http:
        GitHub(settings, http).publish(HEAD, status(Verdict.FAIL, f"see {GITHUB_TOKEN}", URL))
    assert world.github.statuses[0]["description"] == "see [hidden]"

"""The settings, the event file's limits, and the workflow that calls the command."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from ci_world import World

import buildkite.ci_command.__main__ as entry
from buildkite.ci_command import config
from buildkite.ci_command.redact import Redactor, code_span, one_line
from tests.support.ci_standins import BUILDKITE_TOKEN, GITHUB_TOKEN

ROOT = Path(__file__).parents[3]
WORKFLOW = ROOT / ".github" / "workflows" / "ci-command.yml"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"GITHUB_TOKEN": "", "BUILDKITE_PIPELINE": ""}, "not set: GITHUB_TOKEN, BUILDKITE_PIPELINE"),
        ({"BUILDKITE_API_TOKEN": ""}, "not set: BUILDKITE_API_TOKEN"),
        ({"BUILDKITE_API_URL": "http://buildkite.example"}, "BUILDKITE_API_URL must be an https URL"),
        ({"GITHUB_API_URL": "http://127.0.0.1.example"}, "GITHUB_API_URL must be an https URL"),
        (
            {"DROPGATE_COMMAND_PREFIX": "ci"},
            "DROPGATE_COMMAND_PREFIX must be one word that starts with a slash",
        ),
        ({"GITHUB_EVENT_PATH": "/nowhere/event.json"}, "the event cannot be read: No such file or directory"),
    ],
    ids=["two-missing", "no-token", "clear-text", "looks-like-loopback", "prefix", "no-event"],
)
def test_a_wrong_setting_is_named_before_anything_is_sent(world: World, changes: dict[str, str], line: str) -> None:
    """One line and exit 2, so that an installation shows its mistake at the first comment."""
    world.env |= changes
    code = world.run("comment") if "GITHUB_EVENT_PATH" in changes else world.comment("/ci run", login="maintainer")
    assert (code, world.output) == (2, f"dropgate-ci: {line}\n")
    assert world.github.requests == world.buildkite.requests == []


def test_an_event_beyond_github_s_limit_is_not_parsed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory stays bounded whatever the file holds."""
    monkeypatch.setattr(entry, "MAX_EVENT", 1000)
    assert world.deliver(b" " * 1001) == 2
    assert world.output == "dropgate-ci: the event is larger than 1000 bytes\n"


def test_settings_do_not_show_their_tokens(world: World) -> None:
    """A settings object in a traceback or a log is harmless."""
    shown = repr(config.settings(world.env))
    assert GITHUB_TOKEN not in shown
    assert BUILDKITE_TOKEN not in shown
    assert "acme/engine" in shown


def test_unset_urls_mean_the_public_services() -> None:
    """An empty variable, which is what GitHub makes of an unset one, counts as unset."""
    names = ("GITHUB_TOKEN", "BUILDKITE_API_TOKEN", "BUILDKITE_ORGANIZATION", "BUILDKITE_PIPELINE")
    env = dict.fromkeys(names, "value") | {"GITHUB_REPOSITORY": "a/b", "GITHUB_API_URL": ""}
    found = config.settings(env | {"BUILDKITE_API_URL": "https://buildkite.example/api/"})
    assert found.github.api_url == "https://api.github.com"
    assert found.buildkite.api_url == "https://buildkite.example/api"
    assert (found.prefix, found.ready_labels, found.verdict_step) == ("/ci", {"ready"}, "verdict")


def test_a_secret_is_hidden_in_every_guise() -> None:
    """Whole, inside other text, split by control characters, or merely shaped like a token."""
    redact = Redactor(["s3cret-token", "s3cret-token-longer", "", "  ", "short"])
    assert redact("a s3cret-token-longer b s3cret-token") == "a [hidden] b [hidden]"
    assert redact("s3cret\x00-to\u200bken") == "[hidden]"
    assert redact("Authorization: Bearer abc.def, x") == "Authorization: Bearer [hidden], x"
    assert redact("github_pat_" + "A1" * 20) == "[hidden]"
    assert redact("short text\nstays") == "short text\nstays"


def test_foreign_text_stays_in_its_span_and_on_its_line() -> None:
    """Nothing formats, mentions or breaks out."""
    assert code_span("a`b\n@all\x1b[31m <x>") == "`a'b @all[31m <x>`"
    assert one_line("x" * 11, 10) == "x" * 9 + "…"
    assert one_line(" a\r\n\tb ", 10) == "a b"


def test_the_command_line_that_the_workflow_calls(world: World) -> None:
    """As a process of its own: the environment is all it is given, and no token reaches its output."""
    assert world.comment("chatter") == 0
    event = (world.folder / "event.json").read_text()
    event = event.replace("chatter", "/ci run gpu").replace("author", "maintainer")
    (world.folder / "event.json").write_text(event)
    done = subprocess.run(
        [sys.executable, "-m", "buildkite.ci_command", "comment"],
        cwd=ROOT,
        env={**world.env, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    world.output = done.stdout + done.stderr
    world.always_holds()
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout.endswith("dropgate-ci: comment 555: answered\n")
    assert [build["meta_data"]["dropgate-lanes"] for build in world.created] == ["gpu"]


def workflow() -> dict[Any, Any]:
    loaded = yaml.safe_load(WORKFLOW.read_text())
    assert isinstance(loaded, dict)
    return loaded


def test_the_workflow_runs_the_default_branch_on_new_pull_request_comments_only() -> None:
    """YAML reads the key `on` as true."""
    found = workflow()
    assert found[True] == {"issue_comment": {"types": ["created"]}}
    assert found["permissions"] == {}
    (job,) = found["jobs"].values()
    assert "github.event.issue.pull_request" in job["if"]
    assert "startsWith(github.event.comment.body, vars.DROPGATE_COMMAND_PREFIX || '/ci')" in job["if"]
    for space in ("' '", """fromJSON('"\\t"')""", """fromJSON('"\\r"')""", """fromJSON('"\\n"')"""):
        assert f"startsWith(github.event.comment.body, {space})" in job["if"]  # the handler trims what comes first
    (checkout,) = [step["with"] for step in job["steps"] if "checkout" in step.get("uses", "")]
    assert checkout == {"ref": "${{ github.event.repository.default_branch }}", "persist-credentials": False}


def test_the_workflow_answers_one_comment_of_a_pull_request_at_a_time() -> None:
    """On the job: a group on the workflow would let any other comment push a waiting command out."""
    (job,) = workflow()["jobs"].values()
    assert "concurrency" not in workflow()
    assert job["concurrency"] == {
        "group": "ci-command-${{ github.event.issue.number }}",
        "cancel-in-progress": False,
    }


def test_the_workflow_holds_no_more_rights_than_it_uses() -> None:
    """Read the code; write comments, reactions and statuses."""
    (job,) = workflow()["jobs"].values()
    assert job["permissions"] == {
        "contents": "read",
        "issues": "write",
        "pull-requests": "write",
        "statuses": "write",
    }
    assert job["timeout-minutes"] <= 15


def test_the_workflow_keeps_strangers_words_out_of_the_shell() -> None:
    """No expression at all in a command; tokens only in the environment of the one step that needs them."""
    (job,) = workflow()["jobs"].values()
    assert "env" not in job
    assert "env" not in workflow()
    for step in job["steps"]:
        assert "${{" not in step.get("run", "")
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])
    with_tokens = [step["run"] for step in job["steps"] if "BUILDKITE_API_TOKEN" in step.get("env", {})]
    assert with_tokens == ["python -m buildkite.ci_command comment"]
    events = re.findall(r"\$\{\{\s*github\.event\.[\w.]+", WORKFLOW.read_text())
    assert {event.split("github.event.")[1] for event in events} == {
        "issue.number",
        "repository.default_branch",
    }

"""Whatever strangers and servers send: no crash, no leak, no command that was not typed."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from buildkite.ci_command.answers import job_name
from buildkite.ci_command.commands import COMMANDS, Action, parse
from buildkite.ci_command.models import Job
from buildkite.ci_command.redact import Redactor, code_span, one_line
from buildkite.ci_command.status import Verdict, read
from buildkite.ci_command.transport import retry_after

SECRET = "abcdefgh12345678"
noise = st.text(st.characters(codec="utf-8") | st.sampled_from("`\x00\x1b\n\u200b\u202e\xa0"))
near_commands = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", " ", "\n", "\x00", "\xa0"]),
    st.sampled_from(["/ci", "/CI", "/ci run", "/ci  run", "/ci run gpu", "/ci retry", "/ci cancel"]),
    noise,
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | noise,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(noise, inner, max_size=3),
    max_leaves=8,
)
few = settings(max_examples=150, deadline=None)


@few
@given(noise | near_commands)
def test_a_command_is_what_was_typed_and_nothing_else(body: str) -> None:
    """Only spaces, tabs and line ends around it are forgiven."""
    command = parse(body, "/ci")
    if command is not None and command.action is not Action.HELP:
        assert body.strip(" \t\r\n") in {f"/ci {words}" for words in COMMANDS}


@few
@given(noise, noise, st.integers(0, len(SECRET)), st.sampled_from(["", "\x00", "\u200b", "\x1b"]))
def test_a_secret_never_gets_through(before: str, after: str, cut: int, wedge: str) -> None:
    """Not even with an invisible character wedged into it."""
    said = Redactor([SECRET])(before + SECRET[:cut] + wedge + SECRET[cut:] + after)
    assert SECRET not in said
    assert SECRET not in one_line(said, 140)


@few
@given(noise, st.integers(1, 80))
def test_foreign_text_keeps_to_its_span(text: str, limit: int) -> None:
    """One line, no longer than allowed, and exactly the two backticks that enclose it."""
    span = code_span(text, limit)
    assert span.count("`") == 2
    assert len(span) <= limit + 2
    assert span.splitlines() == [span]
    assert job_name(Job(id="x", type="script", step_key=text)).count("`") == 2


@few
@given(noise, st.sampled_from(["Retry-After", "RateLimit-Reset", "X-RateLimit-Reset"]), st.booleans())
def test_any_wait_that_a_server_asks_for_is_a_number_or_none(text: str, name: str, limited: bool) -> None:
    """Superscript digits and dates of the year 99999 included."""
    headers = {name: text, "X-RateLimit-Remaining": "0" if limited else "1"}
    for value in (text, "²", "9" * 400, "Wed, 21 Oct 99999 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 -0000"):
        asked = retry_after(429, {**headers, name: value})
        assert asked is None or asked >= 0


@few
@given(json_values, st.sampled_from(["schema", "scenario", "verdict", "checks", "extra"]))
def test_no_spoiled_verdict_file_passes(value: object, field: str) -> None:
    """Unreadable is a ValueError; readable with one field replaced still obeys its checks."""
    check = {"name": "a", "verdict": "fail", "expected": 1, "seen": value}
    file = {"schema": 1, "scenario": "mtp", "verdict": "pass", "checks": [check], field: value}
    try:
        verdict, reason = read("verdict.json", json.dumps(file).encode())
    except ValueError:
        return
    assert verdict is not Verdict.PASS
    assert reason

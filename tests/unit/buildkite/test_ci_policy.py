"""The policy alone, over every combination of facts, against rules said in another way."""

from __future__ import annotations

from itertools import product

import pytest

from buildkite.ci_command.commands import COMMANDS, Action, parse, spelling
from buildkite.ci_command.models import Review
from buildkite.ci_command.policy import Facts, approval_matters, approvers, authorise, decide

FLAGS = (False, True)
ROLES = ("none", "read", "triage", "write", "maintain", "admin", "", "owner", "WRITE")
ACTIONS = (Action.RUN, Action.RETRY, Action.CANCEL)


def every() -> list[Facts]:
    """All combinations of facts."""
    axes = (ACTIONS, ROLES, FLAGS, FLAGS, FLAGS, FLAGS, FLAGS, FLAGS, (None, False, True))
    return [Facts(*values) for values in product(*axes)]


def test_nobody_gets_in_by_a_combination_nobody_thought_of() -> None:
    """Allowed is exactly: trusted, or a delegated author; and then nothing in the way of a build."""
    allowed = 0
    for facts in every():
        trusted = facts.role in ("write", "maintain", "admin") or facts.listed
        delegated = facts.author and (facts.ready or facts.approved) and not facts.draft
        clear = facts.action is Action.CANCEL or (facts.is_open and facts.mergeable is True)
        decision = decide(facts)
        assert decision.allowed == ((trusted or delegated) and clear), facts
        assert bool(decision.because) == decision.allowed, facts
        assert bool(decision.missing) != decision.allowed, facts
        allowed += decision.allowed
    assert 0 < allowed < len(every())


def test_what_is_missing_is_enough() -> None:
    """Mending exactly what a denied author was told, and nothing else, gets the author in."""
    for facts in every():
        decision = authorise(facts)
        if decision.allowed or not facts.author:
            continue
        said = " ".join(decision.missing)
        mended = facts.__class__(
            **{
                **facts.__dict__,
                "draft": facts.draft and "draft" not in said,
                "ready": facts.ready or "ready label" in said,
            }
        )
        assert authorise(mended).allowed, facts


def test_reviews_are_read_only_when_they_can_matter() -> None:
    """Whenever an approval would change the decision, it is looked for; else no request is spent."""
    for facts in every():
        without = authorise(facts.__class__(**{**facts.__dict__, "approved": False}))
        with_it = authorise(facts.__class__(**{**facts.__dict__, "approved": True}))
        asked = approval_matters(facts.__class__(**{**facts.__dict__, "approved": False}))
        assert asked == (without.allowed != with_it.allowed), facts


def test_approvers_are_named_once_and_in_order() -> None:
    """The latest decisive review of each person counts."""
    head, old = "a" * 40, "b" * 40
    rows = [
        ("z", "APPROVED", old),
        ("y", "APPROVED", head),
        ("z", "APPROVED", head),
        ("x", "DISMISSED", head),
    ]
    reviews = [Review.model_validate({"user": {"login": w}, "state": s, "commit_id": c}) for w, s, c in rows]
    assert approvers(reviews, head, "author") == ("z", "y")
    assert approvers(reviews, head, "y") == ("z",)
    assert approvers([], head, None) == ()


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("prefix", ["/ci", "/dropgate"])
def test_a_command_is_spelled_as_it_is_read(words: str, prefix: str) -> None:
    """What an answer tells people to type is what is understood."""
    command = parse(f"{prefix} {words}", prefix)
    assert command == COMMANDS[words]
    assert spelling(command, prefix) == f"{prefix} {words}"

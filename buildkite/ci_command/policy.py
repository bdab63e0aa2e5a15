"""Who may use the commands, and when: pure, as tables.

Authority is the first rule that grants; obstacles are looked at only for someone who has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from buildkite.ci_command.commands import Action
from buildkite.ci_command.models import Review

# GitHub reports maintain as write; a server that names it is understood too.
TRUSTED_ROLES = frozenset({"write", "maintain", "admin"})
BUILDING = frozenset({Action.RUN, Action.RETRY})
DECISIVE_REVIEWS = frozenset({"APPROVED", "CHANGES_REQUESTED", "DISMISSED"})


@dataclass(frozen=True)
class Facts:
    """What is known about the person and the pull request when the command is judged.

    Attributes:
        role: the person's access to the repository: none, read, triage, write, maintain or admin.
        listed: the person is on the configured trusted list.
        author: the person opened the pull request.
        ready: the pull request carries a label that delegates CI to its author.
        approved: its current head was approved by someone with write access, and that approval stands.
        mergeable: None while GitHub has not said.

    """

    action: Action
    role: str
    listed: bool
    author: bool
    is_open: bool
    draft: bool
    ready: bool
    approved: bool = False
    mergeable: bool | None = None


@dataclass(frozen=True)
class Decision:
    """Allowed, with the rule that granted it, or refused, with everything that is missing."""

    allowed: bool
    because: str = ""
    missing: tuple[str, ...] = ()


Test = Callable[[Facts], bool]

AUTHORITY: tuple[tuple[str, Test], ...] = (
    ("write access", lambda f: f.role in TRUSTED_ROLES),
    ("the list of trusted users", lambda f: f.listed),
    ("the ready label", lambda f: f.author and not f.draft and f.ready),
    ("an approval of this commit", lambda f: f.author and not f.draft and f.approved),
)

MISSING: tuple[tuple[str, Test], ...] = (
    (
        "missing: write access to this repository, or a place on its list of trusted CI users",
        lambda f: not f.author,
    ),
    ("missing: the pull request is a draft, mark it ready for review", lambda f: f.author and f.draft),
    (
        "missing: a ready label, or an approval of the current head by someone with write access",
        lambda f: f.author and not f.ready and not f.approved,
    ),
)

OBSTACLES: tuple[tuple[str, Test], ...] = (
    ("the pull request is closed, reopen it first", lambda f: not f.is_open),
    (
        "the pull request conflicts with its base branch, merge or rebase first",
        lambda f: f.is_open and f.mergeable is False,
    ),
    (
        "GitHub has not yet said whether the pull request conflicts with its base, comment again in a minute",
        lambda f: f.is_open and f.mergeable is None,
    ),
)


def authorise(facts: Facts) -> Decision:
    """Judge whether the person may use the commands on this pull request at all."""
    for name, grants in AUTHORITY:
        if grants(facts):
            return Decision(allowed=True, because=name)
    return Decision(allowed=False, missing=_holding(MISSING, facts))


def decide(facts: Facts) -> Decision:
    """Judge whether this command may go ahead now; the pull request's state never holds up a cancel."""
    decision = authorise(facts)
    if not decision.allowed or facts.action not in BUILDING:
        return decision
    missing = _holding(OBSTACLES, facts)
    return Decision(allowed=False, missing=missing) if missing else decision


def approval_matters(facts: Facts) -> bool:
    """Say whether reading the reviews could change the decision; it costs a request for each reviewer."""
    return facts.author and not facts.draft and not authorise(facts).allowed


def approvers(reviews: Iterable[Review], head: str, author: str | None) -> tuple[str, ...]:
    """Return logins whose latest decisive review approves exactly the commit `head`.

    A comment leaves an earlier approval standing; a dismissal or a change request ends it, and so does a new
    commit. Whether these people have write access is for the caller to ask.
    """
    latest: dict[str, Review] = {}
    for review in reviews:
        if review.user is not None and review.state in DECISIVE_REVIEWS:
            latest[review.user.login] = review
    return tuple(
        login
        for login, review in latest.items()
        if review.state == "APPROVED" and review.commit_id == head and login != author
    )


def _holding(table: tuple[tuple[str, Test], ...], facts: Facts) -> tuple[str, ...]:
    return tuple(text for text, holds in table if holds(facts))

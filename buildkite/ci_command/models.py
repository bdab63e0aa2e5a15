"""The parts of GitHub's and Buildkite's JSON that are read, typed strictly; everything else is ignored."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, JsonValue, StringConstraints, ValidationError

Sha = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$")]
# These end up in Markdown and in request paths, so their alphabet is closed.
Login = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]+(\[bot\])?$")]
WebUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s()<>\[\]]+$")]
MAX_DESCRIPTION = 140


class Answer(BaseModel):
    """A value another service sent: frozen, strict, tolerant of fields that are not read."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class User(Answer):
    """A GitHub account."""

    login: Login


class Comment(Answer):
    """An issue comment; `body` is whatever a stranger typed, up to any length."""

    id: int
    user: User | None
    created_at: str
    body: str | None = None


class Issue(Answer):
    """The issue a comment belongs to; a pull request when `pull_request` is there."""

    number: int
    pull_request: dict[str, JsonValue] | None = None


class Repository(Answer):
    """A GitHub repository."""

    full_name: str


class CommentEvent(Answer):
    """The `issue_comment` event that GitHub Actions saves at `GITHUB_EVENT_PATH`."""

    action: str
    comment: Comment
    issue: Issue
    repository: Repository


class HeadRepository(Answer):
    """Where a pull request's branch lives."""

    full_name: str
    clone_url: str


class Ref(Answer):
    """One end of a pull request; `repo` is null when the fork was deleted."""

    sha: Sha
    ref: str
    repo: HeadRepository | None = None


class Label(Answer):
    """A label of a pull request."""

    name: str


class PullRequest(Answer):
    """A pull request; `mergeable` is null while GitHub still computes it, `user` when the account is gone."""

    number: int
    state: str
    draft: bool
    user: User | None
    head: Ref
    base: Ref
    labels: tuple[Label, ...]
    mergeable: bool | None


class Review(Answer):
    """One review; `commit_id` is the commit that was looked at."""

    user: User | None
    state: str
    commit_id: str | None


class Permission(Answer):
    """A person's access: admin, write, read or none (maintain counts as write, triage as read)."""

    permission: str


class Status(BaseModel):
    """A commit status to publish; GitHub refuses descriptions longer than 140 characters."""

    state: str
    context: str
    description: str
    target_url: str


class CommitStatus(Answer):
    """One commit status; lists of them are newest first."""

    context: str
    state: str


class Job(Answer):
    """The latest run of one step; wait, block and trigger steps carry no exit status."""

    id: str
    type: str
    state: str | None = None
    step_key: str | None = None
    name: str | None = None
    exit_status: int | None = None
    signal_reason: str | None = None
    retried: bool = False


class Build(Answer):
    """One Buildkite build; `number` is unique in its pipeline.

    A build that waits at a block step keeps the state of what ran before it, such as passed; `blocked` tells.
    """

    number: int
    state: str
    blocked: bool = False
    commit: str
    web_url: WebUrl
    meta_data: dict[str, JsonValue] = {}
    jobs: tuple[Job, ...] = ()


def first_problem(error: ValidationError) -> str:
    """Return the first thing that is wrong, in one line, without repeating any of the input."""
    problem = error.errors(include_input=False, include_url=False, include_context=False)[0]
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else problem["msg"]

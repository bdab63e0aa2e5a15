"""One comment, from the saved event to the answer on the pull request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from enum import StrEnum

from buildkite.ci_command import answers, policy
from buildkite.ci_command.actions import Actions, Order
from buildkite.ci_command.answers import Reply
from buildkite.ci_command.builds import Builds
from buildkite.ci_command.commands import Action, Command, parse
from buildkite.ci_command.config import Settings
from buildkite.ci_command.github import GitHub
from buildkite.ci_command.models import CommentEvent, PullRequest
from buildkite.ci_command.policy import Decision, Facts
from buildkite.ci_command.transport import Patience, ServiceError

MERGEABLE_TRIES = 5


class Outcome(StrEnum):
    """How a conversation ended; only FAILED is an error of the workflow run."""

    IGNORED = "ignored"
    REPEATED = "repeated"
    ANSWERED = "answered"
    FAILED = "failed"


class Conversation:
    """Answers comments.

    Args:
        log: takes one line for the workflow's log.
        patience: sleeps between looks at a pull request whose mergeability GitHub still computes.

    """

    def __init__(
        self,
        settings: Settings,
        github: GitHub,
        builds: Builds,
        patience: Patience,
        log: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._github = github
        self._actions = Actions(settings, github, builds)
        self._patience = patience
        self._log = log

    def handle(self, event: CommentEvent) -> Outcome:
        """Answer one comment once; a comment that is not for us causes no request at all."""
        command = parse(event.comment.body, self._settings.prefix)
        if command is None or event.action != "created" or event.issue.pull_request is None:
            return Outcome.IGNORED
        if event.comment.user is None or event.repository.full_name != self._settings.github.repository:
            self._log("the comment has no author, or is from another repository; ignored")
            return Outcome.IGNORED
        try:
            return self._answer(event, command)
        except ServiceError as error:
            self._log(f"failed: {error}")
            self._react(event, "confused")
            self._report(event, command, error)
            return Outcome.FAILED

    def _answer(self, event: CommentEvent, command: Command) -> Outcome:
        marker = _marker(event, "answered")
        if self._github.own_comment(event.issue.number, event.comment.created_at, marker) is not None:
            self._log("this comment was answered before; nothing to do")
            return Outcome.REPEATED
        self._react(event, "eyes")
        reply = self._reply(event, command)
        self._github.comment(event.issue.number, event.comment.created_at, reply.text, marker)
        self._react(event, reply.reaction)
        self._log(reply.text)
        return Outcome.ANSWERED

    def _reply(self, event: CommentEvent, command: Command) -> Reply:
        prefix = self._settings.prefix
        if command.action is Action.HELP:
            return answers.usage(prefix)
        login = event.comment.user.login if event.comment.user else ""
        pull = self._github.pull_request(event.issue.number)
        decision = self._decide(command, login, pull)
        if not decision.allowed:
            return answers.denied(command, prefix, decision.missing)
        self._log(f"@{login} may use the command: {decision.because}")
        return self._actions.carry_out(Order(command, event.comment.id, login, pull))

    def _decide(self, command: Command, login: str, pull: PullRequest) -> Decision:
        """Judge the command, asking GitHub for no more than the decision needs."""
        facts = self._facts(command, login, pull)
        if policy.approval_matters(facts):
            facts = replace(facts, approved=self._approved(pull))
        allowed = policy.authorise(facts).allowed
        if allowed and command.action in policy.BUILDING and facts.is_open:
            facts = replace(facts, mergeable=self._mergeable(pull))
        return policy.decide(facts)

    def _facts(self, command: Command, login: str, pull: PullRequest) -> Facts:
        return Facts(
            action=command.action,
            role=self._github.role(login),
            listed=login.lower() in self._settings.trusted_users,
            author=pull.user is not None and login.lower() == pull.user.login.lower(),
            is_open=pull.state == "open",
            draft=pull.draft,
            ready=any(label.name in self._settings.ready_labels for label in pull.labels),
        )

    def _approved(self, pull: PullRequest) -> bool:
        author = pull.user.login if pull.user else None
        logins = policy.approvers(self._github.reviews(pull.number), pull.head.sha, author)
        return any(self._github.role(login) in policy.TRUSTED_ROLES for login in logins)

    def _mergeable(self, pull: PullRequest) -> bool | None:
        """Whether the head that was judged merges cleanly; None when GitHub does not say in time.

        When the head moves meanwhile, what GitHub says is about another commit and proves nothing.
        """
        latest = pull
        for tried in range(MERGEABLE_TRIES):
            if latest.mergeable is not None or latest.head.sha != pull.head.sha:
                break
            self._patience.sleep(self._patience.first_wait * 2**tried)
            latest = self._github.pull_request(pull.number)
        return latest.mergeable if latest.head.sha == pull.head.sha else None

    def _react(self, event: CommentEvent, content: str) -> None:
        try:
            self._github.react(event.comment.id, content)
        except ServiceError as error:
            # A reaction is a courtesy; the answer is what counts.
            self._log(f"no {content} reaction: {error}")

    def _report(self, event: CommentEvent, command: Command, error: ServiceError) -> None:
        """Say on the pull request that the command failed; this comment may be answered again later."""
        reply = answers.failed(command, self._settings.prefix, str(error))
        try:
            marker = _marker(event, "failed")
            self._github.comment(event.issue.number, event.comment.created_at, reply.text, marker)
        except ServiceError as second:
            self._log(f"the failure could not be reported on the pull request: {second}")


def _marker(event: CommentEvent, state: str) -> str:
    """Return the hidden line by which an answer is known again."""
    return f"<!-- dropgate-ci {event.comment.id} {state} -->"

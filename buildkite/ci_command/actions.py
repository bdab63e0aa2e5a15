"""What an allowed command does: start, retry or cancel builds, and keep the commit status true."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from buildkite.ci_command import answers, retries
from buildkite.ci_command.answers import Reply
from buildkite.ci_command.builds import Builds, is_active, lanes_of, state_of
from buildkite.ci_command.commands import Action, Command, Lanes, spelling
from buildkite.ci_command.config import Settings
from buildkite.ci_command.github import GitHub
from buildkite.ci_command.models import Build, Job, PullRequest
from buildkite.ci_command.status import Verdict, context, status
from buildkite.ci_command.transport import ServiceError

REFUSED = frozenset({400, 422})
BUILDKITE_WEB = "https://buildkite.com"


@dataclass(frozen=True)
class Order:
    """An allowed command: who gave it, in which comment, on which state of the pull request."""

    command: Command
    comment: int
    login: str
    pull: PullRequest


class Actions:
    """Carries out orders; each method answers with what is to be said."""

    def __init__(self, settings: Settings, github: GitHub, builds: Builds) -> None:
        self._settings = settings
        self._github = github
        self._builds = builds

    def carry_out(self, order: Order) -> Reply:
        """Do what the order says.

        Raises:
            ServiceError: GitHub or Buildkite refused or did not answer.

        """
        actions: dict[Action, Callable[[Order], Reply]] = {
            Action.RUN: self._run,
            Action.RETRY: self._retry,
            Action.CANCEL: self._cancel,
        }
        return actions[order.command.action](order)

    def _run(self, order: Order) -> Reply:
        """Build the head that was checked, unless this comment or an active build already does."""
        pull, lanes, prefix = order.pull, order.command.lanes, self._settings.prefix
        if (build := self._builds.of_comment(order.comment)) is not None:
            return answers.triggered(build, pull.head.sha, prefix)
        for build in self._builds.of_head(pull):
            if is_active(build) and lanes_of(build) is lanes:
                return answers.already_active(build)
        now = self._github.pull_request(pull.number)
        if now.state != "open":
            return answers.denied(order.command, prefix, ["the pull request was closed meanwhile"])
        build = self._start(order)
        return answers.triggered(build, now.head.sha, prefix)

    def _start(self, order: Order) -> Build:
        """Create the build between two pending statuses.

        The first one comes before the build, so that no verdict can be overwritten by it; the second one only
        adds the build's link, and only while no verdict stands.
        """
        pull, lanes, prefix = order.pull, order.command.lanes, self._settings.prefix
        message = f"PR #{pull.number}: {spelling(order.command, prefix)} by @{order.login}"
        self._pending(pull.head.sha, lanes, f"requested by @{order.login}", self._pipeline_page())
        try:
            build = self._builds.create(pull, lanes, order.comment, message, self._env(order))
            if build.commit != pull.head.sha:
                raise ServiceError("Buildkite", f"build #{build.number} is not of the checked commit")
        except ServiceError as error:
            self._invalid(pull.head.sha, lanes, f"not started: {error}", self._pipeline_page())
            raise
        with suppress(ServiceError):  # the answer carries the link too
            if self._github.state(pull.head.sha, context(lanes)) == "pending":
                self._pending(pull.head.sha, lanes, f"Buildkite #{build.number} was started", build.web_url)
        return build

    def _env(self, order: Order) -> dict[str, str]:
        """Return what the pipeline's steps are told about the request."""
        pull = order.pull
        return {
            "DROPGATE_HEAD_SHA": pull.head.sha,
            "DROPGATE_BASE_SHA": pull.base.sha,
            "DROPGATE_PULL_REQUEST": str(pull.number),
            "DROPGATE_COMMENT_ID": str(order.comment),
            "DROPGATE_LANES": order.command.lanes.value,
            "DROPGATE_REPOSITORY": self._settings.github.repository,
        }

    def _retry(self, order: Order) -> Reply:
        """Retry what was invalid in the latest build of the head."""
        prefix, head = self._settings.prefix, order.pull.head.sha
        build = next(self._builds.of_head(order.pull), None)
        if build is None:
            reason = f"commit {answers.short(head)} has no build"
            return answers.nothing_to_retry(prefix, reason)
        if is_active(build) or build.state in {"passed", "canceling", "canceled"}:
            return answers.nothing_to_retry(prefix, f"build {answers.link(build)} is {state_of(build)}")
        jobs = retries.sort(build.jobs, self._settings.verdict_step)
        if not jobs.again:
            left = answers.refused_jobs(jobs.left) or "no job of it was invalid"
            return answers.nothing_to_retry(
                prefix, f"in build {answers.link(build)} {left}, and a failure is a verdict"
            )
        return self._retry_jobs(order, build, jobs)

    def _retry_jobs(self, order: Order, build: Build, jobs: retries.Sorted) -> Reply:
        self._pending(build.commit, lanes_of(build), f"retry requested by @{order.login}", build.web_url)
        done: list[Job] = []
        try:
            for job in jobs.again:
                self._builds.retry(build, job)
                done.append(job)
        except ServiceError as error:
            if not done:
                self._invalid(build.commit, lanes_of(build), f"not retried: {error}", build.web_url)
            raise
        return answers.retried(build, done, jobs.left)

    def _cancel(self, order: Order) -> Reply:
        """Cancel the head's active builds; a status left pending by one of them becomes invalid."""
        done: list[Build] = []
        over: list[Build] = []
        for build in list(self._builds.of_head(order.pull)):
            if is_active(build):
                (done if self._canceled(build) else over).append(build)
        for build in done:
            self._invalid(build.commit, lanes_of(build), f"canceled by @{order.login}", build.web_url)
        return answers.canceled(done, over, order.pull.head.sha)

    def _canceled(self, build: Build) -> bool:
        try:
            self._builds.cancel(build)
        except ServiceError as error:
            if error.status in REFUSED:
                return False
            raise
        return True

    def _pending(self, sha: str, lanes: Lanes, reason: str, url: str) -> None:
        self._github.publish(sha, status(Verdict.PENDING, reason, url, lanes))

    def _invalid(self, sha: str, lanes: Lanes, reason: str, url: str) -> None:
        """Take back a pending status; when that fails it goes on blocking, which is the safe side."""
        with suppress(ServiceError):
            self._github.publish(sha, status(Verdict.INVALID, reason, url, lanes))

    def _pipeline_page(self) -> str:
        buildkite = self._settings.buildkite
        return f"{BUILDKITE_WEB}/{buildkite.organization}/{buildkite.pipeline}"

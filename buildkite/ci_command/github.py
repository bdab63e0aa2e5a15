"""The GitHub requests that the command makes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from buildkite.ci_command.config import GitHubSettings
from buildkite.ci_command.models import MAX_DESCRIPTION, Comment, CommitStatus, Permission, PullRequest, Review, Status
from buildkite.ci_command.transport import ServiceError, Transport, create_once

API_VERSION = "2022-11-28"
PAGE = ("per_page", "100")
MAX_COMMENT = 60_000


class GitHub:
    """One repository; every text that is sent passes the transport's redactor."""

    def __init__(self, settings: GitHubSettings, transport: Transport) -> None:
        owner, name = settings.repository.split("/")
        self._root = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._bot = settings.bot_login
        self._http = transport

    def pull_request(self, number: int) -> PullRequest:
        """Return the pull request as it is now."""
        return self._http.get(PullRequest, f"{self._root}/pulls/{number}")

    def reviews(self, number: int) -> Iterator[Review]:
        """Yield all reviews, oldest first."""
        return self._http.pages(Review, f"{self._root}/pulls/{number}/reviews", [PAGE])

    def role(self, login: str) -> str:
        """Return the person's access to the repository; "none" for someone GitHub does not know there."""
        try:
            path = f"{self._root}/collaborators/{quote(login, safe='')}/permission"
            return self._http.get(Permission, path).permission
        except ServiceError as error:
            if error.status == 404:
                return "none"
            raise

    def own_comment(self, number: int, since: str, marker: str) -> Comment | None:
        """Find our own comment with the marker; a marker in anybody else's comment counts for nothing."""
        comments = self._http.pages(Comment, f"{self._root}/issues/{number}/comments", [("since", since), PAGE])
        for comment in comments:
            if comment.user is not None and comment.user.login == self._bot and marker in (comment.body or ""):
                return comment
        return None

    def react(self, comment: int, content: str) -> None:
        """Add a reaction; adding it again changes nothing."""
        path = f"{self._root}/issues/comments/{comment}/reactions"
        self._http.send("POST", path, body={"content": content})

    def comment(self, number: int, since: str, text: str, marker: str) -> None:
        """Post a comment once; `marker` tells whether an unanswered try got through."""
        body = f"{self._http.redact(text)[:MAX_COMMENT]}\n\n{marker}"
        path = f"{self._root}/issues/{number}/comments"

        create_once(
            self._http.patience,
            lambda: self._http.create(Comment, path, {"body": body}),
            lambda: self.own_comment(number, since, marker),
        )

    def publish(self, sha: str, status: Status) -> None:
        """Set a commit status; the latest one for a context is the one that counts."""
        body = status.model_dump() | {"description": self._http.redact(status.description)[:MAX_DESCRIPTION]}
        self._http.send("POST", f"{self._root}/statuses/{sha}", body=body)

    def state(self, sha: str, context: str) -> str | None:
        """Return the latest state of a context on a commit, or None when it has none."""
        statuses = self._http.pages(CommitStatus, f"{self._root}/commits/{sha}/statuses", [PAGE])
        return next((status.state for status in statuses if status.context == context), None)

"""The world a comment lives in: one GitHub, one Buildkite, and the command run on an event."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from buildkite.ci_command.__main__ import main
from buildkite.ci_command.transport import Patience
from tests.support.ci_standins import (
    BUILDKITE_TOKEN,
    GITHUB_TOKEN,
    HEAD,
    PULL,
    REPOSITORY,
    BuildkiteStandIn,
    GitHubStandIn,
)

COMMENT = 555
# Everything the command may ever ask for. No contents, no archives, no git: the code is never fetched.
KNOWN_PATHS = ("/pulls/", "/collaborators/", "/issues/", "/statuses", "/builds")


class World:
    """Both services and what is needed to let somebody comment."""

    def __init__(self, github: GitHubStandIn, buildkite: BuildkiteStandIn, folder: Path) -> None:
        self.github = github
        self.buildkite = buildkite
        self.folder = folder
        self.read_timeout = 10.0  # seconds; only cases in which a service falls silent lower it
        self.sleeps: list[float] = []
        self.output = ""
        self.env = {
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": GITHUB_TOKEN,
            "GITHUB_API_URL": github.url,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "BUILDKITE_API_TOKEN": BUILDKITE_TOKEN,
            "BUILDKITE_API_URL": buildkite.url,
            "BUILDKITE_ORGANIZATION": "acme",
            "BUILDKITE_PIPELINE": "dropgate",
        }

    def comment(self, body: str | None, login: str = "author", number: int = COMMENT, **changes: Any) -> int:
        """Let somebody comment; `changes` replace top-level parts of the event."""
        event = {
            "action": "created",
            "comment": {
                "id": number,
                "user": {"login": login},
                "created_at": "2026-01-01T00:00:00Z",
                "body": body,
            },
            "issue": {"number": PULL, "pull_request": {"url": "https://api.github.com/..."}},
            "repository": {"full_name": REPOSITORY},
            **changes,
        }
        return self.deliver(json.dumps(event).encode())

    def deliver(self, event: bytes) -> int:
        (self.folder / "event.json").write_bytes(event)
        return self.run("comment")

    def run(self, *arguments: str) -> int:
        out = io.StringIO()
        patience = Patience(connect=2, read=self.read_timeout, sleep=self.sleeps.append)
        code = main(arguments, self.env, out, patience)
        self.output = out.getvalue()
        self.always_holds()
        return code

    def always_holds(self) -> None:
        """What no conversation may ever break."""
        said = [self.output, *(comment["body"] for comment in self.github.comments)]
        sent = [json.dumps(r.body) for r in self.github.requests + self.buildkite.requests]
        for token in (GITHUB_TOKEN, BUILDKITE_TOKEN):
            assert not any(token in text for text in said + sent), "a token was repeated"
        for request in self.github.requests + self.buildkite.requests:
            assert any(part in request.path for part in KNOWN_PATHS), f"{request} is none of our business"
        of_comment = [b["meta_data"].get("dropgate-comment-id") for b in self.buildkite.builds]
        started = [comment for comment in of_comment if comment is not None]
        assert len(started) == len(set(started)), "one comment started two builds"
        for line in self.output.splitlines():
            assert line.startswith("dropgate-ci: "), f"{line!r} could be a workflow command"

    @property
    def answers(self) -> list[str]:
        """What was said on the pull request, without the hidden markers."""
        bot = [c["body"] for c in self.github.comments if c["user"]["login"] == "github-actions[bot]"]
        return [body.split("\n\n<!--")[0] for body in bot]

    @property
    def created(self) -> list[dict[str, Any]]:
        """The bodies of the requests to start a build."""
        return [r.body for r in self.buildkite.requests if str(r).startswith("POST") and r.path.endswith("/builds")]

    @property
    def states(self) -> list[tuple[str, str, str]]:
        """The commit statuses that were set: commit, context, state."""
        return [(s["sha"], s["context"], s["state"]) for s in self.github.statuses]

    def label(self, *names: str) -> None:
        self.github.pull["labels"] = [{"name": name} for name in names]

    def review(self, login: str = "reviewer", state: str = "APPROVED", commit: str = HEAD) -> None:
        self.github.reviews.append({"user": {"login": login}, "state": state, "commit_id": commit})

"""The Buildkite requests that the command makes."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

from buildkite.ci_command.commands import Lanes
from buildkite.ci_command.config import BuildkiteSettings
from buildkite.ci_command.models import Build, Job, PullRequest
from buildkite.ci_command.transport import Transport, create_once

# https://buildkite.com/docs/apis/rest-api/builds: the states in which a build still holds or awaits agents.
ACTIVE = ("creating", "scheduled", "running", "failing", "blocked")
COMMENT, PULL, LANES = "dropgate-comment-id", "dropgate-pull-request", "dropgate-lanes"
PAGE = (("per_page", "100"), ("exclude_pipeline", "true"))


class Builds:
    """One pipeline's builds.

    Filters are applied again here: a filter that the server ignores must not match a stranger's build.
    """

    def __init__(self, settings: BuildkiteSettings, transport: Transport) -> None:
        organization, pipeline = quote(settings.organization, safe=""), quote(settings.pipeline, safe="")
        self._root = f"/v2/organizations/{organization}/pipelines/{pipeline}/builds"
        self._http = transport

    def of_comment(self, comment: int) -> Build | None:
        """Return the build that this comment started, if it did."""
        query = [(f"meta_data[{COMMENT}]", str(comment)), *PAGE, ("exclude_jobs", "true")]
        builds = self._http.pages(Build, self._root, query)
        return next((build for build in builds if build.meta_data.get(COMMENT) == str(comment)), None)

    def of_head(self, pull: PullRequest) -> Iterator[Build]:
        """Yield the builds of the head that commands on this pull request started, newest first."""
        for build in self._http.pages(Build, self._root, [("commit", pull.head.sha), *PAGE]):
            if build.commit == pull.head.sha and build.meta_data.get(PULL) == str(pull.number):
                yield build

    def create(self, pull: PullRequest, lanes: Lanes, comment: int, message: str, env: dict[str, str]) -> Build:
        """Start a build of the pull request's head, once for each comment.

        Raises:
            ServiceError: Buildkite refused, or did not answer and started nothing that can be found.

        """
        body = _body(pull, lanes, comment) | {"message": message, "env": env}
        return create_once(
            self._http.patience,
            lambda: self._http.create(Build, self._root, body),
            lambda: self.of_comment(comment),
        )

    def cancel(self, build: Build) -> None:
        """Cancel a build.

        Raises:
            ServiceError: among others when it ended meanwhile (status 400 or 422).

        """
        self._http.send("PUT", f"{self._root}/{build.number}/cancel", body={})

    def retry(self, build: Build, job: Job) -> None:
        """Run one job of a finished build again; Buildkite allows that once for each run of a job.

        Raises:
            ServiceError: among others when Buildkite does not allow it (status 400 or 422).

        """
        path = f"{self._root}/{build.number}/jobs/{quote(job.id, safe='')}/retry"
        self._http.send("PUT", path, body={}, repeatable=False)


def lanes_of(build: Build) -> Lanes:
    """Return the lanes a build was started for; a build without the mark chose by the touched files."""
    value = build.meta_data.get(LANES)
    return Lanes(value) if isinstance(value, str) and value in set(Lanes) else Lanes.AUTO


def state_of(build: Build) -> str:
    """Return the build's state, "blocked" being one."""
    return "blocked" if build.blocked else build.state


def is_active(build: Build) -> bool:
    """Say whether the build still holds agents or waits for something."""
    return state_of(build) in ACTIVE


def branch(pull: PullRequest) -> str:
    """Return the branch to build under; a fork's branch never passes for one of the repository's own."""
    home = pull.base.repo.full_name if pull.base.repo else None
    origin = pull.head.repo.full_name if pull.head.repo else None
    if origin is not None and origin == home:
        return pull.head.ref
    owner = origin.split("/")[0] if origin else f"pull-{pull.number}"
    return f"{owner}:{pull.head.ref}"


def _body(pull: PullRequest, lanes: Lanes, comment: int) -> dict[str, object]:
    body: dict[str, object] = {
        "commit": pull.head.sha,
        "branch": branch(pull),
        "meta_data": {
            COMMENT: str(comment),
            PULL: str(pull.number),
            LANES: lanes.value,
            "dropgate-head": pull.head.sha,
            "dropgate-base": pull.base.sha,
        },
        "pull_request_id": pull.number,
        "pull_request_base_branch": pull.base.ref,
        "pull_request_labels": [label.name for label in pull.labels],
        # The policy has decided; a filter meant for pushes would answer 422 (vllm-project/vllm#50197).
        "ignore_pipeline_branch_filters": True,
    }
    if pull.head.repo is not None:
        body["pull_request_repository"] = pull.head.repo.clone_url
    return body

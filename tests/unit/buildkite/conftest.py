"""One stand-in GitHub and one stand-in Buildkite for all cases; each case starts from an empty state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ci_world import World

from tests.support.ci_standins import BUILDKITE_TOKEN, GITHUB_TOKEN, BuildkiteStandIn, GitHubStandIn


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[GitHubStandIn, BuildkiteStandIn]]:
    github, buildkite = GitHubStandIn(GITHUB_TOKEN), BuildkiteStandIn(BUILDKITE_TOKEN)
    yield github, buildkite
    github.close()
    buildkite.close()


@pytest.fixture
def world(
    servers: tuple[GitHubStandIn, BuildkiteStandIn], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "*")  # a proxy of the machine's knows nothing of the stand-ins
    github, buildkite = servers
    github.reset()
    buildkite.reset()
    yield World(github, buildkite, tmp_path)
    github.over.set()
    buildkite.over.set()

"""A build of the pipeline with only agent and GitHub stood in for: `buildkite/run.sh`, vLLM's scheduler, the tests."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.buildkite import Build, replay_of, survivors, until
from tests.support.ci_standins import BASE, GITHUB_TOKEN, HEAD, GitHubStandIn
from tests.support.engines import ROOT

pytestmark = pytest.mark.cpu
LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "runs", "ci-out", "__pycache__", ".*_cache", ".hypothesis")
TABLE_A = """\
| cached tokens per request | 10,752 | 12,288 | +1,536 |
| computed tokens per request | 1,792 | 256 | -1,536 |
| total cached tokens | 1,720,320 | 1,966,080 | +245,760 |
| total computed tokens | 286,720 | 40,960 | -245,760 |
"""
REPLAYED = {"replay.json", "verdict.json", "report.md", "junit.xml"}


class Real(Build):
    """A build in a copy of this repository, set up already: with the environment that these tests run in."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copytree(ROOT, self.checkout, ignore=LEFT_OUT, dirs_exist_ok=True)
        for name in (".venv", ".venv-ci"):
            (self.checkout / name).mkdir()
            for path in Path(sys.prefix).iterdir():
                (self.checkout / name / path.name).symlink_to(path)
            (self.checkout / name / ".ready").unlink(missing_ok=True)
            (self.checkout / name / ".ready").touch()  # make: newer than what it is made from
        self.env |= {"DROPGATE_BASE_SHA": BASE, "PYTHONPATH": str(self.checkout), "HOME": str(folder)}

    def only(self, *layouts: str) -> None:
        """Leave these layouts in the replay's lane, to be shorter; their commands stay as they are."""
        path = self.checkout / "buildkite/lanes.yml"
        document = yaml.safe_load(path.read_text())
        reports = document["lanes"]["replay"]["reports"]
        document["lanes"]["replay"]["reports"] = {name: reports[name] for name in layouts}
        path.write_text(yaml.safe_dump(document, sort_keys=False))

    def files(self, lane: str, report: str) -> set[str]:
        stem = f"ci-out/{lane}/{report}/"
        return {name.removeprefix(stem) for name in self.artifacts(lane) if name.startswith(stem)}


@pytest.fixture
def build() -> Iterator[Real]:
    with tempfile.TemporaryDirectory(prefix="dg-") as folder:
        yield Real(Path(folder))


@pytest.fixture
def github() -> Iterator[GitHubStandIn]:
    server = GitHubStandIn(GITHUB_TOKEN)
    yield server
    server.close()


def test_a_replay_becomes_an_annotation_and_a_status(build: Real, github: GitHubStandIn) -> None:
    """generate, replay, verdict: scenario A's table, the engine, head and base reach the pull request."""
    build.only("kimi_k3_dspark")
    build.env |= replay_of(github)
    assert build.run("generate") == 0, build.output
    assert build.run("replay", timeout_s=300) == 0, build.output
    assert build.files("replay", "kimi_k3_dspark") == REPLAYED
    assert build.run("verdict") == 0, build.output
    annotation = (build.agent / "annotations/dropgate").read_text()
    assert TABLE_A in annotation
    version = build.verdict("replay", "kimi_k3_dspark")["engine"]["version"]
    assert f"| replay/kimi_k3_dspark | {version} | - | {HEAD} | {BASE} |" in annotation
    [status] = github.statuses
    assert (status["state"], status["context"]) == ("success", "dropgate/replay")


def test_a_replay_that_is_stopped_half_way_uploads_what_there_is_and_leaves_nothing(build: Real) -> None:
    """SIGTERM while the second layout is replayed: the first one's verdict stands, the second one's is invalid."""
    build.only("dflash", "kimi_k3_dspark")
    process = build.start("replay")
    second = ["dropgate.replay.worker", "kimi_k3_dspark.yaml"]
    until(lambda: any(all(part in " ".join(line) for part in second) for line in survivors(process)), 300)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 143, output
    assert build.files("replay", "dflash") == REPLAYED
    assert build.files("replay", "kimi_k3_dspark") == {"verdict.json", "junit.xml"}
    verdicts = {name: build.verdict("replay", name) for name in ("dflash", "kimi_k3_dspark")}
    assert {name: found["verdict"] for name, found in verdicts.items()} == {
        "dflash": "pass",
        "kimi_k3_dspark": "invalid",
    }
    assert verdicts["kimi_k3_dspark"]["change"]["head"] == HEAD
    until(lambda: not survivors(process))


@pytest.mark.slow
@pytest.mark.parametrize("lane", ["unit", "replay"])
def test_a_whole_lane_passes_as_the_step_runs_it(build: Real, lane: str) -> None:
    """Every command of the lane, as it stands in lanes.yml."""
    reports = list(yaml.safe_load((build.checkout / "buildkite/lanes.yml").read_text())["lanes"][lane]["reports"])
    assert build.run(lane, timeout_s=1200) == 0, build.output
    assert {name: build.verdict(lane, name)["verdict"] for name in reports} == dict.fromkeys(reports, "pass")

"""`buildkite/run.sh` as CI and people run it: a stand-in agent, and cheap commands for engines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ci_world import World

from buildkite.pipeline import files
from buildkite.pipeline.waiting import wait_for
from tests.support.buildkite import Build, replay_of, script, survivors, until
from tests.support.ci_standins import HEAD

ROOT = files.FOLDER.parent
MAKEFILE = """
setup ci lint:
unit:
\t.venv/bin/python -m pytest -q -p no:cacheprovider stand_in_tests.py
"""
TESTS = "import pytest\n\n@pytest.mark.cpu\n@pytest.mark.replay\ndef test_one():\n    pass\n"
PYTHON = f'#!/bin/bash\nexec {sys.executable} "${{@/#-n2/-n0}}"\n'  # one test needs no workers
CONFTEST = "def pytest_addoption(parser):\n    parser.addoption('--require')\n"
DROPGATE = """#!/usr/bin/env bash
set -eu  # dropgate run|replay NAME --out DIR
mkdir -p "$4"
echo "booting" > "$4/engine.log"
echo "| $2 | 1,536 |" > "$4/report.md"
trap 'echo "ended by SIGTERM" >> "$4/engine.log"; exit 130' TERM
if [ -n "${ENGINE_HANGS:-}" ]; then touch "$4/hangs"; sleep 60 & wait; fi
verdict=${ENGINE_SAYS:-pass}
sed "s/SAID/$verdict/g; s/NAME/$2/; s/HEAD/${DROPGATE_HEAD_SHA}/" > "$4/verdict.json" <<'END'
{"schema": 1, "scenario": "NAME", "verdict": "SAID", "change": {"head": "HEAD"},
 "checks": [{"name": "prefix", "verdict": "SAID"}]}
END
case $verdict in pass) exit 0 ;; fail) exit 1 ;; *) exit 75 ;; esac
"""


class Cheap(Build):
    """A build whose lanes run in a moment: stand-ins for set-up, engine, replay and tests."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        for name in ("buildkite", "dropgate"):
            (self.checkout / name).symlink_to(ROOT / name)
        (self.checkout / "Makefile").write_text(MAKEFILE)
        (self.checkout / "stand_in_tests.py").write_text(TESTS)
        for name in ("replay", "e2e"):
            (self.checkout / "tests" / name).mkdir(parents=True)
            (self.checkout / "tests" / name / f"test_{name}.py").write_text(TESTS)
        (self.checkout / "conftest.py").write_text(CONFTEST)
        (self.checkout / "pytest.ini").write_text("[pytest]\nmarkers =\n    cpu\n    replay\n")
        for name in (".venv", ".venv-ci"):
            script(self.checkout / name / "bin/python", PYTHON)
        script(self.checkout / ".venv/bin/dropgate", DROPGATE)


@pytest.fixture
def build(tmp_path: Path) -> Build:
    return Cheap(tmp_path)


CODES = {"pass": 0, "fail": 1, "invalid": 75}


@pytest.mark.parametrize("said", CODES)
def test_cpu_keeps_the_exit_code_and_uploads_everything(build: Build, said: str) -> None:
    assert build.run("cpu", ENGINE_SAYS=said) == CODES[said], build.output
    left = {"tiny_eagle3_cpu": ("engine.log", "junit.xml", "report.md", "verdict.json")}
    left["tests"] = ("junit.xml", "verdict.json")
    assert build.artifacts("cpu").keys() == {
        f"ci-out/cpu/{report}/{name}" for report, names in left.items() for name in names
    }
    assert build.verdict("cpu", "tiny_eagle3_cpu")["verdict"] == said


def test_unit_runs_lint_and_tests(build: Build) -> None:
    (build.checkout / "stand_in_tests.py").write_text("def test_one():\n    assert False\n")
    assert build.run("unit") == 1, build.output  # though make ends with 2
    assert build.verdict("unit", "lint")["checks"][0]["seen"] == "exit code 0"
    assert build.verdict("unit", "tests")["checks"][1]["seen"].startswith("1 failed; first: test_one: assert False")


def test_replay_runs_every_scenario_even_when_one_fails(build: Build) -> None:
    assert build.run("replay", ENGINE_SAYS="fail") == 1
    names = files.lanes().lanes["replay"].reports
    assert [build.verdict("replay", name)["verdict"] for name in names] == ["fail"] * 7 + ["pass"]


def test_what_cannot_be_set_up_is_invalid_and_an_unknown_lane_is_bad_input(build: Build) -> None:
    (build.checkout / "Makefile").write_text("setup:\n\tfalse\n")
    assert build.run("cpu") == 75
    (build.checkout / "Makefile").write_text(MAKEFILE)
    assert build.run("gate") == 2
    assert "lane 'gate' is none of unit, replay, cpu, gpu, two-node" in build.output


@pytest.mark.parametrize(("stop", "whom"), [(signal.SIGTERM, "its process group"), (signal.SIGINT, "the script")])
def test_a_step_that_is_stopped_half_way_still_uploads(build: Build, stop: signal.Signals, whom: str) -> None:
    process = build.start("cpu", ENGINE_HANGS="1")
    hangs = build.checkout / "ci-out/cpu/tiny_eagle3_cpu/hangs"
    until(hangs.exists)
    (os.killpg if whom == "its process group" else os.kill)(process.pid, stop)
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 143, output
    found = build.artifacts("cpu")
    assert found["ci-out/cpu/tiny_eagle3_cpu/engine.log"] == "booting\nended by SIGTERM\n"
    assert build.verdict("cpu", "tiny_eagle3_cpu")["verdict"] == "invalid"


def test_a_command_that_will_not_stop_is_uploaded_in_time_and_then_killed(build: Build) -> None:
    script(build.checkout / ".venv/bin/dropgate", DROPGATE.replace("exit 130' TERM", "sleep 60' TERM"))
    process = build.start("cpu", ENGINE_HANGS="1", DROPGATE_STOP_S="1")
    until((build.checkout / "ci-out/cpu/tiny_eagle3_cpu/hangs").exists)
    began = time.monotonic()
    process.terminate()
    process.communicate(timeout=30)
    assert time.monotonic() - began < 5
    assert "ci-out/cpu/tiny_eagle3_cpu/engine.log" in build.artifacts("cpu")
    assert survivors(process) == []


def test_a_lane_installs_the_wheel_that_is_given(build: Build) -> None:
    script(build.checkout / ".venv/bin/uv", '#!/bin/sh\necho "$@" >> uv.log\n')
    script(build.checkout / ".venv/bin/dropgate", DROPGATE.replace('echo "booting"', "env"))
    wheel = "https://wheels.example/{commit}/vllm.whl"
    assert build.run("cpu", DROPGATE_ENGINE_WHEEL=wheel, DROPGATE_ENGINE_COMMIT="head") == 0
    assert f"https://wheels.example/{HEAD}/vllm.whl" in (build.checkout / "uv.log").read_text()
    said = build.artifacts("cpu")["ci-out/cpu/tiny_eagle3_cpu/engine.log"].splitlines()
    python = f"{build.checkout}/.venv-engine/bin/python"
    assert {f"DROPGATE_ENGINE_PYTHON={python}", f"DROPGATE_ENGINE_COMMIT={HEAD}"} <= set(said)


def test_the_nodes_find_each_other_through_the_build(build: Build) -> None:
    script(build.checkout / ".venv/bin/dropgate", DROPGATE.replace('echo "booting"', "env"))
    for rank in ("0", "1"):
        extra = {"DROPGATE_MASTER_ADDR": "10.0.0.7"} if rank == "0" else {}
        assert build.run("two-node", BUILDKITE_PARALLEL_JOB=rank, BUILDKITE_RETRY_COUNT="1", **extra) == 0, build.output
        said = build.artifacts("two-node")[f"ci-out/two-node-{rank}/kimi_k3_dspark_gb300/engine.log"].splitlines()
        assert {f"NODE_RANK={rank}", "MASTER_ADDR=10.0.0.7"} <= set(said)
    assert (build.agent / "meta-data/dropgate-master-1").read_text() == "10.0.0.7"


@pytest.mark.parametrize(("said", "state"), [("pass", "success"), ("fail", "failure")])
def test_a_whole_build_ends_in_one_annotation_and_one_status(build: Build, world: World, said: str, state: str) -> None:
    """generate, the replay lane, verdict: as three jobs of one build."""
    build.env |= replay_of(world.github)
    assert build.run("generate") == 0, build.output
    steps = json.loads((build.agent / "pipeline.json").read_text())["steps"]
    assert [step["key"] for step in steps] == ["replay", "verdict"]
    assert (build.agent / "annotations/dropgate").read_text().startswith("## dropgate: running")
    assert build.run("replay", ENGINE_SAYS=said) == CODES[said]
    assert build.run("verdict") == CODES[said], build.output
    [place] = (build.agent / "annotations").iterdir()
    assert place.read_text().startswith(f"## dropgate: {said}\n")
    assert "| hybrid_mtp | 1,536 |" in place.read_text()
    assert build.artifacts("verdict")["ci-out/verdict/annotation.md"] == place.read_text()
    [status] = world.github.statuses
    assert (status["state"], status["context"]) == (state, "dropgate/replay")


def test_a_lane_that_never_ran_is_missed(build: Build, world: World) -> None:
    build.env |= replay_of(world.github)
    assert build.run("generate") == 0
    assert build.run("verdict") == 75
    assert "| invalid | replay/dflash | no verdict.json: the lane did not report |" in build.output
    assert world.github.statuses[-1]["state"] == "error"


def test_a_pass_that_nobody_could_be_told_of_is_invalid(build: Build) -> None:
    build.env["DROPGATE_LANES"] = "replay"
    assert [build.run(step) for step in ("generate", "replay", "verdict")] == [0, 0, 75]
    assert "## dropgate: pass" in build.output
    assert "not set: GITHUB_TOKEN" in build.output


def test_a_change_that_plans_less_than_the_default_branch_asks_for_is_invalid(build: Build, world: World) -> None:
    build.env |= replay_of(world.github)
    assert [build.run(step) for step in ("generate", "replay")] == [0, 0]
    plan = build.agent / "meta-data/dropgate-plan"
    fewer = json.loads(plan.read_text())
    fewer["reports"]["replay"].remove("ci-out/replay/dflash")
    plan.write_text(json.dumps(fewer))
    assert build.run("verdict") == 75
    assert "| invalid | choice | not planned: replay/dflash |" in build.output
    assert world.github.statuses[-1]["state"] == "error"


def two_commits(folder: Path, name: str) -> dict[str, str]:
    """Make a repository whose second commit adds one file, and return what a build of that commit is told."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(folder), "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    folder.mkdir()
    git("init")
    git("commit", "--allow-empty", "-m", "base")
    base = git("rev-parse", "HEAD")
    (folder / name).write_text("x")
    git("add", "-A")
    git("commit", "-m", "head")
    commits = {"DROPGATE_HEAD_SHA": git("rev-parse", "HEAD"), "DROPGATE_BASE_SHA": base}
    return {**commits, "DROPGATE_LANES": "auto", "BUILDKITE_BUILD_CHECKOUT_PATH": str(folder)}


def test_documentation_passes_at_once_and_code_never_does(build: Build, world: World, tmp_path: Path) -> None:
    build.env |= replay_of(world.github) | two_commits(tmp_path / "docs", "README.md")
    assert [build.run(step) for step in ("generate", "verdict")] == [0, 0], build.output
    [step] = json.loads((build.agent / "pipeline.json").read_text())["steps"]
    assert step["key"] == "verdict"
    assert (world.github.statuses[-1]["state"], world.github.statuses[-1]["context"]) == ("success", "dropgate")
    code = two_commits(tmp_path / "code", "scheduler.py")
    plan = {"why": "none needed, says the change", "head": code["DROPGATE_HEAD_SHA"]}
    (build.agent / "meta-data/dropgate-plan").write_text(json.dumps(plan))
    assert build.run("verdict", **code) == 75
    assert world.github.statuses[-1]["state"] == "error"


def test_the_verdict_waits_for_lanes_that_run_again(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in build.env.items():
        monkeypatch.setenv(name, value)
    states = build.agent / "states"
    states.mkdir(parents=True)
    (states / "cpu").write_text("waiting_for_dependencies running failing")
    wait_for(["replay", "cpu"], poll_s=0)
    calls = [json.loads(line) for line in (build.agent / "calls.jsonl").read_text().splitlines()]
    assert [call[-1] for call in calls] == ["replay", "cpu"] * 4
    (states / "cpu").write_text("running " * 9)
    wait_for(["cpu"], deadline_s=0, poll_s=0)
    assert (states / "cpu").read_text().count("running") == 8


def test_a_plan_that_cannot_be_made_reaches_the_verdict(build: Build) -> None:
    assert build.run("generate", DROPGATE_LANES="everything") == 0
    [step] = json.loads((build.agent / "pipeline.json").read_text())["steps"]
    assert step["key"] == "verdict"
    assert "'everything' is none of" in (build.agent / "meta-data/dropgate-plan").read_text()


def test_by_hand_there_is_no_agent_and_the_verdict_reads_what_is_here(build: Build) -> None:
    build.env["PATH"] = os.environ["PATH"]
    assert build.run("generate", DROPGATE_LANES="replay") == 0, build.output
    assert build.run("replay") == 0
    assert build.run("verdict") == 0, build.output
    assert "| pass | replay/dflash |" in build.output

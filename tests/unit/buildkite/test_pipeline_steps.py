"""The steps that Buildkite is handed: valid, with stable keys, retried only when nothing was said of the commit."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from buildkite.pipeline import files
from buildkite.pipeline.choice import Choice
from buildkite.pipeline.generate import pipeline, validated
from buildkite.pipeline.plan import make_plan
from dropgate.errors import InputError
from dropgate.replay.run import replay_names
from dropgate.scenario import load_scenario

BUILDKITE = files.FOLDER
LANES = list(files.lanes().lanes)
BOOTSTRAP = yaml.safe_load((BUILDKITE / "pipeline.yml").read_text())
RETRIED = [
    {"exit_status": 75, "limit": 2},
    {"exit_status": -1, "signal_reason": "none", "limit": 2},
    {"signal_reason": "agent_stop", "limit": 2},
]


def generated(lanes: list[str] = LANES) -> dict[str, dict[str, Any]]:
    steps = pipeline(make_plan(Choice(lanes, "a test"), {}))["steps"]
    return {step["key"]: step for step in steps}


STEPS = generated()


def test_the_keys_are_stable_and_every_lane_has_one() -> None:
    assert list(STEPS) == [
        *("unit", "replay", "cpu", "gpu"),
        *("two-node-take", "two-node", "two-node-free", "verdict"),
    ]
    assert generated([]).keys() == {"verdict"}


@pytest.mark.parametrize("lanes", [LANES, ["cpu"], []])
def test_the_verdict_step_waits_for_every_step_however_it_ends(lanes: list[str]) -> None:
    steps = generated(lanes)
    verdict = steps.pop("verdict")
    assert verdict.get("depends_on", []) == [{"step": key, "allow_failure": True} for key in steps]


def test_only_invalid_runs_and_lost_agents_are_retried() -> None:
    for step in [*STEPS.values(), *BOOTSTRAP["steps"]]:
        assert step["retry"] == {"automatic": RETRIED}, step["key"]
        assert not {"soft_fail", "skip", "if", "if_changed", "branches"} & step.keys(), step["key"]


def test_every_step_runs_what_a_person_can_run_and_has_an_end() -> None:
    for step in [*STEPS.values(), *BOOTSTRAP["steps"]]:
        if step["key"].startswith("two-node-"):
            assert step["command"] == "true"  # a gate; it needs no agent's time
        else:
            folder = "${DROPGATE_FOLDER:-.}/" if step in BOOTSTRAP["steps"] else ""
            assert (step.get("command") or step["commands"][-1]) == f"{folder}buildkite/run.sh {step['key']}"
            assert step["timeout_in_minutes"]


def test_the_suite_may_lie_in_a_folder_of_the_repository() -> None:
    steps = pipeline(make_plan(Choice(["two-node"], "a test"), {}), "tests/drop gate")["steps"]
    assert [step.get("command") or step["commands"][-1] for step in steps] == [
        "true",
        "'tests/drop gate'/buildkite/run.sh two-node",
        "true",
        "'tests/drop gate'/buildkite/run.sh verdict",
    ]


def test_two_builds_never_share_the_two_nodes() -> None:
    take, run, free = (STEPS[f"two-node{suffix}"] for suffix in ("-take", "", "-free"))
    assert run["parallelism"] == run["concurrency"] == load_scenario("kimi_k3_dspark_gb300").needs.nodes == 2
    assert take["concurrency"] == free["concurrency"] == 1
    assert take["concurrency_group"] == free["concurrency_group"] == "dropgate/two-node-gate"  # the same in every build
    assert run["concurrency_group"] == "dropgate/two-node"
    assert run["depends_on"] == take["key"]
    assert free["depends_on"] == [{"step": run["key"], "allow_failure": True}]


def test_the_verdict_step_judges_from_the_default_branch_on_its_own_queue() -> None:
    steps = STEPS
    queues = {key: step["agents"]["queue"] for key, step in steps.items()}
    assert list(queues.values()).count(queues["verdict"]) == 1
    assert "$BUILDKITE_PIPELINE_DEFAULT_BRANCH" in steps["verdict"]["commands"][0]


def test_queue_names_stand_in_one_place() -> None:
    names = {str(name) for name in files.queues().values()}
    for path in BUILDKITE.rglob("*"):
        if path.suffix in {".yml", ".sh", ".py"} and path.name != "queues.yml":
            assert not names & set(re.findall(r"[\w-]+", path.read_text())), path


def test_the_bootstrap_is_valid() -> None:
    assert validated(BOOTSTRAP) == BOOTSTRAP


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"comand": "x"}, "step 'cpu': .*'comand' was unexpected"),
        ({"retry": {"automatic": [{"exit_code": 75}]}}, "step 'cpu': retry.*'exit_code' was unexpected"),
        ({"retry": {"automatic": [{"exit_status": 75, "limit": 11}]}}, "step 'cpu'"),
        ({"parallelism": "2"}, "step 'cpu': parallelism: '2' is not of type 'integer'"),
        ({"key": None}, "step 'dropgate"),
    ],
)
def test_what_buildkite_does_not_know_is_refused(change: dict[str, Any], message: str) -> None:
    step = {**STEPS["cpu"], **change}
    with pytest.raises(InputError, match=message):
        validated({"steps": [step]})


def test_unknown_keys_around_the_steps_and_steps_without_a_key_are_refused() -> None:
    with pytest.raises(InputError, match="unknown keys: stesp"):
        validated({"steps": [], "stesp": []})
    keyless = {name: value for name, value in STEPS["cpu"].items() if name != "key"}
    with pytest.raises(InputError, match="has no key"):
        validated({"steps": [keyless]})


def copied(folder: Path, name: str, old: str, new: str) -> Path:
    """Copy the pipeline's data with one text replaced."""
    (folder / "steps").mkdir()
    for path in [*BUILDKITE.glob("*.yml"), *BUILDKITE.glob("steps/*.yml")]:
        (folder / path.relative_to(BUILDKITE)).write_text(path.read_text())
    assert old in (folder / name).read_text()
    (folder / name).write_text((folder / name).read_text().replace(old, new, 1))
    return folder


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("lanes.yml", "verdict: exit", "verdcit: exit", r"lanes\.yml:\d+: unknown key .*did you mean 'verdict'"),
        ("lanes.yml", "  replay:\n", "  unit:\n", r"lanes\.yml:\d+: key 'unit' stands twice"),
        ("touched.yml", "lanes: none", "lane: none", r"touched\.yml:\d+: unknown key .*did you mean 'lanes'"),
        ("queues.yml", "cpu:", "cpus:", "steps/unit.yml: queue 'cpu' is not in queues.yml"),
        ("steps/cpu.yml", "key: cpu", "key: gate", "steps/cpu.yml: no step has the key 'cpu'"),
        ("steps/cpu.yml", "command:", "comand:", "step 'cpu': .*'comand' was unexpected"),
    ],
)
def test_a_mistake_in_the_data_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, old: str, new: str, message: str
) -> None:
    folder = copied(tmp_path, name, old, new)
    for function in (files.lanes, files.touched, files.queues, files.steps):
        monkeypatch.setattr(function, "__defaults__", (folder,))
    with pytest.raises(InputError, match=message):
        generated() if files.touched() else None


def test_lanes_without_agents_are_named_and_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copied(tmp_path, "queues.yml", "two-node: dropgate-gb300", "two-node: ~")
    monkeypatch.setattr(files.queues, "__defaults__", (folder,))
    plan = make_plan(Choice(LANES, "a test"), {})
    assert (plan.absent, plan.needed) == (["two-node"], LANES)
    assert "two-node" not in json.dumps(pipeline(plan))


def test_each_job_of_a_parallel_step_must_report() -> None:
    assert make_plan(Choice(["two-node"], "a test"), {}).reports == {
        "two-node": [f"ci-out/two-node-{rank}/kimi_k3_dspark_gb300" for rank in (0, 1)]
    }


def test_a_lanes_scenarios_exist_and_no_replay_is_left_out() -> None:
    known = files.lanes().lanes
    assert sorted(known["replay"].reports.keys() - {"tests"}) == replay_names()
    for name in [*known["cpu"].reports.keys() - {"tests"}, *known["two-node"].reports]:
        assert load_scenario(name).name == name


def test_whatever_make_test_runs_a_lane_runs() -> None:
    makefile = (BUILDKITE.parent / "Makefile").read_text()
    recipes = dict(re.findall(r"^(\w+):.*\n((?:\t.*\n)+)", makefile, re.MULTILINE))
    commands = [report.command for lane in files.lanes().lanes.values() for report in lane.reports.values()]
    assert "make lint" in commands
    ran = "\n".join(recipes[command[5:]] if command.startswith("make ") else command for command in commands)
    selection = re.compile(r"pytest (tests/\w+)(?: -m ['\"]([^'\"]+)['\"])?")
    assert set(selection.findall(recipes["test"])) <= set(selection.findall(ran))
    assert len(selection.findall(recipes["test"])) == 4

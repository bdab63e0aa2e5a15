"""The README is true: its quick commands run, its long ones are known, its files exist."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from dropgate.cli import _parser as parser
from dropgate.cli import main
from dropgate.replay.run import replay_names
from dropgate.scenario import load_scenario

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
COMMANDS = [
    line.removeprefix("$ ").partition("  #")[0].strip()
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL)
    for line in block.splitlines()
]

ENGINE = {"run", "replay"}
"""What needs the engine is run by the end-to-end and replay tests."""


def commands(program: str) -> list[str]:
    return [command for command in COMMANDS if command.startswith(program + " ")]


def test_every_command_is_covered_by_one_of_the_tests_below() -> None:
    assert {"make gate", "make test"} <= set(COMMANDS)
    assert len(commands("make")) + len(commands("dropgate")) == len(COMMANDS) >= 7


@pytest.mark.parametrize("command", commands("make"))
def test_every_make_target_exists(command: str) -> None:
    planned = subprocess.run([*shlex.split(command), "-n"], cwd=ROOT, capture_output=True, text=True)
    assert planned.returncode == 0, planned.stderr
    assert "dropgate" in planned.stdout or "pytest" in planned.stdout


@pytest.mark.parametrize("command", [one for one in commands("dropgate") if not ENGINE & set(one.split())])
def test_every_quick_command_succeeds(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "fixtures" / "recorded", tmp_path / "fixtures" / "recorded")
    monkeypatch.chdir(tmp_path)
    if "history" in command and " add " not in command:
        assert main(shlex.split(next(one for one in COMMANDS if "history add" in one))[1:]) == 0
    assert main(shlex.split(command)[1:]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", [one for one in commands("dropgate") if ENGINE & set(one.split())])
def test_every_long_command_is_understood_and_names_what_there_is(command: str) -> None:
    """The end-to-end and replay tests run each of these scenarios and layouts; here, that the words are right."""
    options = parser().parse_args(shlex.split(command)[1:])
    if "scenario" in options:
        assert load_scenario(options.scenario, tuple(options.assignments))
    else:
        assert set(options.names) <= set(replay_names())


@pytest.mark.parametrize(
    "path", re.findall(r"\]\((?!http)([^)]+)\)|`((?:tests|docs|requirements|buildkite)/[\w/.]+)`", TEXT)
)
def test_every_file_that_is_named_exists(path: tuple[str, str]) -> None:
    assert (ROOT / (path[0] or path[1])).exists()


def test_the_track_record_is_the_recorded_one() -> None:
    for report in yaml.safe_load((ROOT / "fixtures/recorded/track_record_replay.yaml").read_text()):
        assert (
            f"| {', '.join(report['reports'])} | {report['kind']} | {report['status']} | `{report['caught_by']}` |"
            in TEXT
        )

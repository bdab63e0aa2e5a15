"""What an engine is told and what it said: environment, interpreter, first error line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dropgate.engine.environment import engine_environment, recorded_environment
from dropgate.engine.interpreter import LAUNCHER, EngineIdentity, asked_commit, describe_engine, require_option
from dropgate.engine.log import first_error
from dropgate.errors import InputError


def test_only_the_allow_list_and_the_scenario_reach_the_engine() -> None:
    caller = {
        "PATH": "/bin",
        "HF_TOKEN": "hf_secret",
        "BUILDKITE_AGENT_TOKEN": "x",
        "PYTHONPATH": "/evil",
        "LD_PRELOAD": "x",
    }
    environment = engine_environment(caller, {"OMP_NUM_THREADS": "2"}, "/scratch")
    assert environment["PATH"] == "/bin"
    assert environment["OMP_NUM_THREADS"] == "2"
    assert environment["TMPDIR"] == "/scratch"
    assert not {"BUILDKITE_AGENT_TOKEN", "PYTHONPATH", "LD_PRELOAD"} & environment.keys()


def test_no_secret_is_recorded() -> None:
    secret = {"HF_TOKEN": "hf_secret", "HTTPS_PROXY": "http://me:secret@proxy", "MY_API_KEY": "secret", "PATH": "/bin"}
    recorded = recorded_environment(secret)
    assert "secret" not in json.dumps(recorded).replace("hf_secret", "secret")
    assert recorded["PATH"] == "/bin"


def test_an_engine_without_the_option_is_refused_with_the_version_that_has_it() -> None:
    old = EngineIdentity(python="python", version="0.29.0+cpu", knows_option=False)
    with pytest.raises(InputError, match=r"vLLM 0\.29\.0\+cpu .* does not know .* every vLLM from 0\.30\.0 does"):
        require_option(old)


def test_no_engine_at_all_says_how_to_get_one() -> None:
    with pytest.raises(InputError, match="has no vLLM; `make setup` brings"):
        require_option(EngineIdentity(python="python", version=None, knows_option=False))


def test_an_interpreter_that_cannot_be_run_is_named() -> None:
    with pytest.raises(InputError, match="DROPGATE_ENGINE_PYTHON: /no/python cannot be asked"):
        describe_engine("/no/python")


def test_this_interpreters_engine_is_described_without_importing_it() -> None:
    identity = describe_engine(sys.executable)
    assert identity.version is not None
    assert identity.knows_option


HASH = "1a2b3c4d5"
WHEELS = {
    f"0.33.0.dev7+g{HASH}.cu129": None,
    f"0.33.0.dev7+g{HASH}": "None",
    "0.33.0": f"'g{HASH}'",
    "0.33.0+cpu": f"'{HASH}'",
}


def described_commit(folder: Path) -> str | None:
    """Ask the launcher about the package ``vllm`` in the folder, as an interpreter that has it would."""
    command = [sys.executable, str(LAUNCHER), "--describe"]
    answer = subprocess.run(
        command, env={"PYTHONPATH": str(folder), "PATH": os.environ["PATH"]}, stdout=subprocess.PIPE
    )
    return EngineIdentity.model_validate_json(answer.stdout).commit


def install(folder: Path, version: str, written: str | None = None) -> Path:
    (folder / "vllm").mkdir()
    (folder / "vllm" / "__init__.py").touch()
    (folder / f"vllm-{version}.dist-info").mkdir()
    (folder / f"vllm-{version}.dist-info" / "METADATA").write_text(f"Name: vllm\nVersion: {version}\n")
    if written:
        (folder / "vllm" / "_version.py").write_text(f"commit_id: str\n__commit_id__ = commit_id = {written}\n")
    return folder


@pytest.mark.parametrize("version", WHEELS)
def test_a_wheel_names_the_commit_that_its_build_wrote(version: str, tmp_path: Path) -> None:
    assert described_commit(install(tmp_path, version, WHEELS[version])) == HASH


@pytest.mark.parametrize("version", ["0.32.0", "0.32.0+cpu", "0.32.0+cu129"])
def test_a_release_names_no_commit(version: str, tmp_path: Path) -> None:
    assert described_commit(install(tmp_path, version, "None")) is None


def test_a_checkout_answers_for_itself_and_says_when_it_was_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    install(tmp_path, "0.33.0", "'gdeadbeef0'")
    git("init")
    git("add", ".")
    git("commit", "-m", "x")
    head = git("rev-parse", "HEAD")
    assert described_commit(tmp_path) == head
    (tmp_path / "vllm" / "_version.py").write_text("")
    assert described_commit(tmp_path) == f"{head}-dirty"


def test_the_commit_that_was_asked_for_comes_from_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DROPGATE_ENGINE_COMMIT", HASH)
    assert asked_commit() == HASH
    monkeypatch.setenv("DROPGATE_ENGINE_COMMIT", "")
    assert asked_commit() is None


ERROR = "(EngineCore pid=2) ERROR 12-01 09:29:49 [core.py:1512] "
LOGS = {
    "vllm serve: error: unknown argument --x": "usage: vllm serve\nvllm serve: error: unknown argument --x",
    "ValueError: too long": "(APIServer pid=1) INFO fine\n(APIServer pid=1) Traceback (most recent call last):\n"
    "(APIServer pid=1)   File x\n(APIServer pid=1) ValueError: too long\nRuntimeError: later",
    "RuntimeError: first": f"{ERROR}EngineCore failed to start.\n{ERROR}Traceback (most recent call last):\n"
    f"{ERROR}    raise RuntimeError\n{ERROR}RuntimeError: first\n(APIServer pid=1) RuntimeError: second",
    "ValidationError: 1 validation error for ModelConfig Value error, too long": "(APIServer pid=1) "
    "ValidationError: 1 validation error for ModelConfig\n(APIServer pid=1)   Value error, too long",
    "Worker proc VllmWorker-0 died unexpectedly": f"{ERROR}Worker proc VllmWorker-0 died unexpectedly\n"
    f"{ERROR}RuntimeError: cancelled",
    "just this": "(APIServer pid=1) WARNING: failed to increase the limit, can cause OSError\njust this\n\n",
    "the engine wrote nothing to its log": "",
}


@pytest.mark.parametrize("expected", LOGS)
def test_the_first_error_line_is_the_engines_own(expected: str, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOGS[expected])
    assert first_error(tmp_path / "log") == expected


def test_a_log_that_is_missing_says_so(tmp_path: Path) -> None:
    assert "cannot be read" in first_error(tmp_path / "log")

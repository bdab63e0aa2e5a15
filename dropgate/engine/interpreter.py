"""Which engine is under test: asked of the interpreter that has it, without importing the engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from dropgate.errors import InputError
from dropgate.variants import OPTION, OPTION_SINCE

LAUNCHER = Path(__file__).with_name("launcher.py")
PYTHON_VARIABLE = "DROPGATE_ENGINE_PYTHON"
COMMIT_VARIABLE = "DROPGATE_ENGINE_COMMIT"


class EngineIdentity(BaseModel):
    """The engine that an interpreter has."""

    model_config = ConfigDict(frozen=True)

    python: str
    version: str | None
    knows_option: bool
    packages: dict[str, str | None] = {}
    commit: str | None = None


def asked_commit() -> str | None:
    """Return the commit that the engine under test must be of: ``DROPGATE_ENGINE_COMMIT``, if it is set."""
    return os.environ.get(COMMIT_VARIABLE) or None


def engine_python() -> str:
    """Name the interpreter of the engine under test: ``DROPGATE_ENGINE_PYTHON``, else this one."""
    return os.environ.get(PYTHON_VARIABLE) or sys.executable


def describe_engine(python: str | None = None) -> EngineIdentity:
    """Ask the interpreter which engine it has.

    Raises:
        InputError: the interpreter cannot be run.

    """
    python = python or engine_python()
    command = [python, str(LAUNCHER), "--describe"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return EngineIdentity.model_validate_json(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValidationError, json.JSONDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{PYTHON_VARIABLE}: {python} cannot be asked for its engine: {reason}") from None


def require_option(identity: EngineIdentity) -> EngineIdentity:
    """Return the identity of an engine that can be judged at all.

    Raises:
        InputError: there is no engine, or it does not know the option.

    """
    if identity.version is None:
        raise InputError(
            f"{identity.python} has no vLLM; `make setup` brings the CPU engine, {PYTHON_VARIABLE} names another one"
        )
    if not identity.knows_option:
        raise InputError(
            f"vLLM {identity.version} in {identity.python} does not know {OPTION}; every vLLM from {OPTION_SINCE} does"
        )
    return identity

"""Plan -> the steps that Buildkite is handed, checked against its published schema first."""

from __future__ import annotations

import json
import shlex
from importlib.resources import files as package_files
from typing import Any

from buildkite_sdk.schema import CommandStep
from jsonschema import Draft7Validator
from jsonschema.exceptions import best_match

from buildkite.pipeline import files
from buildkite.pipeline.files import VERDICT_STEP
from buildkite.pipeline.plan import Plan
from dropgate.errors import InputError

SCHEMA: dict[str, Any] = json.loads(package_files("buildkite_sdk").joinpath("schema.json").read_text(encoding="utf-8"))
"""https://github.com/buildkite/pipeline-schema, as the SDK brings it."""


def pipeline(plan: Plan, folder: str = "") -> dict[str, Any]:
    """Return the steps of the planned lanes and the verdict step, which waits for all of them, however they end.

    ``folder`` is where in the checkout this suite is; empty for its root.

    Raises:
        InputError: a step is not what Buildkite's schema allows.

    """
    steps = [step for lane in plan.lanes for step in files.steps(lane)]
    [verdict] = files.steps(VERDICT_STEP)
    waits = [{"step": step.get("key", ""), "allow_failure": True} for step in steps]
    steps.append({**verdict, "depends_on": waits} if waits else verdict)
    queues = files.queues()
    on_queues = [{**step, "agents": {"queue": queues[step["agents"]["queue"]]}} for step in steps]
    return validated({"steps": [_within(folder, step) for step in on_queues]})


def _within(folder: str, step: dict[str, Any]) -> dict[str, Any]:
    """Let a step's commands find the suite from the root of the checkout, where Buildkite runs them."""
    if not folder:
        return step
    script = "buildkite/run.sh "
    placed = f"{shlex.quote(folder)}/{script}"
    changed: dict[str, Any] = {}
    if "command" in step:
        changed["command"] = step["command"].replace(script, placed)
    if "commands" in step:
        changed["commands"] = [command.replace(script, placed) for command in step["commands"]]
    return {**step, **changed}


def validated(document: dict[str, Any]) -> dict[str, Any]:
    """Return the pipeline if Buildkite's schema allows it and every key of it is known.

    Raises:
        InputError: naming the step and what is wrong with it.

    """
    if unknown := document.keys() - SCHEMA["properties"].keys():
        raise InputError(f"the pipeline has unknown keys: {', '.join(sorted(unknown))}")
    for step in document["steps"]:
        name = step.get("key") or step.get("label")
        _require(step, {"$ref": "#/definitions/commandStep"}, f"step '{name}'")
        if "key" not in step:
            raise InputError(f"step '{name}' has no key")
        if CommandStep.model_validate(step).model_dump(by_alias=True, exclude_none=True, mode="json") != step:
            raise InputError(f"step '{name}' is not what the SDK's CommandStep makes of it")
    _require(document, {}, "the pipeline")
    return document


def _require(value: Any, part: dict[str, Any], name: str) -> None:
    schema = {"definitions": SCHEMA["definitions"], "allOf": [part]} if part else SCHEMA
    if error := best_match(Draft7Validator(schema).iter_errors(value)):
        raise InputError(f"{name}: {'.'.join(map(str, error.absolute_path)) or 'keys'}: {error.message}")

"""The pipeline's data: queues.yml, lanes.yml, touched.yml and the step files, each refused when a key is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from dropgate.strict_yaml import Strict, read_document, validate

FOLDER = Path(__file__).resolve().parents[1]
VERDICT_STEP = "verdict"


class Report(Strict):
    """One command of a lane and how its verdict comes about."""

    command: str
    verdict: Literal["written", "junit", "exit"]


class Lane(Strict):
    """What a lane runs: reports by name, in this order."""

    reports: dict[str, Report] = Field(min_length=1)


class Lanes(Strict):
    """All lanes, and those that an explicit command stands for."""

    lanes: dict[str, Lane] = Field(min_length=1)
    asked: dict[str, list[str]]


class Rule(Strict):
    """The lanes that files need which fit one of the patterns."""

    patterns: list[str] = Field(min_length=1)
    lanes: Literal["all", "none"] | list[str]


class Touched(Strict):
    """Rules in order; the first that fits a file counts."""

    rules: list[Rule]


class Queues(Strict):
    """Queue names by what the agents have; None where the installation has no such agents."""

    queues: dict[str, str | None]


class StepFile(Strict):
    """Steps as Buildkite knows them; Buildkite's own schema checks their keys."""

    steps: list[dict[str, Any]] = Field(min_length=1)


def lanes(folder: Path = FOLDER) -> Lanes:
    """Read lanes.yml."""
    return validate(read_document(folder / "lanes.yml"), Lanes)


def touched(folder: Path = FOLDER) -> list[Rule]:
    """Read touched.yml."""
    return validate(read_document(folder / "touched.yml"), Touched).rules


def queues(folder: Path = FOLDER) -> Mapping[str, str | None]:
    """Read queues.yml."""
    return validate(read_document(folder / "queues.yml"), Queues).queues


def steps(name: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Read one step file, with the defaults filled in; queues are still the names that queues.yml knows."""
    defaults = read_document(folder / "steps" / "defaults.yml").data
    found = validate(read_document(folder / "steps" / f"{name}.yml"), StepFile).steps
    return [{**defaults, **step} for step in found]

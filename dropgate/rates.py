"""References for acceptance rates: read for a run, and written from a run that passed, never by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field

from dropgate.errors import InputError
from dropgate.evidence import ACCEPTANCE_PHASES, Evidence, ReferenceRates
from dropgate.judge import Judgement, Verdict
from dropgate.scenario import FIXTURES, Scenario
from dropgate.scenario.promises import AcceptanceBandPromise
from dropgate.strict_yaml import Strict, read_document, validate

FOLDER = FIXTURES / "references" / "acceptance"
HEADER = "# Written by `dropgate reference DIR` from runs that passed every other check.\n"

Share = Annotated[float, Field(ge=0, le=1)]


class Born(Strict):
    """One data set's rates, with their birth certificate."""

    data: str
    sha256: str
    questions: int
    origin: dict[str, str]
    rates: dict[str, dict[str, Share]]


class RatesFile(Strict):
    """All rates of one scenario."""

    schema_version: Annotated[Literal[1], Field(alias="schema")] = 1
    born: list[Born] = []


def reference_name(scenario: Scenario) -> str | None:
    """Return the file that the scenario's band is read from, if it has a band."""
    bands = [promise.reference for promise in scenario.promises if isinstance(promise, AcceptanceBandPromise)]
    return bands[0] if bands else None


def known_rates(scenario: Scenario, sha256: str, questions: int) -> ReferenceRates | None:
    """Return the rates for this very data, as far as there are any.

    Raises:
        InputError: the file does not fit.

    """
    name = reference_name(scenario)
    for born in _load(name).born if name else []:
        if (born.sha256, born.questions) == (sha256, questions):
            return ReferenceRates(name=str(name), origin=born.origin, rates=born.rates)
    return None


def _load(name: str) -> RatesFile:
    path = FOLDER / f"{name}.yaml"
    return validate(read_document(path), RatesFile) if path.is_file() else RatesFile()


def write_rates(evidence: Evidence, judgement: Judgement, run: str) -> Path:
    """Add a run's rates to its scenario's file, in the place of older ones for the same data.

    Raises:
        InputError: the run has no band, or a check other than the band's own does not pass.

    """
    name, questions = reference_name(evidence.scenario), evidence.questions
    if name is None or questions is None:
        raise InputError(f"{run}: its scenario promises no acceptance_band, so that there is nothing to write")
    odd = [
        check for check in judgement.checks if check.verdict is not Verdict.PASS and not check.name.endswith(".band")
    ]
    if odd:
        raise InputError(f"{run}: {odd[0].name} is {odd[0].verdict}; a reference is never written from such a run")
    fresh = Born(
        data=questions.name,
        sha256=questions.sha256,
        questions=len(questions.token_ids),
        origin=_origin(evidence, run),
        rates=_rates(judgement),
    )
    kept = [born for born in _load(name).born if (born.sha256, born.questions) != (fresh.sha256, fresh.questions)]
    whole = RatesFile(born=[*kept, fresh]).model_dump(by_alias=True)
    path = FOLDER / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")
    return path


def _origin(evidence: Evidence, run: str) -> dict[str, str]:
    return {
        "engine": f"vLLM {evidence.engine.version}",
        "hardware": f"{evidence.host.get('cpus')} x {evidence.host.get('processor')}",
        "date": evidence.created,
        "run": run,
    }


def _rates(judgement: Judgement) -> dict[str, dict[str, Any]]:
    variants = ("baseline", "candidate")
    return {
        phase: {name: round(judgement.metrics[name][phase]["rate"], 6) for name in variants}
        for phase in ACCEPTANCE_PHASES
    }

"""References: the counts of one layout on one vLLM version, written by a command, with their origin."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field

from dropgate.law import VARIANT_NAMES
from dropgate.replay.result import ReplaySeen, WorkloadSeen
from dropgate.strict_yaml import Strict, read_document, validate

REFERENCES = Path(__file__).resolve().parents[2] / "fixtures" / "references" / "replay"

Run = Annotated[tuple[int, int, int], Field(strict=False)]
"""So many requests in a row with these cached tokens: count, baseline, candidate."""


Admission = Annotated[tuple[int, int], Field(strict=False)]
"""So many requests were admitted in each of so many steps."""


class StepsReference(Strict):
    """Scheduler steps of one variant: how many, and how many deferrals, preemptions and admissions in them."""

    steps: int
    deferrals: int
    preemptions: int
    admissions: list[Admission]


class WorkloadReference(Strict):
    """One workload: cached tokens of its requests phase by phase, and the steps of both variants."""

    unit: int
    phases: dict[str, list[Run]]
    baseline: StepsReference
    candidate: StepsReference


class Reference(Strict):
    """All workloads of one layout on one vLLM version. `written_by` is the command, `date` that of writing."""

    scenario: str
    vllm_version: str
    written_by: str
    date: str
    workloads: dict[str, WorkloadReference]


def reference_path(scenario: str, vllm_version: str, folder: Path = REFERENCES) -> Path:
    """Name the file of one layout and vLLM version; a local build label is not part of the version."""
    return folder / f"{scenario}-{vllm_version.partition('+')[0]}.yaml"


def find_reference(seen: ReplaySeen, folder: Path = REFERENCES) -> Reference | None:
    """Load the reference of a replay's layout and version; none when there is no such file.

    Raises:
        InputError: the file does not fit.

    """
    path = reference_path(seen.scenario, seen.vllm_version, folder)
    return validate(read_document(path), Reference) if path.is_file() else None


def make_reference(seen: ReplaySeen, date: str) -> Reference:
    """Reduce a replay to its counts. Times are not part of it. `date` is ISO 8601."""
    names = dict.fromkeys(workload.workload for workload in seen.workloads)
    return Reference(
        scenario=seen.scenario,
        vllm_version=seen.vllm_version,
        written_by=f"dropgate replay {seen.scenario} --write-reference",
        date=date,
        workloads={
            name: workload_reference(seen.workload(name, "baseline"), seen.workload(name, "candidate"))
            for name in names
        },
    )


def write_reference(reference: Reference, folder: Path = REFERENCES) -> Path:
    """Write a reference to its place and return the path. Only for a replay in which nothing failed."""
    path = reference_path(reference.scenario, reference.vllm_version, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = reference.model_dump(mode="json")
    path.write_text(yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=110))
    return path


def workload_reference(baseline: WorkloadSeen, candidate: WorkloadSeen) -> WorkloadReference:
    """Reduce both variants of one workload."""
    pairs: dict[str, list[tuple[int, int]]] = {phase.name: [] for phase in baseline.phases}
    for one, other in zip(baseline.requests, candidate.requests, strict=True):
        pairs[one.phase].append((one.cached_tokens, other.cached_tokens))
    phases = {
        name: [(len(list(run)), *pair) for pair, run in itertools.groupby(cached)] for name, cached in pairs.items()
    }
    return WorkloadReference(
        unit=baseline.resolved.unit,
        phases=phases,
        baseline=steps_reference(baseline),
        candidate=steps_reference(candidate),
    )


def steps_reference(seen: WorkloadSeen) -> StepsReference:
    """Reduce the steps of one variant."""
    return StepsReference(
        steps=len(seen.steps),
        deferrals=sum(step.deferred for step in seen.steps),
        preemptions=sum(step.preempted for step in seen.steps),
        admissions=sorted(Counter(step.admitted for step in seen.steps).items()),
    )


def mismatches(
    reference: WorkloadReference, baseline: WorkloadSeen, candidate: WorkloadSeen
) -> Iterator[tuple[str, str]]:
    """Hold both variants of one workload against their reference; yields (expected, seen) where they differ."""
    seen = workload_reference(baseline, candidate)
    if seen.unit != reference.unit:
        yield f"a unit of {reference.unit} tokens", str(seen.unit)
    for name in dict.fromkeys((*reference.phases, *seen.phases)):
        expected, found = reference.phases.get(name), seen.phases.get(name)
        if expected != found:
            yield f"{name}: (requests, baseline, candidate) = {expected}", str(found)
    for variant in VARIANT_NAMES:
        for field in StepsReference.model_fields:
            one, other = (getattr(getattr(side, variant), field) for side in (reference, seen))
            if one != other:
                yield f"{variant}: {field} = {one}", str(other)

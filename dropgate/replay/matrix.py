"""Which counts differ between vLLM versions: the same scenarios replayed in several interpreters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dropgate.law import VARIANT_NAMES
from dropgate.replay.reference import StepsReference, workload_reference
from dropgate.replay.result import ReplaySeen


@dataclass(frozen=True)
class Difference:
    """One count that is not the same in all versions; `values` by version, in the order given."""

    scenario: str
    workload: str
    variant: str
    what: str
    values: tuple[str, ...]


def counts(seen: ReplaySeen) -> dict[tuple[str, str, str], str]:
    """Reduce a replay to named counts: (workload, variant, what) -> value."""
    found: dict[tuple[str, str, str], str] = {}
    for name in dict.fromkeys(workload.workload for workload in seen.workloads):
        both = [seen.workload(name, variant) for variant in VARIANT_NAMES]
        reference = workload_reference(*both)
        for side, variant in enumerate(VARIANT_NAMES, 1):
            found[name, variant, "unit"] = str(both[side - 1].resolved.unit)
            for field in StepsReference.model_fields:
                found[name, variant, field] = str(getattr(getattr(reference, variant), field))
            for phase, runs in reference.phases.items():
                cached = [f"{run[side]}x{run[0]}" if run[0] > 1 else str(run[side]) for run in runs]
                found[name, variant, f"cached, {phase}"] = " ".join(cached)
    return found


def differences(replays: Sequence[ReplaySeen]) -> Iterator[Difference]:
    """Compare replays of one scenario on several versions; a count that one lacks is shown as `-`."""
    all_counts = [counts(seen) for seen in replays]
    for key in dict.fromkeys(key for found in all_counts for key in found):
        values = tuple(found.get(key, "-") for found in all_counts)
        if len(set(values)) > 1:
            yield Difference(replays[0].scenario, *key, values)


def table(by_version: Mapping[str, Mapping[str, ReplaySeen]]) -> str:
    """Render every differing count as Markdown; `by_version[version][scenario]`, versions become columns."""
    versions = list(by_version)
    lines = [
        "| " + " | ".join(["scenario", "workload", "variant", "count", *versions]) + " |",
        "|---" * (4 + len(versions)) + "|",
    ]
    for scenario in next(iter(by_version.values())):
        for one in differences([by_version[version][scenario] for version in versions]):
            cells = [one.scenario, one.workload, one.variant, one.what, *one.values]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"

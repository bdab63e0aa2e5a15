"""One variant's phase as the judge reads it: records beside counters and the resolved configuration."""

from __future__ import annotations

from dataclasses import dataclass

from dropgate.evidence import PhaseEvidence
from dropgate.law import VariantName
from dropgate.metrics import (
    CACHE_CONFIG,
    CounterError,
    Difference,
    cache_config,
    difference,
    parse_snapshot,
    resolved_unit,
)


@dataclass(frozen=True)
class PhaseView:
    """A phase whose counters could be read."""

    name: str
    variant: VariantName
    phase: PhaseEvidence
    rises: Difference
    config: dict[str, str]
    unit: int
    """U in tokens, as the engine resolved it."""

    @property
    def stem(self) -> str:
        """What the names of this phase's checks start with."""
        return f"{self.name}.{self.variant}"


def view_phase(name: str, variant: VariantName, phase: PhaseEvidence) -> PhaseView:
    """Read the counters of a phase.

    Raises:
        CounterError: they cannot be trusted.

    """
    before, after = parse_snapshot(phase.metrics_before), parse_snapshot(phase.metrics_after)
    config = cache_config(after)
    if before.of(CACHE_CONFIG) != after.of(CACHE_CONFIG):
        raise CounterError(f"series {CACHE_CONFIG} changed between the snapshots")
    return PhaseView(name, variant, phase, difference(before, after), config, resolved_unit(config))

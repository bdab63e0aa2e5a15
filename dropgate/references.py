"""Measured values with their origin, to lay beside a run's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dropgate.law import acceptance
from dropgate.scenario import FIXTURES
from dropgate.strict_yaml import Strict, read_document, validate

Number = Annotated[float, Field(ge=0, strict=False)]


class Origin(Strict):
    """A reference's birth certificate."""

    kind: Literal["published", "measured"]
    source: str
    engine: str
    hardware: str
    model: str
    date: str


class ReferenceTimes(Strict):
    """Times to first token in milliseconds."""

    mean: Number
    p50: Number
    p90: Number


class ReferenceAcceptance(Strict):
    """One variant's scenario B counts."""

    prompts: int
    steps: int
    draft_tokens: int
    accepted_tokens: int


class ReferenceMeasures(Strict):
    """One variant's measured values."""

    requests: int
    cached_tokens_per_request: int
    computed_tokens_per_request: int
    cached_tokens_total: int
    computed_tokens_total: int
    request_throughput: Number
    ttft_ms: ReferenceTimes
    acceptance: ReferenceAcceptance | None = None


class ReferenceRatios(Strict):
    """Times of the candidate as ratios to the baseline's, to three digits, and by how much another run may be worse."""

    margin: Annotated[float, Field(gt=0, lt=1, strict=False)]
    throughput: Number
    ttft_p50: Number
    ttft_p90: Number


class Reference(Strict):
    """Both variants' measured values, and where they come from."""

    schema_version: Annotated[Literal[1], Field(alias="schema")]
    origin: Origin
    baseline: ReferenceMeasures
    candidate: ReferenceMeasures
    ratios: ReferenceRatios | None = None

    @model_validator(mode="after")
    def _ratios_are_those_of_the_table(self) -> Reference:
        ours, theirs = self.candidate, self.baseline
        table = {
            "throughput": ours.request_throughput / theirs.request_throughput,
            "ttft_p50": ours.ttft_ms.p50 / theirs.ttft_ms.p50,
            "ttft_p90": ours.ttft_ms.p90 / theirs.ttft_ms.p90,
        }
        for name, ratio in table.items() if self.ratios else ():
            if abs(getattr(self.ratios, name) - ratio) > 0.0005 + 1e-9:
                raise ValueError(f"ratios.{name} is {getattr(self.ratios, name)}, the table gives {ratio:.4f}")
        return self

    def measures(self, variant: str) -> dict[str, Any]:
        """Return one variant's values in the shape of a run's own."""
        found: dict[str, Any] = getattr(self, variant).model_dump(exclude_none=True)
        if counts := found.get("acceptance"):
            rate, length = acceptance(counts["steps"], counts["draft_tokens"], counts["accepted_tokens"])
            counts |= {"rate": rate, "length": length}
        return found


def load_reference(name: str) -> Reference:
    """Read fixtures/references/NAME.yaml.

    Raises:
        InputError: it is missing or does not fit.

    """
    return validate(read_document(FIXTURES / "references" / f"{name}.yaml"), Reference)

"""What a run must show, one class a promise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from dropgate.scenario.workloads import Count, Positive
from dropgate.strict_yaml import Strict

Ratio = Annotated[float, Field(gt=0, strict=False)]


class PrefixCounts(Strict):
    """Counts that each timed request of a variant must show, in tokens."""

    cached_tokens_per_request: Count
    computed_tokens_per_request: Count


class ExpectedCounts(Strict):
    """Pinned counts; the law is judged with the engine's own unit besides."""

    unit: Positive
    baseline: PrefixCounts
    candidate: PrefixCounts


class PrefixPromise(Strict):
    """Every warm request reuses its whole aligned prefix with the option on, and one unit less by default."""

    kind: Literal["prefix_law"]
    expect: ExpectedCounts | None = None


class OutputsPromise(Strict):
    """Both variants say the same, token by token."""

    kind: Literal["same_outputs"]


class TimingPromise(Strict):
    """Bounds on the candidate's times as ratios to the baseline's, of one run on one machine."""

    kind: Literal["timing"]
    throughput_at_least: Ratio | None = None
    ttft_p50_at_most: Ratio | None = None
    ttft_p90_at_most: Ratio | None = None

    @model_validator(mode="after")
    def _bounds_something(self) -> TimingPromise:
        if self.throughput_at_least is self.ttft_p50_at_most is self.ttft_p90_at_most is None:
            raise ValueError("timing: at least one bound is needed: nothing would be judged")
        return self


class AcceptancePromise(Strict):
    """The candidate's draft-acceptance rate is not lower than the baseline's by more than a margin.

    Non-inferiority over paired prompts; see ``judge/statistics.py`` for the formula.
    """

    kind: Literal["acceptance"]
    path: Literal["cold", "hit"]
    """``cold``: prompts that share nothing. ``hit``: every prompt behind the shared prefix, in the cache."""
    margin_pp: Annotated[float, Field(gt=0, strict=False)]
    """Percentage points."""
    level: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    """Probability that a drop of exactly the margin passes."""
    power: Annotated[float, Field(gt=0.5, lt=1)] = 0.8
    """Probability that no drop at all passes; what this takes decides whether the run was large enough."""


class HitPathPromise(Strict):
    """Behind the shared few-shot prefix, every question reuses what the law says, in either variant."""

    kind: Literal["hit_path_law"]


class AcceptanceBandPromise(Strict):
    """Neither variant's acceptance rate on one path strays from the reference's: both could fall together."""

    kind: Literal["acceptance_band"]
    path: Literal["cold", "hit"]
    reference: str
    """Name of a file in fixtures/references/acceptance, which `dropgate reference DIR` writes."""
    tolerance_pp: Annotated[float, Field(gt=0, strict=False)]
    """Percentage points on either side."""


class AnswersPromise(Strict):
    """Both variants and the target alone give the same answers, token by token, on either path.

    ``vllm bench serve`` keeps no tokens, so a path that it sends is left out.
    """

    kind: Literal["same_answers"]


class AccuracyPromise(Strict):
    """The candidate solves no fewer problems than the baseline, by more than a margin."""

    kind: Literal["accuracy"]
    margin_pp: Annotated[float, Field(gt=0, strict=False)]
    """Percentage points, for the lower end of Tango's score interval of the paired difference."""
    level: Annotated[float, Field(gt=0, lt=0.5)] = 0.05
    at_least: Annotated[float, Field(ge=0, le=1, strict=False)] = 0.0
    """Share of right answers that either variant must reach."""


Promise = Annotated[
    PrefixPromise
    | OutputsPromise
    | TimingPromise
    | AcceptancePromise
    | HitPathPromise
    | AcceptanceBandPromise
    | AnswersPromise
    | AccuracyPromise,
    Field(discriminator="kind"),
]

WORK_OF: dict[type[Strict], str] = {PrefixPromise: "prefix", OutputsPromise: "prefix", TimingPromise: "timing"}
"""The workload that a promise is judged on, where it is not GSM8K's."""

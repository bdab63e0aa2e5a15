"""What is sent to each variant."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from dropgate.strict_yaml import Strict

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Driver = Literal["client", "bench"]
"""Who sends: the gate's own client, or ``vllm bench serve``, which keeps totals and no single request's counts."""
GSM8K_TEST_ROWS = 1319
"""Questions of the GSM8K test split, and of the generated set."""


class PrefixRepetition(Strict):
    """Scenario A's work: requests that share prefixes, each with a suffix of its own, sent as token ids."""

    requests: Positive
    concurrency: Positive
    prefix_tokens: Positive
    suffix_tokens: Count
    prefixes: Positive = 1
    output_tokens: Positive = 1
    populate: bool = True
    """Send one untimed request a prefix before the counters are captured."""
    control: Count = 0
    """Timed prompts that the baseline answers again, each with a cold cache and alone: the noise of this machine.

    At most all of them.
    """
    token_ids: tuple[Count, Positive]
    """Prompts are drawn from this half-open range of token ids."""
    seed: Count = 0
    driver: Driver = "client"
    """The bench makes its prompts itself, from the seed."""

    @field_validator("token_ids", mode="before")
    @classmethod
    def _from_list(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _can_be_drawn(self) -> PrefixRepetition:
        low, high = self.token_ids
        if high - low < 2:
            raise ValueError(f"token_ids: at least two ids are needed, [{low}, {high}) has {max(0, high - low)}")
        if self.driver == "bench" and self.prefixes > 1:
            raise ValueError(
                f"driver: bench can populate one prefix, not {self.prefixes}: its next ones follow its size"
            )
        if self.requests < self.prefixes:
            raise ValueError(f"requests: {self.requests} cannot use {self.prefixes} prefixes")
        return self


class Timing(Strict):
    """Blocks of the prefix workload, sent by the gate's own client, whose times are compared.

    In the order ABBA where both variants are up, else one variant after the other.
    """

    blocks: Annotated[int, Field(ge=2)]
    """Of each variant."""
    requests: Positive
    """In each block."""


class Accuracy(Strict):
    """How many problems lm-eval scores on each variant, and of which data."""

    problems: Positive
    data: Literal["questions", "generated"] = "questions"
    """``generated``: fixtures/prompts, for a target that is too small to solve anything else."""


class Gsm8k(Strict):
    """Scenario B's work: GSM8K's questions, cold and behind a shared few-shot prefix, every answer at full length."""

    questions: Positive = GSM8K_TEST_ROWS
    """The first so many of the data."""
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None
    """Checksum that the data must have, as `dropgate export-gsm8k` prints it."""
    concurrency: Positive = 16
    output_tokens: Positive = 256
    """At most so many; the end token ends an answer."""
    template: str = "{question}"
    few_shot: str = "{question}\n{answer}\n\n"
    """One solved problem of the prefix that the prompts of the hit path share."""
    prefix_tokens: Positive
    """Length of that prefix: a multiple of the unit, and at least two, so that either variant hits."""
    control: Count = 0
    """Prompts of either path that the baseline answers again, each alone and with a cold cache."""
    warm_control: Count = 0
    """Prompts of either path that the baseline answers again as they were sent."""
    oracle: Count = 0
    """Prompts of either path that a server without speculation answers too."""
    accuracy: Accuracy | None = None
    driver: Driver = "client"
    """Who sends the cold path, which is scenario B as published; the hit path is always the client's, and so are the
    controls and the oracle's prompts."""

    @field_validator("template", "few_shot")
    @classmethod
    def _has_a_question(cls, text: str) -> str:
        if "{question}" not in text:
            raise ValueError(f"must contain {{question}}, has {text!r}")
        return text

    @field_validator("few_shot")
    @classmethod
    def _has_an_answer(cls, text: str) -> str:
        if "{answer}" not in text:
            raise ValueError(f"must contain {{answer}}, has {text!r}")
        return text

    @model_validator(mode="after")
    def _no_more_than_all(self) -> Gsm8k:
        for key in ("control", "warm_control", "oracle"):
            if getattr(self, key) > self.questions:
                raise ValueError(f"{key}: {getattr(self, key)} is more than the {self.questions} questions")
        return self


class Workloads(Strict):
    """What is sent to each variant."""

    prefix: PrefixRepetition | None = None
    timing: Timing | None = None
    gsm8k: Gsm8k | None = None

    @model_validator(mode="after")
    def _something_is_sent(self) -> Workloads:
        if self.prefix is None and self.gsm8k is None:
            raise ValueError("prefix or gsm8k is needed: nothing would be sent")
        if self.timing and (self.prefix is None or self.timing.requests < self.prefix.prefixes):
            raise ValueError("timing: repeats workloads.prefix, which is not there or has more prefixes than requests")
        return self

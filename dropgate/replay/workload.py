"""What is sent to a replayed server: declared in YAML, laid out as phases of prompts once the unit is known.

A prompt is a tuple of segments, each a named stream of seeded tokens and a length, so prompts share exactly
what their first segments share and 20,000 of them need no memory until they are sent.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dropgate.strict_yaml import Strict

Accepted = Literal["seeded", "all", "none"]


class _Declared(Strict):
    """Fields of every workload. `seed` draws tokens and accepted counts.

    `num_blocks` and `max_model_len` override the layout's: vLLM wants a pool that holds one longest request.
    `hits` says what each request's cached tokens are held against: the law, where the layout keeps every
    block, or the reference, where it keeps fewer (states of Mamba layers, sliding windows).
    """

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    seed: NonNegativeInt = 0
    hits: Literal["law", "reference"] = "law"
    accepted: Accepted = "seeded"
    num_blocks: Annotated[int, Field(ge=2)] | None = None
    max_model_len: PositiveInt | None = None


class PrefixRepetition(_Declared):
    """Scenario A's shape: an untimed prompt a prefix, then `num_prompts` with suffixes of their own."""

    kind: Literal["prefix_repetition"]
    num_prompts: PositiveInt
    prefix_len: PositiveInt
    suffix_len: PositiveInt
    num_prefixes: PositiveInt = 1
    output_len: PositiveInt = 1
    max_concurrency: PositiveInt = 1


class BoundarySweep(_Declared):
    """Prompt lengths around every multiple up to `max_units` of the unit and of the block, each after a reset.

    For each case a first prompt fills the cache and then a second one is the probe: an exact repeat, a
    unique suffix (`suffix_len` tokens, 0: the prefix alone), the same blocks with another next token; and 1
    to `max_prefixes` prefixes side by side.
    """

    kind: Literal["boundary_sweep"]
    max_units: PositiveInt
    suffix_len: PositiveInt = 5
    max_prefixes: PositiveInt = 8
    output_len: PositiveInt = 1


class Pressure(_Declared):
    """A pool too small for all: random prompts with `shared_len` tokens in common that grow as they answer."""

    kind: Literal["pressure"]
    num_prompts: PositiveInt
    prompt_len: PositiveInt
    shared_len: NonNegativeInt = 0
    output_len: PositiveInt
    max_concurrency: PositiveInt

    @model_validator(mode="after")
    def _shared_is_a_prefix(self) -> Pressure:
        if self.shared_len > self.prompt_len:
            raise ValueError(f"shared_len {self.shared_len} is longer than prompt_len {self.prompt_len}")
        return self


class Salts(_Declared):
    """The same prompt under several cache salts and none: hits stay within one salt."""

    kind: Literal["salts"]
    prompt_len: PositiveInt
    salts: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]


class Resets(_Declared):
    """Prefix-cache resets while requests run, after every `every_steps` scheduler steps."""

    kind: Literal["resets"]
    num_prompts: PositiveInt
    prompt_len: PositiveInt
    output_len: PositiveInt
    every_steps: PositiveInt
    max_concurrency: PositiveInt


class Extend(_Declared):
    """Conversations: each turn is the last prompt, its answer and `suffix_len` more tokens.

    Answers of `output_len` tokens end in the middle of accepted drafts when K + 1 does not divide them, so
    the next turn asks for tokens that were accepted in the very last step.
    """

    kind: Literal["extend"]
    num_conversations: PositiveInt
    turns: Annotated[int, Field(ge=2)]
    prompt_len: PositiveInt
    suffix_len: PositiveInt
    output_len: PositiveInt


Workload = Annotated[PrefixRepetition | BoundarySweep | Pressure | Salts | Resets | Extend, Field(discriminator="kind")]

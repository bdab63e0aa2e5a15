"""What a replayed server looks like: its layers, its drafter, its cache and its scheduler's budgets.

All models are frozen and strict, refuse unknown keys, and check what can be checked without vLLM. Sizes are
per tensor-parallel rank, as vLLM's own cache specs are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dropgate.replay.workload import Workload
from dropgate.strict_yaml import Strict, read_document, validate

Item = TypeVar("Item")
# YAML knows lists only; the values themselves stay strict.
Items = Annotated[tuple[Item, ...], Field(strict=False, min_length=1)]

SpecKind = Literal["full", "sliding_window", "mla", "mamba"]
DrafterMethod = Literal["eagle", "eagle3", "mtp", "dflash", "dspark"]


class Layers(Strict):
    """Some equal layers, in the order in which the model registers them (a drafter's come last).

    `block_size` is in tokens; without it the layers take the block size that vLLM resolves. `head_size` and
    `num_kv_heads` are those of one rank. A `mamba` layer's state shapes come from the target's model class.
    """

    name: str = Field(min_length=1)
    kind: SpecKind
    count: PositiveInt
    num_kv_heads: PositiveInt | None = None
    head_size: PositiveInt | None = None
    sliding_window: PositiveInt | None = None
    block_size: PositiveInt | None = None
    non_causal_multi_token_decode: bool = False
    prefill_checkpoint_alignment: PositiveInt | None = None

    @model_validator(mode="after")
    def _fields_fit_the_kind(self) -> Layers:
        for field in ("num_kv_heads", "head_size"):
            if (getattr(self, field) is None) != (self.kind == "mamba"):
                need = "takes no" if self.kind == "mamba" else "needs a"
                raise ValueError(f"a {self.kind} layer {need} {field}")
        if (self.sliding_window is None) != (self.kind != "sliding_window"):
            raise ValueError("sliding_window belongs to layers of kind sliding_window, and only to them")
        if self.non_causal_multi_token_decode and self.kind != "mla":
            raise ValueError("non_causal_multi_token_decode belongs to layers of kind mla")
        if self.prefill_checkpoint_alignment and self.kind != "mamba":
            raise ValueError("prefill_checkpoint_alignment belongs to layers of kind mamba")
        if self.kind == "mamba" and self.block_size:
            raise ValueError("a mamba layer takes the block size that vLLM resolves: drop block_size")
        return self


class Target(Strict):
    """The target model: a Hugging Face config reduced to what sizes a cache, and how it is sharded."""

    config: dict[str, Any]
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"
    tensor_parallel_size: PositiveInt = 1

    @model_validator(mode="after")
    def _architecture_named(self) -> Target:
        if not self.config.get("architectures") or not self.config.get("model_type"):
            raise ValueError("config needs architectures and model_type")
        return self


class Drafter(Strict):
    """The drafter: `method`, K = `num_speculative_tokens`, and its config (none for MTP: the target's)."""

    method: DrafterMethod
    num_speculative_tokens: PositiveInt
    config: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _config_fits_the_method(self) -> Drafter:
        if (self.config is None) != (self.method == "mtp"):
            raise ValueError(f"method {self.method} {'takes no' if self.method == 'mtp' else 'needs a'} config")
        return self


class Backend(Strict):
    """The attention backend as far as block sizes depend on it: kernel block sizes in tokens.

    `exact` sizes are the only ones a kernel takes; otherwise every multiple of one is fine.
    """

    name: str = Field(min_length=1)
    kernel_block_sizes: Items[PositiveInt]
    exact: bool = False


class Cache(Strict):
    """The KV cache: pool of `num_blocks` blocks, sizes in tokens (none: vLLM chooses), cache dtype."""

    num_blocks: Annotated[int, Field(ge=2)]
    block_size: PositiveInt | None = None
    prefix_match_unit: PositiveInt | None = None
    dtype: str = "auto"
    retention_interval: NonNegativeInt | None = None

    @model_validator(mode="after")
    def _unit_divides_block(self) -> Cache:
        if self.block_size and self.prefix_match_unit and self.block_size % self.prefix_match_unit:
            raise ValueError(f"prefix_match_unit {self.prefix_match_unit} does not divide block_size {self.block_size}")
        return self


class Budgets(Strict):
    """The scheduler's limits: requests, tokens a step, tokens a request."""

    max_num_seqs: PositiveInt
    max_num_batched_tokens: PositiveInt
    max_model_len: PositiveInt

    @model_validator(mode="after")
    def _every_request_gets_a_token(self) -> Budgets:
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise ValueError(
                f"max_num_batched_tokens {self.max_num_batched_tokens} is below max_num_seqs {self.max_num_seqs}"
            )
        return self


class Layout(Strict):
    """One server to replay: what its YAML file holds, less the workloads."""

    target: Target
    drafter: Drafter
    backend: Backend
    cache: Cache
    scheduler: Budgets
    layers: Items[Layers]

    @model_validator(mode="after")
    def _layers_named_once(self) -> Layout:
        names = [layers.name for layers in self.layers]
        if len(set(names)) < len(names):
            raise ValueError("layers: two entries share one name")
        explicit = [layers.block_size for layers in self.layers if layers.block_size]
        unit = self.cache.prefix_match_unit
        wrong = [size for size in explicit if unit and size % unit]
        if wrong:
            raise ValueError(f"cache.prefix_match_unit {unit} does not divide block_size {wrong[0]} of a layer")
        return self

    def for_workload(self, workload: Workload) -> Layout:
        """Apply a workload's own pool size and length limit."""
        cache = {"num_blocks": workload.num_blocks} if workload.num_blocks else {}
        budgets = {"max_model_len": workload.max_model_len} if workload.max_model_len else {}
        return self.model_copy(
            update={
                "cache": self.cache.model_copy(update=cache),
                "scheduler": self.scheduler.model_copy(update=budgets),
            }
        )


class ReplayScenario(Strict):
    """A layout, the workloads that it is driven with, and why it is here."""

    name: str = Field(pattern=r"^[a-z0-9_]+$")
    summary: str = Field(min_length=1)
    layout: Layout
    workloads: Items[Workload]

    @model_validator(mode="after")
    def _workloads_fit(self) -> ReplayScenario:
        names = [workload.name for workload in self.workloads]
        if len(set(names)) < len(names):
            raise ValueError("workloads: two entries share one name")
        return self


def load_replay(path: Path) -> ReplayScenario:
    """Read a replay scenario.

    Raises:
        InputError: one line with file, line and key for the first thing that does not fit.

    """
    return validate(read_document(path), ReplayScenario)

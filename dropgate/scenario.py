"""Scenario files: what to run, on what, and which promises to judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from dropgate.errors import InputError
from dropgate.law import VARIANT_NAMES, VariantName, expected_hit
from dropgate.strict_yaml import Document, Strict, override, read_document, validate

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SCENARIOS = FIXTURES / "scenarios"

Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, strict=False)]
FlagValue = bool | int | float | str | dict[str, Any]
Ratio = Annotated[float, Field(gt=0, strict=False)]


class Needs(Strict):
    """The hardware without which the scenario is not run."""

    nodes: Positive = 1
    gpus_per_node: Count = 0
    gpu_name: str | None = None
    gpu_memory_gib: Annotated[float, Field(ge=0, strict=False)] = 0
    """Memory in GiB that each GPU must have."""
    memory_gib: Annotated[float, Field(ge=0, strict=False)] = 0
    """Memory in GiB that must be free for both variants together."""


class Nodes(Strict):
    """Where the ranks of one server run, and how the gate's own processes on them find each other."""

    local: Annotated[int, Field(ge=2)] | None = None
    """Run this many ranks on this machine, unless NODE_RANK says that each is started on its own."""
    port: Annotated[int, Field(ge=1, le=65535)] = 29517
    """Where rank 0 waits for the others, on MASTER_ADDR; MASTER_PORT replaces it."""
    listen: str | None = None
    """Address to listen on where it is not MASTER_ADDR itself; the only way to a wildcard such as 0.0.0.0."""


class Engine(Strict):
    """One vLLM server as both variants share it."""

    model: str
    """A Hugging Face name, or a folder when it starts with ``.`` or ``/`` (relative to the scenario file)."""
    flags: dict[str, FlagValue]
    """``vllm serve`` flags in order, no dashes: ``true`` is a bare flag, ``false`` its ``--no-``, a mapping JSON."""
    worker_flags: dict[str, FlagValue] = {}
    """Flags that every rank but 0 adds."""
    observe: dict[str, FlagValue] = {}
    """Flags that the gate adds after the scenario's own, to see more; they must not change what is served."""
    environment: dict[str, str] = {}
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """A free port is taken where none is named."""
    boot: Literal["side_by_side", "one_by_one"] = "side_by_side"

    @field_validator("flags")
    @classmethod
    def _has_a_drafter(cls, flags: dict[str, FlagValue]) -> dict[str, FlagValue]:
        if not isinstance(flags.get("speculative-config"), dict):
            raise ValueError("speculative-config must be a mapping: the option under test lives in it")
        return flags

    @model_validator(mode="after")
    def _one_server_a_port(self) -> Engine:
        if self.port is not None and self.boot == "side_by_side":
            raise ValueError("a fixed port takes boot: one_by_one; leave the port out to boot side_by_side")
        return self


class Variants(Strict):
    """What each variant adds to ``speculative-config``: the one key that differs."""

    baseline: dict[str, FlagValue] = {}
    candidate: dict[str, FlagValue]


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
    driver: Literal["client", "bench"] = "client"
    """Who sends: the gate's own client, or ``vllm bench serve``, which makes its prompts itself from the seed."""

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
    """Blocks of the prefix workload whose times are compared: in the order ABBA where both variants are up."""

    blocks: Annotated[int, Field(ge=2)]
    """Of each variant."""
    requests: Positive
    """In each block."""


class Workloads(Strict):
    """What is sent to each variant."""

    prefix: PrefixRepetition
    timing: Timing | None = None


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


Promise = Annotated[PrefixPromise | OutputsPromise | TimingPromise, Field(discriminator="kind")]


class Deadlines(Strict):
    """Limits in seconds; none is waited out when the engine is known to be dead."""

    boot: Seconds = 600
    probe: Seconds = 120
    request: Seconds = 600
    settle: Seconds = 10
    stop: Seconds = 10
    join: Seconds = 300
    """For every rank to say what it has, before anything is booted."""
    lost: Seconds = 15
    """For a rank that says nothing any more."""
    bench: Seconds = 3600
    """For one ``vllm bench serve``."""
    release: Seconds = 120
    """For the memory of the GPUs to be released between the variants."""


class Scenario(Strict):
    """One A/B, as its file says; relative folders are resolved."""

    schema_version: Literal[1] = Field(alias="schema")
    name: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    title: str
    source: str = ""
    reference: str | None = None
    """Name of a file in fixtures/references whose values stand beside this run's."""
    needs: Needs = Needs()
    nodes: Nodes = Nodes()
    engine: Engine
    variants: Variants
    workloads: Workloads
    promises: Annotated[list[Promise], Field(min_length=1)]
    deadlines: Deadlines = Deadlines()

    @property
    def speculative(self) -> dict[str, Any]:
        """The ``speculative-config`` that both variants share."""
        return _mapping(self.engine.flags["speculative-config"])

    @property
    def ranks(self) -> int:
        """Count the nodes, real or local, that one server spans."""
        return self.nodes.local or self.needs.nodes

    @model_validator(mode="after")
    def _one_count_of_nodes(self) -> Scenario:
        if self.nodes.local and self.needs.nodes > 1:
            raise ValueError("nodes.local runs every rank on one machine, so needs.nodes must be left out")
        if self.ranks != self.engine.flags.get("nnodes", 1):
            flag = self.engine.flags.get("nnodes", 1)
            raise ValueError(f"engine.flags.nnodes is {flag}, but the scenario has {self.ranks} node(s)")
        return self

    @model_validator(mode="after")
    def _times_are_taken_where_they_are_judged(self) -> Scenario:
        if self.workloads.timing is None and any(isinstance(promise, TimingPromise) for promise in self.promises):
            raise ValueError("promises: timing is judged on workloads.timing, which is missing")
        return self

    @model_validator(mode="after")
    def _pinned_counts_follow_the_law(self) -> Scenario:
        for promise in self.promises:
            if isinstance(promise, PrefixPromise) and promise.expect:
                for variant in VARIANT_NAMES:
                    _require_lawful(self.workloads.prefix, promise.expect, variant)
        return self


def _require_lawful(work: PrefixRepetition, expect: ExpectedCounts, variant: VariantName) -> None:
    """Refuse a pin that contradicts the law: it would fail every engine, good or bad."""
    length = work.prefix_tokens + work.suffix_tokens
    hit = expected_hit(work.prefix_tokens, length, expect.unit, variant)
    pinned: PrefixCounts = getattr(expect, variant)
    if (pinned.cached_tokens_per_request, pinned.computed_tokens_per_request) != (hit, length - hit):
        raise ValueError(
            f"promises: expect.{variant} pins {pinned.cached_tokens_per_request} cached and "
            f"{pinned.computed_tokens_per_request} computed tokens, but a prefix of {work.prefix_tokens} and a suffix "
            f"of {work.suffix_tokens} with a unit of {expect.unit} give {hit} and {length - hit}"
        )


def scenario_path(name: str) -> Path:
    """Find a scenario by its name under fixtures/scenarios, or by its path.

    Raises:
        InputError: there is none; the known names are listed.

    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return path
    known = sorted(found.stem for found in SCENARIOS.glob("*.yaml"))
    if name not in known:
        raise InputError(f"no scenario '{name}' in {SCENARIOS}; known: {', '.join(known)}; or give a path to a .yaml")
    return SCENARIOS / f"{name}.yaml"


def load_scenario(name: str, assignments: tuple[str, ...] = ()) -> Scenario:
    """Read and check a scenario; ``assignments`` are ``--set KEY=VALUE`` pairs.

    Raises:
        InputError: the file or an assignment does not fit, or a model folder is not there.

    """
    document = read_document(scenario_path(name))
    for assignment in assignments:
        document = override(document, assignment)
    scenario = validate(document, Scenario)
    return _resolve_folders(document, scenario)


def _resolve_folders(document: Document, scenario: Scenario) -> Scenario:
    engine = scenario.engine
    speculative = dict(_mapping(engine.flags["speculative-config"]))
    model = _resolve(document, ("engine", "model"), engine.model)
    if draft := speculative.get("model"):
        speculative["model"] = _resolve(document, ("engine", "flags", "speculative-config", "model"), draft)
    flags = {**engine.flags, "speculative-config": speculative}
    return scenario.model_copy(update={"engine": engine.model_copy(update={"model": model, "flags": flags})})


def _mapping(value: FlagValue) -> dict[str, Any]:
    assert isinstance(value, dict)  # noqa: S101  (checked when the scenario was validated)
    return value


def _resolve(document: Document, key_path: tuple[str, ...], model: str) -> str:
    if not model.startswith((".", "/")):
        return model
    folder = (document.path.parent / model).resolve()
    if not (folder / "config.json").is_file():
        raise InputError(f"{document.where(key_path)}: '{'.'.join(key_path)}': no model folder at {folder}")
    return str(folder)

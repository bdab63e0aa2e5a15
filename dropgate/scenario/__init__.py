"""Scenario files: what to run, on what, and which promises to judge."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from dropgate.errors import InputError
from dropgate.law import VARIANT_NAMES, VariantName, expected_hit
from dropgate.scenario.promises import (
    WORK_OF,
    AcceptancePromise,
    AccuracyPromise,
    ExpectedCounts,
    PrefixCounts,
    PrefixPromise,
    Promise,
)
from dropgate.scenario.workloads import Accuracy, Count, Positive, PrefixRepetition, Workloads
from dropgate.strict_yaml import Document, Strict, override, read_document, validate

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SCENARIOS = FIXTURES / "scenarios"

Seconds = Annotated[float, Field(gt=0, strict=False)]
FlagValue = bool | int | float | str | dict[str, Any]


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


class Deadlines(Strict):
    """Limits in seconds; none is waited out when the engine is known to be dead."""

    boot: Seconds = 600
    probe: Seconds = 120
    request: Seconds = 600
    accuracy: Seconds = 1800
    """For one run of lm-eval."""
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
    def _promises_have_their_work(self) -> Scenario:
        for promise in self.promises:
            needed = WORK_OF.get(type(promise), "gsm8k")
            if getattr(self.workloads, needed) is None:
                raise ValueError(f"promises: {promise.kind} is judged on workloads.{needed}, which is not there")
        if any(isinstance(promise, AccuracyPromise) for promise in self.promises) and not self.accuracy:
            raise ValueError("promises: accuracy is judged on workloads.gsm8k.accuracy, which is not there")
        return self

    @model_validator(mode="after")
    def _what_is_judged_by_prompt_is_seen_by_prompt(self) -> Scenario:
        work = self.workloads.gsm8k
        for promise in self.promises:
            if isinstance(promise, AcceptancePromise) and promise.path == "cold" and work and work.driver == "bench":
                raise ValueError(
                    "promises: acceptance on the cold path is judged prompt by prompt, and workloads.gsm8k.driver: "
                    "bench keeps totals alone; acceptance_band judges those"
                )
        return self

    @model_validator(mode="after")
    def _pinned_counts_follow_the_law(self) -> Scenario:
        for promise in self.promises:
            if isinstance(promise, PrefixPromise) and promise.expect and self.workloads.prefix:
                for variant in VARIANT_NAMES:
                    _require_lawful(self.workloads.prefix, promise.expect, variant)
        return self

    @property
    def accuracy(self) -> Accuracy | None:
        """What lm-eval scores, if anything."""
        return self.workloads.gsm8k.accuracy if self.workloads.gsm8k else None


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

"""Scenario -> the command lines of its two variants; pure, so that a plan is exactly what would run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from dropgate.law import VARIANT_NAMES, ServerName
from dropgate.scenario import FlagValue, Scenario

OPTION = "disable_eagle_block_drop"
MASTER = "$MASTER_ADDR"
OPTION_SINCE = "0.30.0"
"""The first vLLM release that knows the option (vLLM pull request 53388)."""

OF_SPECULATION = {"per-request-spec-decode-metrics"}
"""Flags that vLLM refuses on a server without speculation."""


@dataclass(frozen=True)
class Variant:
    """One server's command line; ``$NODE_RANK`` and ``$MASTER_ADDR`` are filled in at launch."""

    name: ServerName
    rank: int
    argv: tuple[str, ...]
    """``vllm serve ...`` as the scenario has it, argument for argument."""
    observe: tuple[str, ...]
    """What the gate appends to see more."""
    environment: dict[str, str]
    """Variables that the scenario sets, over those passed through from the caller."""


@dataclass(frozen=True)
class Address:
    """Where one run's server listens, and the name that only this run knows."""

    host: str
    port: int
    served_name: str


@dataclass(frozen=True)
class Master:
    """Where the ranks of one server meet: vLLM's own ``--master-addr`` and ``--master-port``."""

    address: str
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that every rank of this machine takes where the caller has none."""


def server_names(scenario: Scenario) -> list[ServerName]:
    """Return the servers that a run boots: both variants, and the oracle where the scenario asks for its word."""
    work = scenario.workloads.gsm8k
    return [*VARIANT_NAMES, "oracle"] if work and work.oracle else [*VARIANT_NAMES]


def variant(scenario: Scenario, name: ServerName, rank: int = 0) -> Variant:
    """Build one rank's command line of one variant, or of the oracle: the same server without speculation."""
    return Variant(
        name=name,
        rank=rank,
        argv=("vllm", "serve", scenario.engine.model, *flag_arguments(_flags(scenario, name, rank))),
        observe=tuple(flag_arguments(_observe(scenario, name))),
        environment=dict(scenario.engine.environment),
    )


def _flags(scenario: Scenario, name: ServerName, rank: int) -> dict[str, FlagValue]:
    engine = scenario.engine
    merged = dict(engine.flags)
    speculative: Any = merged.pop("speculative-config")
    if name != "oracle":
        merged = {**engine.flags, "speculative-config": {**speculative, **getattr(scenario.variants, name)}}
    if "node-rank" in merged:
        merged["node-rank"] = rank
    return merged if rank == 0 else {**merged, **engine.worker_flags}


def _observe(scenario: Scenario, name: ServerName) -> dict[str, FlagValue]:
    flags = scenario.engine.observe
    return {flag: value for flag, value in flags.items() if name != "oracle" or flag not in OF_SPECULATION}


def flag_arguments(flags: dict[str, FlagValue]) -> list[str]:
    """Write flags as ``vllm serve`` takes them; see ``Engine.flags``."""
    arguments: list[str] = []
    for flag, value in flags.items():
        arguments.append(f"--no-{flag}" if value is False else f"--{flag}")
        if isinstance(value, dict):
            arguments.append(json.dumps(value, separators=(",", ":")))
        elif not isinstance(value, bool):
            arguments.append(str(value))
    return arguments


def launch_arguments(scenario: Scenario, chosen: Variant, address: Address, master: Master | None = None) -> list[str]:
    """Everything after the interpreter and the launcher: the scenario's arguments, then the gate's own.

    The scenario's served name stays the first, so that metrics keep their label; requests use the nonce.
    """
    filled = [master.address if argument == MASTER and master else argument for argument in chosen.argv[1:]]
    named = scenario.engine.flags.get("served-model-name")
    served = ([str(named)] if named else []) + [address.served_name]
    own = ["--host", address.host, "--port", str(address.port), "--served-model-name", *served]
    meeting = ["--master-port", str(master.port)] if master else []
    return [*filled, *chosen.observe, *own, *meeting]


def api_host(scenario: Scenario, master_address: str | None) -> str:
    """Return the address that the API listens on."""
    host = scenario.engine.host
    return master_address if host == MASTER and master_address else host


def shell_line(argv: tuple[str, ...]) -> str:
    """Write a command as a person would paste it; placeholders stay open to the shell."""
    return " ".join(f'"{part}"' if part.startswith("$") else shlex.quote(part) for part in argv)

"""Which node of a run this process is, and where the nodes meet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from dropgate.engine.process import free_port
from dropgate.errors import DropgateError, InputError, UnmetNeedError
from dropgate.host import gpus_wanted, unmet_need
from dropgate.scenario import Scenario

RANK, ADDRESS, PORT = "NODE_RANK", "MASTER_ADDR", "MASTER_PORT"
LOOPBACK = "127.0.0.1"
WILDCARDS = frozenset({"", "*", "0.0.0.0", "::"})  # noqa: S104  (refused below)
LOCAL_ENVIRONMENT = {"VLLM_HOST_IP": LOOPBACK, "GLOO_SOCKET_IFNAME": "lo"}
"""Keeps the engine's own traffic between local ranks on loopback."""


@dataclass(frozen=True)
class Place:
    """One node's place in a run."""

    rank: int
    ranks: int
    address: str
    """Rank 0's, as the others reach it."""
    port: int
    listen: str
    """What rank 0 listens on."""
    local: bool = False
    """Whether rank 0 starts the others itself, on its own machine."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Return the variables that a rank of this machine takes where the caller has none."""
        return LOCAL_ENVIRONMENT if self.address == LOOPBACK else {}

    def variables(self, rank: int) -> dict[str, str]:
        """Return what tells another process that it is ``rank`` of this run."""
        return {RANK: str(rank), ADDRESS: self.address, PORT: str(self.port)}


def place_of(scenario: Scenario, environment: Mapping[str, str] = os.environ) -> Place | None:
    """Read this process's place from NODE_RANK, MASTER_ADDR and MASTER_PORT; ``None`` where one node is all.

    Without NODE_RANK, a scenario with ``nodes.local`` makes this process rank 0 of ranks that it starts on loopback.

    Raises:
        UnmetNeedError: the scenario needs several nodes, and nothing says that this is one of them.
        InputError: a variable is no rank of the scenario, no port, or names every address instead of one.

    """
    if scenario.ranks == 1:
        return None
    if RANK not in environment:
        if not scenario.nodes.local:
            wanted = f"{scenario.name}: needs {scenario.ranks} nodes of {gpus_wanted(scenario.needs)}"
            raise UnmetNeedError(f"{wanted}; which one this is, {RANK} and {ADDRESS} do not say")
        return Place(0, scenario.ranks, LOOPBACK, free_port(LOOPBACK), LOOPBACK, local=True)
    address = environment.get(ADDRESS, "").strip()
    if address in WILDCARDS:
        raise InputError(f"{ADDRESS}: '{address}' is not rank 0's address; to listen on every one, set nodes.listen")
    rank = _number(RANK, environment[RANK], range(scenario.ranks))
    port = _number(PORT, environment.get(PORT) or str(scenario.nodes.port), range(1, 65536))
    return Place(rank, scenario.ranks, address, port, scenario.nodes.listen or address)


def why_not_here(scenario: Scenario, environment: Mapping[str, str] = os.environ) -> str | None:
    """Say why a scenario is not run on this node; ``None`` where it can be."""
    try:
        place_of(scenario, environment)
    except DropgateError as error:
        return str(error).removeprefix(f"{scenario.name}: ")
    if scenario.ranks == 1 and RANK in environment:
        return f"runs on one node, and {RANK} says that this is one of several"
    return unmet_need(scenario.needs)


def _number(name: str, text: str, allowed: range) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) not in allowed:
        raise InputError(f"{name}: {allowed.start} to {allowed.stop - 1} is expected, not '{text}'")
    return int(text)

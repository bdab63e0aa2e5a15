"""How the nodes of one step find each other: rank 0's address travels by the build's meta-data."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping

from buildkite.pipeline import agent

RANK = "BUILDKITE_PARALLEL_JOB"
ADDRESS = "DROPGATE_MASTER_ADDR"
"""Names the address where a node has several and the one it would choose is not the other's to reach."""
DEADLINE_S = 1800.0
"""The other node's job may still be waiting for its agent."""
POLL_S = 5.0
ELSEWHERE = ("192.0.2.1", 9)
"""An address for documentation (RFC 5737): asking for the way to it sends nothing."""


def master_address(environment: Mapping[str, str], deadline_s: float = DEADLINE_S, poll_s: float = POLL_S) -> str:
    """Return rank 0's address: rank 0 says it, the others wait for it.

    Raises:
        AgentError: it was not said within the deadline.

    """
    # A retry may run on other nodes, so what an earlier try said does not count.
    key = f"dropgate-master-{environment.get('BUILDKITE_RETRY_COUNT') or 0}"
    if environment[RANK] == "0":
        address = environment.get(ADDRESS) or own_address()
        agent.set_meta_data(key, address)
        return address
    end = time.monotonic() + deadline_s
    while not (found := agent.meta_data(key)):
        if time.monotonic() >= end:
            raise agent.AgentError(f"rank 0 did not say its address ({key}) within {deadline_s:g} s")
        time.sleep(poll_s)
    return found


def own_address() -> str:
    """Return the address that this machine uses towards others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(ELSEWHERE)
        return str(probe.getsockname()[0])

"""Was every node of a run over several the same engine, started by the same command? Else the run says nothing."""

from __future__ import annotations

from collections.abc import Mapping

from dropgate.evidence import Evidence, NodeFacts, ServerFacts
from dropgate.judge.verdict import Check, valid
from dropgate.law import ServerName
from dropgate.scenario import Scenario
from dropgate.variants import flag_arguments, server_names

RANK_FLAG = "--node-rank"


def judge_nodes(evidence: Evidence) -> list[Check]:
    """Check that every rank took part in every server as the engine of rank 0; nothing to check on one node.

    Nor on servers that somebody else started: they answer for themselves.
    """
    ranks = evidence.scenario.ranks
    if ranks == 1 or evidence.attached:
        return []
    took_part = "rank 1" if ranks == 2 else f"ranks 1 to {ranks - 1}"
    whole = [node.rank for node in evidence.nodes if set(node.servers) == set(server_names(evidence.scenario))]
    version = evidence.engine.version
    versions = [f"rank {node.rank}: {node.engine.version}" for node in evidence.nodes if node.engine.version != version]
    servers = {name: seen.server for name, seen in evidence.variants.items()}
    odd = [text for node in evidence.nodes for text in _odd_commands(evidence.scenario, node, servers)]
    same, shown = "rank 0's command but for the rank", ", ".join(f"rank {rank}" for rank in whole) or "none"
    return [
        valid("nodes.took_part", whole == list(range(1, ranks)), f"{took_part} in every server", shown),
        valid("nodes.same_engine", not versions, f"{version} on every rank", ", ".join(versions) or version),
        valid("nodes.same_command", not odd, same, "; ".join(odd) or same),
    ]


def _odd_commands(scenario: Scenario, node: NodeFacts, servers: Mapping[ServerName, ServerFacts]) -> list[str]:
    own = flag_arguments(scenario.engine.worker_flags)
    odd = []
    for name, facts in node.servers.items():
        leader = servers[name].command[1:] if name in servers else []
        mine = facts.command[1:]
        where = mine.index(RANK_FLAG) + 1 if RANK_FLAG in mine else len(mine)
        as_leader = [*mine[:where], "0", *mine[where + 1 :]]
        if mine[where : where + 1] != [str(node.rank)] or [part for part in as_leader if part not in own] != leader:
            odd.append(f"rank {node.rank}'s {name} command is another")
    return odd

"""A run over several nodes is only worth judging when every node was the same engine, started the same way."""

from __future__ import annotations

from dropgate.evidence import EngineFacts, Evidence, NodeFacts, ServerFacts
from dropgate.judge import Verdict, judge
from dropgate.judge.nodes import judge_nodes
from dropgate.law import VARIANT_NAMES
from dropgate.scenario import load_scenario
from dropgate.variants import Address, Master, launch_arguments, variant
from tests.support.factory import evidence

SCENARIO = load_scenario("tiny_eagle3_cpu_2node")


def facts(name, rank: int) -> ServerFacts:
    where = Address("127.0.0.1", 8000, "nonce"), Master("127.0.0.1", 29501)
    arguments = launch_arguments(SCENARIO, variant(SCENARIO, name, rank), *where)
    return ServerFacts(command=[f"python{rank}", "vllm", *arguments], environment={}, served_name="nonce")


def run_on(*nodes: NodeFacts) -> Evidence:
    whole = evidence()
    seen = {name: one.model_copy(update={"server": facts(name, 0)}) for name, one in whole.variants.items()}
    return whole.model_copy(update={"scenario": SCENARIO, "variants": seen, "nodes": list(nodes)})


def node(version: str = "0.32.0+cpu", rank: int = 1, **servers: ServerFacts) -> NodeFacts:
    started = servers or {name: facts(name, 1) for name in VARIANT_NAMES}
    return NodeFacts(rank=rank, host={}, engine=EngineFacts(version=version, python="python"), servers=started)


def odd(seen: Evidence) -> dict[str, str]:
    return {check.name: check.seen for check in judge_nodes(seen) if check.verdict is not Verdict.PASS}


def test_one_node_has_nothing_to_check() -> None:
    assert judge_nodes(evidence()) == []


def test_two_nodes_that_are_the_same_are_whole() -> None:
    assert odd(run_on(node())) == {}


def test_a_node_that_took_no_part_makes_the_run_invalid() -> None:
    assert odd(run_on()) == {"nodes.took_part": "none"}
    assert odd(run_on(node(baseline=facts("baseline", 1)))) == {"nodes.took_part": "none"}
    assert "nodes.took_part" in {check.name for check in judge(run_on()).checks if check.verdict is Verdict.INVALID}


def test_another_engine_on_a_node_is_named() -> None:
    assert odd(run_on(node(version="0.31.0"))) == {"nodes.same_engine": "rank 1: 0.31.0"}


def test_another_command_on_a_node_is_named() -> None:
    both = {name: facts(name, 1) for name in VARIANT_NAMES}
    odd_one = both["candidate"].model_copy(update={"command": [*both["candidate"].command, "--seed", "1"]})
    assert odd(run_on(node(baseline=both["baseline"], candidate=odd_one))) == {
        "nodes.same_command": "rank 1's candidate command is another"
    }
    swapped = node(baseline=both["candidate"], candidate=both["baseline"])
    assert "baseline" in odd(run_on(swapped))["nodes.same_command"]
    as_leader = node(**{name: facts(name, 0) for name in VARIANT_NAMES})
    assert "rank 1's baseline command is another" in odd(run_on(as_leader))["nodes.same_command"]

"""Where a node of a run stands: read from variables that are checked, on an address that is never every address."""

import pytest

from dropgate.errors import InputError, UnmetNeedError
from dropgate.ranks.place import LOOPBACK, place_of
from dropgate.scenario import load_scenario

KIMI, TINY, TWO = "kimi_k3_dspark_gb300", "tiny_eagle3_cpu", "tiny_eagle3_cpu_2node"
NODE = {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1"}


def place(name: str, sets: tuple[str, ...] = (), **environment: str):
    return place_of(load_scenario(name, sets), environment)


def test_one_node_has_no_place_whatever_a_launcher_set() -> None:
    assert place(TINY, **NODE) is None


def test_a_node_is_told_its_rank_and_rank_0s_address() -> None:
    found = place(KIMI, **NODE)
    assert (found.rank, found.ranks, found.address, found.port, found.local) == (1, 2, "10.0.0.1", 29517, False)
    assert found.listen == "10.0.0.1"
    assert place(KIMI, **NODE, MASTER_PORT="4000").port == 4000
    assert found.variables(1) == {"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29517"}
    assert not found.environment


def test_local_ranks_are_started_by_rank_0_on_loopback_unless_each_is_started_by_itself() -> None:
    found = place(TWO)
    assert (found.rank, found.ranks, found.address, found.local) == (0, 2, LOOPBACK, True)
    assert found.environment == {"VLLM_HOST_IP": LOOPBACK, "GLOO_SOCKET_IFNAME": "lo"}
    assert place(TWO, **NODE).local is False


def test_a_scenario_of_several_nodes_is_not_run_on_one() -> None:
    with pytest.raises(UnmetNeedError, match=r"needs 2 nodes of 4 x GB300; .* NODE_RANK and MASTER_ADDR do not say"):
        place(KIMI)


@pytest.mark.parametrize("address", ["", "0.0.0.0", "::", "*"])
def test_every_address_is_refused_unless_asked_for(address: str) -> None:
    with pytest.raises(InputError, match=r"MASTER_ADDR: .* is not rank 0's address; .* set nodes\.listen"):
        place(KIMI, NODE_RANK="0", MASTER_ADDR=address)
    assert place(KIMI, ("nodes.listen=0.0.0.0",), **NODE).listen == "0.0.0.0"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NODE_RANK", "2", "0 to 1 is expected, not '2'"),
        ("NODE_RANK", "-1", "0 to 1"),
        ("NODE_RANK", "", "0 to 1"),
        ("NODE_RANK", "²", "0 to 1"),
        ("MASTER_PORT", "0", "1 to 65535"),
        ("MASTER_PORT", "http", "1 to 65535"),
    ],
)
def test_a_variable_that_does_not_fit_is_refused(variable: str, value: str, message: str) -> None:
    with pytest.raises(InputError, match=f"{variable}: {message}"):
        place(KIMI, **{**NODE, variable: value})


@pytest.mark.parametrize(
    ("name", "assignment", "message"),
    [
        (TWO, "needs.nodes=2", "needs.nodes must be left out"),
        (TWO, "nodes.local=3", "engine.flags.nnodes is 2, but the scenario has 3"),
        (KIMI, "needs.nodes=1", "engine.flags.nnodes is 2, but the scenario has 1"),
        (TINY, "nodes.local=2", "engine.flags.nnodes is 1, but the scenario has 2"),
        (TINY, "nodes.local=1", "'nodes.local': .*greater than or equal to 2"),
    ],
)
def test_a_scenario_counts_its_nodes_once(name: str, assignment: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario(name, (assignment,))

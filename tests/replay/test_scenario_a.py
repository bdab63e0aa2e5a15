"""Scenario A's table, exact, from vLLM's own scheduler."""

import pytest

from tests.replay.driving import BASELINE, CANDIDATE, both, replay_workload, scenario, workload

LAYOUTS = ["dense_eagle3", "hybrid_mtp", "kimi_k3_dspark"]
SECONDS = 2.0


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_request_reuses_what_the_table_says(name):
    baseline, candidate = both(scenario(name).layout, workload(name, "scenario_a"))
    for seen, cached, computed in ((baseline, 10_752, 1_792), (candidate, 12_288, 256)):
        timed = [request for request in seen.requests if request.phase == "timed"]
        assert len(timed) == 160
        assert {(request.cached_tokens, request.computed_tokens) for request in timed} == {(cached, computed)}
        counters = next(phase for phase in seen.phases if phase.name == "timed").counters
        assert (counters.prefix_cache_hits, counters.prefix_cache_queries) == (160 * cached, 160 * 12_544)


def test_kimi_k3s_unit_is_derived_by_vllm():
    layout = scenario("kimi_k3_dspark").layout
    assert layout.cache.block_size is None
    seen = replay_workload(layout, workload("kimi_k3_dspark", "scenario_a"), BASELINE)
    assert seen.resolved.unit == 1_536
    assert [(group.spec, group.num_layers) for group in seen.resolved.groups] == [
        ("MambaSpec", 23),
        ("MambaSpec", 23),
        ("MambaSpec", 23),
        ("MLAAttentionSpec", 29),
    ]
    assert [group.is_draft for group in seen.resolved.groups] == [False, False, False, True]


@pytest.mark.parametrize(("tensor_parallel_size", "unit"), [(4, 3_072), (16, 768)])
def test_the_unit_follows_the_shapes(tensor_parallel_size, unit):
    layout = scenario("kimi_k3_dspark").layout
    target = layout.target.model_copy(update={"tensor_parallel_size": tensor_parallel_size})
    sharded = layout.model_copy(update={"target": target})
    work = workload("kimi_k3_dspark", "salts")
    assert replay_workload(sharded, work, CANDIDATE).resolved.unit == unit


def test_one_token_past_the_boundary_is_enough_to_populate_a_hybrid_layout():
    """A populating prompt that ends on it leaves the state one unit short: its last token is always computed."""
    name = "hybrid_mtp"
    work = workload(name, "scenario_a").model_copy(update={"suffix_len": 1, "num_prompts": 2})
    candidate = replay_workload(scenario(name).layout, work, CANDIDATE)
    assert [request.cached_tokens for request in candidate.requests] == [0, 12_288, 12_288]
    sweep = replay_workload(scenario(name).layout, workload(name, "boundary_sweep"), CANDIDATE)
    probe = next(request for request in sweep.requests if request.request_id == "suffix-6144-probe")
    assert (probe.shared_tokens, probe.cached_tokens) == (6_144, 4_608)

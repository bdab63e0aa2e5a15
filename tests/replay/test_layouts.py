"""Every layout and workload of the repository, against the laws and the reference of the installed vLLM."""

import pytest

from dropgate.replay.drive import replay_scenario
from dropgate.replay.reference import find_reference, steps_reference
from dropgate.replay.run import judge_replay, replay_names
from tests.replay.driving import CANDIDATE, both, replay_workload, scenario, workload


@pytest.mark.parametrize("name", replay_names())
def test_every_workload_holds_its_laws_and_matches_its_reference(name, vllm_version):
    seen = replay_scenario(scenario(name), vllm_version)
    reference = find_reference(seen)
    if reference is None:
        pytest.skip(f"no reference of {name} on vLLM {vllm_version}")
    outcome = judge_replay(scenario(name), seen, reference)
    assert [one for one in outcome.checks if one.verdict != "pass"] == []


@pytest.mark.parametrize("name", ["dense_eagle3", "hybrid_mtp", "kimi_k3_dspark"])
def test_a_pool_too_small_for_all_preempts_and_counts_each_request_once(name):
    work = workload(name, "pressure")
    for seen in both(scenario(name).layout, work):
        assert sum(step.preempted for step in seen.steps) + sum(step.deferred for step in seen.steps) > 0
        assert seen.phases[0].counters.prefix_cache_requests == work.num_prompts
        assert {request.output_tokens for request in seen.requests} == {work.output_len}


def test_requests_survive_resets_under_way():
    work = workload("kimi_k3_dspark", "resets")
    for seen in both(scenario("kimi_k3_dspark").layout, work):
        assert seen.resets_while_running
        assert all(seen.resets_while_running)
        assert sum(request.preemptions for request in seen.requests) > 0
        assert [request.output_tokens for request in seen.requests] == [work.output_len] * work.num_prompts


def test_hits_stay_within_one_salt():
    work = workload("dense_eagle3", "salts")
    baseline, candidate = both(scenario("dense_eagle3").layout, work)
    for seen in (baseline, candidate):
        first, again = seen.requests[:3], seen.requests[3:]
        assert [request.cached_tokens for request in first] == [0, 0, 0]
        assert len({request.cached_tokens for request in again}) == 1
        assert again[0].cached_tokens > 0


HITTING_REQUESTS_ARE_ADMITTED_ALONE = ("0.32.0",)
"""vLLM versions whose MambaManager counts a hit block as made in this very step."""


def test_steps_of_scenario_a_with_the_option_on(vllm_version):
    name = "hybrid_mtp"
    candidate = replay_workload(scenario(name).layout, workload(name, "scenario_a"), CANDIDATE)
    alone = vllm_version in HITTING_REQUESTS_ARE_ADMITTED_ALONE
    assert len(candidate.steps) == (163 if alone else 13)
    assert (steps_reference(candidate).deferrals > 0) == alone


def test_the_cause_of_the_deferrals_is_a_block_boundary_taken_for_a_partial_tail(monkeypatch, vllm_version):
    """The guard that 0.31 had, that a tail on a block boundary is no tail, restores 13 steps."""
    if vllm_version not in HITTING_REQUESTS_ARE_ADMITTED_ALONE:
        pytest.skip("this vLLM admits hitting requests together")
    from vllm.v1.core.single_type_kv_cache_manager import MambaManager

    original = MambaManager._cache_partial_tail_block

    def guarded(self, request, num_tokens, retention_interval):
        if request.request_id not in self._checkpoints and num_tokens % self.block_size == 0:
            return None
        return original(self, request, num_tokens, retention_interval)

    monkeypatch.setattr(MambaManager, "_cache_partial_tail_block", guarded)
    name = "hybrid_mtp"
    candidate = replay_workload(scenario(name).layout, workload(name, "scenario_a"), CANDIDATE)
    assert len(candidate.steps) == 13
    timed = [request for request in candidate.requests if request.phase == "timed"]
    assert {request.cached_tokens for request in timed} == {12_288}

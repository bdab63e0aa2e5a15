"""Field reports as replays: each reproduces on the version that has it, on an engine given the fault, or is fixed."""

import dataclasses

import pytest

from dropgate.law import expected_hit
from dropgate.replay.workload import BoundarySweep, Extend, PrefixRepetition, Pressure
from tests.replay.driving import BASELINE, CANDIDATE, both, failures, replay_workload, scenario, workload
from tests.replay.test_mutations import rewrite

UNIT = 16


def dense(block_size=UNIT, k=3):
    layout = scenario("dense_eagle3").layout
    cache = layout.cache.model_copy(update={"block_size": block_size, "num_blocks": 4_096})
    drafter = layout.drafter.model_copy(update={"num_speculative_tokens": k})
    return layout.model_copy(update={"cache": cache, "drafter": drafter})


def repetition(prefix_len, suffix_len=5, num_prompts=4):
    return PrefixRepetition(
        name="report",
        kind="prefix_repetition",
        num_prompts=num_prompts,
        prefix_len=prefix_len,
        suffix_len=suffix_len,
    )


def timed(seen):
    return {request.cached_tokens for request in seen.requests if request.phase == "timed"}


def test_54360_one_unit_is_lost_at_every_length_and_never_more():
    sweep = BoundarySweep(name="report", kind="boundary_sweep", max_units=5, max_prefixes=1)
    assert failures(dense(), sweep) == set()


@pytest.mark.parametrize("prefix_len", [64, 256, 1_024])
def test_53670_the_deficit_is_constant_in_the_prefix_length(prefix_len):
    baseline, candidate = both(dense(k=1), repetition(prefix_len))
    assert timed(baseline) == {prefix_len - UNIT}
    assert timed(candidate) == {prefix_len}


def test_33270_39171_40624_full_and_sliding_window_lose_one_unit_not_all():
    baseline, candidate = both(scenario("sliding_window").layout, repetition(512))
    assert timed(baseline) == {512 - 16}
    assert timed(candidate) == {512}


def test_33270_is_caught_where_the_drop_is_applied_again_in_every_round(monkeypatch):
    from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator

    rewrite(
        monkeypatch,
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        {"use_eagle and idx not in eagle_verified": "use_eagle", "curr_hit_length + eagle_margin": "curr_hit_length"},
    )
    assert timed(replay_workload(scenario("three_groups").layout, repetition(512), BASELINE)) != {448}


def test_51771_three_groups_reproduces_by_default_on_prompts_that_end_off_a_boundary():
    """Blocks of 4, 8 and 64: by default nearly every probe of the sweep hits nothing; with the option on, hits stay."""
    seen = both(scenario("three_groups").layout, workload("three_groups", "boundary_sweep"))
    hits = [[request.cached_tokens > 0 for request in one.requests if request.shared_tokens] for one in seen]
    assert sum(hits[0]) <= 4
    assert sum(hits[1]) >= 70


def narrow_window(window):
    """The sliding-window layout with blocks of 2 and a window of a few blocks, in tokens."""
    layout = scenario("sliding_window").layout
    return layout.model_copy(
        update={
            "cache": layout.cache.model_copy(update={"block_size": 2}),
            "scheduler": layout.scheduler.model_copy(update={"max_model_len": 4_096}),
            "backend": layout.backend.model_copy(update={"kernel_block_sizes": (1,)}),
            "layers": tuple(
                one.model_copy(update={"sliding_window": window}) if one.sliding_window else one
                for one in layout.layers
            ),
        }
    )


SMALL_SWEEP = BoundarySweep(name="report", kind="boundary_sweep", max_units=12, max_prefixes=3, hits="reference")


@pytest.mark.parametrize("window", [4, 8])
def test_17398_the_whole_window_remains_after_the_drop(window):
    """A hit that is shorter than the window would read what is not there."""
    for seen in both(narrow_window(window), SMALL_SWEEP):
        assert any(request.cached_tokens for request in seen.requests)
        assert seen.unbacked_hits == ()


def test_17398_is_caught_where_the_window_is_one_block_short(monkeypatch):
    from vllm.v1.core.single_type_kv_cache_manager import SlidingWindowManager

    original = SlidingWindowManager.find_longest_cache_hit.__func__

    def shorter(cls, *arguments, kv_cache_spec, **named):
        short = dataclasses.replace(kv_cache_spec, sliding_window=kv_cache_spec.sliding_window - 2)
        return original(cls, *arguments, kv_cache_spec=short, **named)

    monkeypatch.setattr(SlidingWindowManager, "find_longest_cache_hit", classmethod(shorter))
    assert "backed" in failures(narrow_window(8), SMALL_SWEEP)


@pytest.mark.parametrize(("prefix_len", "hits"), [(10, ({0}, {0})), (20, ({0}, {16})), (31, ({0}, {16}))])
def test_40696_53749_48401_below_two_units_only_the_option_hits(prefix_len, hits):
    baseline, candidate = both(dense(), repetition(prefix_len))
    assert (timed(baseline), timed(candidate)) == hits


def test_40696_a_comparison_without_hits_does_not_pass():
    from dropgate.replay.laws import judge_workload

    work = repetition(10)
    checks = judge_workload(dense(), work, *both(dense(), work), None)
    assert {one.name.rpartition(".")[2] for one in checks if one.verdict == "invalid"} == {"some_hit"}


def test_54979_tokens_accepted_in_the_last_step_are_not_hashed():
    """Reproduces on 0.30 to 0.32: the block that the last step's accepted drafts filled is missing at the next turn."""
    work = Extend(
        name="report",
        kind="extend",
        num_conversations=1,
        turns=2,
        prompt_len=UNIT * 2 - 4,
        suffix_len=8,
        output_len=6,
        accepted="all",
    )
    seen = replay_workload(dense(k=7), work, CANDIDATE)
    turn = seen.requests[-1]
    assert turn.shared_tokens == UNIT * 2 + 1
    assert expected_hit(turn.shared_tokens, turn.prompt_tokens, UNIT, "candidate") == UNIT * 2
    assert turn.cached_tokens == UNIT


def test_44701_no_hit_across_salts():
    assert failures(scenario("dense_eagle3").layout, workload("dense_eagle3", "salts")) == set()


def test_44701_is_caught_where_the_salt_is_left_out(monkeypatch):
    from vllm.v1.core import kv_cache_utils

    original = kv_cache_utils.generate_block_hash_extra_keys

    def saltless(request, *arguments):
        salt, request.cache_salt = request.cache_salt, None
        try:
            return original(request, *arguments)
        finally:
            request.cache_salt = salt

    monkeypatch.setattr(kv_cache_utils, "generate_block_hash_extra_keys", saltless)
    assert "cold" in failures(scenario("dense_eagle3").layout, workload("dense_eagle3", "salts"))


def pressure(num_blocks):
    return Pressure(
        name="report",
        kind="pressure",
        num_prompts=6,
        prompt_len=44,
        output_len=30,
        max_concurrency=6,
        num_blocks=num_blocks,
        max_model_len=128,
    )


def test_43736_48860_a_deferred_request_is_counted_once():
    seen = replay_workload(dense(), pressure(10), CANDIDATE)
    assert sum(step.deferred for step in seen.steps) > 0
    assert seen.phases[0].counters.prefix_cache_queries == 6 * 44


def test_25780_25787_recomputing_after_a_preemption_is_no_hit():
    seen = replay_workload(dense(), pressure(10), CANDIDATE)
    assert sum(request.preemptions for request in seen.requests) > 0
    assert seen.phases[0].counters.prefix_cache_hits == 0
    assert {request.cached_tokens for request in seen.requests} == {0}


def test_33290_38709_cached_and_computed_do_not_overlap():
    sweep = BoundarySweep(name="report", kind="boundary_sweep", max_units=4, max_prefixes=1)
    seen = replay_workload(dense(), sweep, CANDIDATE)
    repeat = next(request for request in seen.requests if request.request_id == "repeat-64-probe")
    assert (repeat.cached_tokens, repeat.computed_tokens, repeat.prompt_tokens) == (48, 16, 64)


def test_43559_53912_43650_no_group_outruns_another():
    work = repetition(512)
    for seen in both(scenario("three_groups").layout, work):
        assert seen.unbacked_hits == ()


def test_43559_is_caught_where_the_longest_groups_hit_is_taken(monkeypatch):
    from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator

    rewrite(
        monkeypatch,
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        {"return cache_hit_blocks, hit_length, ": "return cache_hit_blocks, longest_hit_length, "},
    )
    assert "backed" in failures(scenario("three_groups").layout, workload("three_groups", "boundary_sweep"))

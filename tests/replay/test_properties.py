"""Random layouts and workloads: what must hold whatever the shapes."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dropgate.replay.laws import judge_workload
from dropgate.replay.layout import Layout
from dropgate.replay.workload import BoundarySweep, PrefixRepetition, Pressure
from tests.replay.driving import both, scenario

FEW = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
SEEDS = st.integers(0, 2**32 - 1)
ACCEPTED = st.sampled_from(["seeded", "all", "none"])


def layouts(name, block_sizes, *, dense=False):
    """A layout of the repository with random block size, K and budgets; `dense` keeps every block of every group."""
    base = scenario(name).layout.model_dump()

    def build(block_size, k, max_num_seqs, budget):
        changed = {
            **base,
            "cache": {
                **base["cache"],
                "block_size": block_size,
                "num_blocks": 4_096,
                "retention_interval": block_size if dense else None,
            },
            "drafter": {**base["drafter"], "num_speculative_tokens": k},
            "scheduler": {
                "max_num_seqs": max_num_seqs,
                "max_num_batched_tokens": max(budget, 2 * block_size, 16 * max_num_seqs),
                "max_model_len": 4_096,
            },
        }
        return Layout.model_validate(changed)

    return st.builds(build, st.sampled_from(block_sizes), st.integers(1, 7), st.integers(1, 16), st.integers(64, 4_096))


@st.composite
def repetitions(draw, hits):
    return PrefixRepetition(
        name="random",
        kind="prefix_repetition",
        num_prompts=draw(st.integers(1, 24)),
        prefix_len=draw(st.integers(1, 1_000)),
        suffix_len=draw(st.integers(1, 200)),
        num_prefixes=draw(st.integers(1, 4)),
        output_len=draw(st.integers(1, 20)),
        max_concurrency=draw(st.integers(1, 24)),
        seed=draw(SEEDS),
        accepted=draw(ACCEPTED),
        hits=hits,
    )


def failing(layout, work):
    baseline, candidate = both(layout, work)
    checks = judge_workload(layout, work, baseline, candidate, None)
    return [one for one in checks if one.verdict == "fail"]


@FEW
@given(layouts("dense_eagle3", [16, 32, 64, 128]), repetitions("law"))
def test_a_dense_layout_follows_the_law(layout, work):
    """Identities, the law at every request, kept >= drop by 0 or one unit, 0 on a cold cache."""
    assert failing(layout, work) == []


@FEW
@given(layouts("hybrid_mtp", [544, 576, 1_088]), repetitions("reference"))
def test_a_hybrid_layout_keeps_its_identities(layout, work):
    assert failing(layout, work) == []


@FEW
@given(layouts("sliding_window", [16, 32]), repetitions("reference"))
def test_a_sliding_window_layout_keeps_its_identities(layout, work):
    assert failing(layout, work) == []


@FEW
@given(layouts("sliding_window", [16, 32], dense=True), repetitions("reference"))
def test_with_every_window_kept_the_option_never_costs_a_hit(layout, work):
    baseline, candidate = both(layout, work)
    unit = candidate.resolved.unit
    pairs = zip(baseline.requests, candidate.requests, strict=True)
    assert {other.cached_tokens - one.cached_tokens for one, other in pairs} <= {0, unit}


@pytest.mark.parametrize(("name", "block_size", "prefix_len", "suffix_len"), [("sliding_window", 32, 64, 97)])
def test_with_one_window_kept_the_option_can_cost_a_hit(name, block_size, prefix_len, suffix_len):
    """By default only the window where a resend resumes is kept: with the option on, that is one unit later."""
    layout = scenario(name).layout
    layout = layout.model_copy(update={"cache": layout.cache.model_copy(update={"block_size": block_size})})
    work = PrefixRepetition(
        name="one", kind="prefix_repetition", num_prompts=1, prefix_len=prefix_len, suffix_len=suffix_len
    )
    baseline, candidate = both(layout, work)
    assert (baseline.requests[-1].cached_tokens, candidate.requests[-1].cached_tokens) == (block_size, 0)


@FEW
@given(layouts("dense_eagle3", [16, 32]), st.integers(1, 6), SEEDS)
def test_the_law_holds_at_every_boundary(layout, max_units, seed):
    work = BoundarySweep(name="sweep", kind="boundary_sweep", max_units=max_units, max_prefixes=2, seed=seed)
    assert failing(layout, work) == []


@FEW
@given(layouts("dense_eagle3", [16]), st.integers(20, 120), st.integers(1, 60), st.integers(2, 12), ACCEPTED, SEEDS)
def test_a_small_pool_counts_each_request_once(layout, prompt_len, output_len, num_prompts, accepted, seed):
    work = Pressure(
        name="pressure",
        kind="pressure",
        num_prompts=num_prompts,
        prompt_len=prompt_len,
        output_len=output_len,
        max_concurrency=num_prompts,
        num_blocks=18,
        max_model_len=256,
        accepted=accepted,
        seed=seed,
    )
    assert failing(layout, work) == []

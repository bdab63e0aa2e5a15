"""Break vLLM's scheduler in one place at a time; the replay must see it."""

import inspect
import textwrap

import pytest

from tests.replay.driving import failures, scenario, workload

DENSE = "dense_eagle3"


def sweep(name=DENSE):
    return scenario(name).layout, workload(name, "boundary_sweep")


def rewrite(monkeypatch, owner, method, changes):
    """Replace pieces of a method's source; fails when vLLM no longer has one of them."""
    function = inspect.unwrap(getattr(owner, method))
    source = textwrap.dedent(inspect.getsource(function))
    for old, new in changes.items():
        assert source.count(old) == 1, f"{owner.__name__}.{method} has no single {old!r}"
        source = source.replace(old, new)
    names = dict(vars(inspect.getmodule(function)))
    exec(compile(source, f"<mutated {method}>", "exec"), names)  # noqa: S102
    monkeypatch.setattr(owner, method, names[method])


def shorten(monkeypatch, owner, units):
    """Make `owner` report hits shorter by `units(coordinator, max_hit)` units."""
    original = owner.find_longest_cache_hit

    def shortened(self, block_hashes, max_cache_hit_length):
        blocks, hit, extra = original(self, block_hashes, max_cache_hit_length)
        hit = max(0, hit - units(self, max_cache_hit_length) * self.scheduler_block_size)
        sizes = [manager.block_size for manager in self.single_type_managers]
        kept = tuple(list(group)[: hit // size] for group, size in zip(blocks, sizes, strict=True))
        return kept, hit, extra

    monkeypatch.setattr(owner, "find_longest_cache_hit", shortened)


@pytest.mark.parametrize("name", [DENSE, "dflash"])
def test_an_unbroken_scheduler_passes(name):
    assert failures(*sweep(name)) == set()


def test_drop_two_units(monkeypatch):
    from vllm.v1.core.kv_cache_coordinator import UnitaryKVCacheCoordinator

    shorten(monkeypatch, UnitaryKVCacheCoordinator, lambda self, _: bool(self.eagle_group_ids))
    assert {"law", "one_unit"} <= failures(*sweep())


def test_drop_none_by_default(monkeypatch):
    from vllm.config import SpeculativeConfig

    monkeypatch.setattr(SpeculativeConfig, "use_eagle_block_drop", lambda _: False)
    assert "law" in failures(*sweep())


def test_ignore_the_option(monkeypatch):
    from vllm.config import SpeculativeConfig

    monkeypatch.setattr(SpeculativeConfig, "use_eagle_block_drop", lambda self: self.use_eagle())
    assert "law" in failures(*sweep())


def test_drop_only_where_the_length_is_a_multiple_of_the_unit(monkeypatch):
    from vllm.v1.core.kv_cache_coordinator import UnitaryKVCacheCoordinator

    original = UnitaryKVCacheCoordinator.find_longest_cache_hit

    def mutated(self, block_hashes, max_cache_hit_length):
        groups = self.eagle_group_ids
        if (max_cache_hit_length + 1) % self.scheduler_block_size:
            self.eagle_group_ids = set()
        try:
            return original(self, block_hashes, max_cache_hit_length)
        finally:
            self.eagle_group_ids = groups

    monkeypatch.setattr(UnitaryKVCacheCoordinator, "find_longest_cache_hit", mutated)
    assert "law" in failures(*sweep())


def test_reapply_the_drop_per_group(monkeypatch):
    from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator

    name = "kimi_k3_dspark"
    layout, work = scenario(name).layout, workload(name, "scenario_a")
    assert failures(layout, work) == set()
    shorten(
        monkeypatch,
        HybridKVCacheCoordinator,
        lambda self, _: len(self.single_type_managers) - 1 if self.eagle_group_ids else 0,
    )
    assert {"law", "one_unit"} <= failures(layout, work)


def test_forget_that_a_group_has_dropped_already(monkeypatch):
    """The fixed point that ate every hit: each round drops again."""
    from vllm.v1.core.kv_cache_coordinator import HybridKVCacheCoordinator

    name = "three_groups"
    layout, work = scenario(name).layout, workload(name, "prefix_repetition")
    law = work.model_copy(update={"hits": "law"})
    assert failures(layout, law) == set()
    rewrite(
        monkeypatch,
        HybridKVCacheCoordinator,
        "find_longest_cache_hit",
        {"use_eagle and idx not in eagle_verified": "use_eagle", "curr_hit_length + eagle_margin": "curr_hit_length"},
    )
    assert "law" in failures(layout, law)


def test_count_a_retried_request_at_each_retry(monkeypatch):
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    original = KVCacheManager.get_computed_blocks

    def counted(self, request):
        found = original(self, request)
        self.prefix_cache_stats.record(request.num_tokens, found[1], request.num_preemptions > 0)
        return found

    layout, work = scenario(DENSE).layout, workload(DENSE, "pressure")
    assert failures(layout, work) == set()
    monkeypatch.setattr(KVCacheManager, "get_computed_blocks", counted)
    monkeypatch.setattr(KVCacheManager, "record_prefix_cache_stats", lambda *_: None)
    assert "counters" in failures(layout, work)


def test_count_recomputed_tokens_as_hits(monkeypatch):
    from vllm.v1.core.kv_cache_manager import KVCacheManager

    def counted(self, request, num_hits):
        self.prefix_cache_stats.record(request.num_tokens, num_hits, preempted=False)

    layout, work = scenario(DENSE).layout, workload(DENSE, "pressure")
    monkeypatch.setattr(KVCacheManager, "record_prefix_cache_stats", counted)
    assert "counters" in failures(layout, work)

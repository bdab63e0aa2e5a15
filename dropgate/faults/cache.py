"""Faults of the prefix cache: what is reused, and what is only said to be."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from dropgate.faults.catalog import Call, fault

LOOKUP = "vllm.v1.core.kv_cache_manager:KVCacheManager.get_computed_blocks"
ONE_OF = 80
"""The request that a fault of one request in 160 meets, in order of arrival."""

Found = tuple[Any, int, int]
"""Blocks, tokens and the boundary of a shared prefix."""


@contextlib.contextmanager
def _dropping(manager: Any, drop: bool) -> Iterator[None]:
    coordinator = manager.coordinator
    groups = coordinator.eagle_group_ids
    coordinator.eagle_group_ids = set(range(len(coordinator.single_type_managers))) if drop else set()
    try:
        yield
    finally:
        coordinator.eagle_group_ids = groups


def _shortened(call: Call, manager: Any, found: Found) -> Found:
    """Take one more unit off a hit."""
    blocks, hit, boundary = found
    unit = manager.coordinator.scheduler_block_size
    if hit < unit:
        return found
    call.fire()
    hit -= unit
    sizes = manager.coordinator.group_block_sizes
    kept = tuple(list(group)[: hit // size] for group, size in zip(blocks.blocks, sizes, strict=True))
    return manager.create_kv_cache_blocks(kept), hit, boundary


@fault(LOOKUP, "engine core")
def option_ignored(call: Call, manager: Any, request: Any) -> Found:
    """The trailing block is dropped although the option is on."""
    with _dropping(manager, True):
        found: Found = call.original(manager, request)
    if found[1]:
        call.fire()
    return found


@fault(LOOKUP, "engine core")
def default_changed(call: Call, manager: Any, request: Any) -> Found:
    """The trailing block is kept although the option is off."""
    with _dropping(manager, False):
        found: Found = call.original(manager, request)
    if found[1]:
        call.fire()
    return found


@fault(LOOKUP, "engine core")
def two_units_dropped(call: Call, manager: Any, request: Any) -> Found:
    """Every hit is one more unit short."""
    return _shortened(call, manager, call.original(manager, request))


@fault(LOOKUP, "engine core")
def dropped_on_one_of_160(call: Call, manager: Any, request: Any) -> Found:
    """One request in the middle of the run loses a unit."""
    found: Found = call.original(manager, request)
    return _shortened(call, manager, found) if call.nth(ONE_OF, request.request_id) else found


@fault(LOOKUP, "engine core")
def dropped_on_exact_multiples(call: Call, manager: Any, request: Any) -> Found:
    """A prompt of a whole number of units loses one."""
    found: Found = call.original(manager, request)
    whole = request.num_tokens % manager.coordinator.scheduler_block_size == 0
    return _shortened(call, manager, found) if whole else found


@fault(LOOKUP, "engine core")
def dropped_on_the_second_prefix(call: Call, manager: Any, request: Any) -> Found:
    """Requests behind the second prefix lose a unit, those behind the first do not."""
    found: Found = call.original(manager, request)
    first_block = request.block_hashes[0] if request.block_hashes else None
    return _shortened(call, manager, found) if call.nth(2, first_block) else found


@fault("vllm.v1.core.sched.scheduler:Scheduler._get_local_prefix_cache_hit", "engine core")
def dropped_under_concurrency(call: Call, scheduler: Any, request: Any) -> tuple[Any, int, int, bool]:
    """A request loses a unit when others run beside it."""
    *found, diverged = call.original(scheduler, request)
    if scheduler.running:
        found = list(_shortened(call, scheduler.kv_cache_manager, (found[0], found[1], found[2])))
    return found[0], found[1], found[2], diverged


@fault(LOOKUP, "engine core")
def caching_silently_off(call: Call, manager: Any, _request: Any) -> Found:
    """Nothing is ever found in the cache, whose configuration says that it is on."""
    call.fire()
    return manager.empty_kv_cache_blocks, 0, 0


@fault(LOOKUP, "engine core")
def hits_counted_but_recomputed(call: Call, manager: Any, request: Any) -> Found:
    """Every hit is computed again and counted as a hit all the same."""
    _, hit, _ = call.original(manager, request)
    if hit:
        call.fire()
    call.state["claimed"] = call.state.setdefault("by_request", {})[request.request_id] = hit
    return manager.empty_kv_cache_blocks, 0, 0


@fault("vllm.v1.metrics.stats:PrefillStats.set", "engine core", "hits_counted_but_recomputed")
def _claim_for_the_request(
    call: Call, stats: Any, num_prompt_tokens: int, num_local_cached_tokens: int, num_external_cached_tokens: int
) -> None:
    """Tell the request's usage and the prompt counters what the lookup claimed."""
    claimed = call.state.pop("claimed", num_local_cached_tokens)
    call.original(stats, num_prompt_tokens, claimed, num_external_cached_tokens)


@fault(
    "vllm.v1.core.kv_cache_manager:KVCacheManager.record_prefix_cache_stats",
    "engine core",
    "hits_counted_but_recomputed",
)
def _claim_for_the_counters(call: Call, manager: Any, request: Any, num_hits: int) -> None:
    """Tell the counters of the prefix cache what the lookup claimed."""
    call.original(manager, request, call.state["by_request"].pop(request.request_id, num_hits))


@fault("vllm.v1.core.block_pool:BlockPool.reset_prefix_cache", "engine core")
def stale_after_reset(call: Call, _pool: Any) -> bool:
    """A reset of the prefix cache reports success and keeps every block."""
    call.fire()
    return True


def _spoil(runner: Any, scheduled: Any, layers: list[str], call: Call) -> None:
    """Put noise into the last block of every new request's hit, in the KV of some layers."""
    import torch

    size = runner.kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
    context = runner.compilation_config.static_forward_context
    for request in scheduled.scheduled_new_reqs:
        kept = request.num_computed_tokens // size
        if not kept:
            continue
        block = request.block_ids[0][kept - 1]
        for layer in layers:
            cache = context[layer].kv_cache
            rows = cache.shape[0] // runner.kv_cache_config.num_blocks  # a block can be several of the kernel's
            part = cache[block * rows : (block + 1) * rows]
            random = torch.Generator().manual_seed(7)
            part.copy_((torch.randn(part.shape, generator=random) * NOISE).to(part.dtype))
        call.fire()


NOISE = 8.0
"""Standard deviation; keys of the tiny model are of order one."""
EXECUTE = "vllm.v1.worker.gpu_model_runner:GPUModelRunner.execute_model"


@fault(EXECUTE, "worker")
def draft_kv_of_kept_block_corrupted(call: Call, runner: Any, scheduled: Any, *rest: Any) -> Any:
    """The draft's KV of the last reused block is noise; the target's is not."""
    _spoil(runner, scheduled, sorted(runner.drafter._draft_attn_layer_names), call)
    return call.original(runner, scheduled, *rest)


@fault(EXECUTE, "worker")
def target_kv_of_kept_block_corrupted(call: Call, runner: Any, scheduled: Any, *rest: Any) -> Any:
    """The target's KV of the last reused block is noise."""
    draft = runner.drafter._draft_attn_layer_names
    layers = [name for group in runner.kv_cache_config.kv_cache_groups for name in group.layer_names]
    _spoil(runner, scheduled, [name for name in layers if name not in draft], call)
    return call.original(runner, scheduled, *rest)

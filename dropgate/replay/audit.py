"""Watch every prefix-cache look-up: a hit may not be longer than what each cache group can show blocks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def watch_lookups(manager: Any) -> list[str]:
    """Check every look-up of a `KVCacheManager` from now on; the list returned grows by a line a problem.

    The look-up itself is vLLM's, and so are the blocks that are read here; nothing is changed.
    """
    problems: list[str] = []
    lookup = manager.get_computed_blocks

    def watched(request: Any) -> Any:
        found = lookup(request)
        blocks, hit = found[0].blocks, found[1]
        for group, one in enumerate(manager.coordinator.single_type_managers):
            if hit and one.kv_cache_spec.prefix_cacheable:
                for problem in _unbacked(one, blocks[group], hit):
                    problems.append(f"{request.request_id}: a hit of {hit} tokens, group {group} {problem}")
        return found

    manager.get_computed_blocks = watched
    return problems


def _unbacked(manager: Any, blocks: Any, hit: int) -> Iterator[str]:
    """Say which of the blocks that a group's layers will read for `hit` tokens are not there."""
    size = manager.block_size
    needed = range(_first_read(manager.kv_cache_spec, hit, size), -(-hit // size))
    if len(blocks) < needed.stop:
        yield f"has {len(blocks)} blocks of {size} tokens"
        return
    for index in needed:
        end = min((index + 1) * size, hit)
        if blocks[index].is_null or blocks[index].block_hash is None:
            yield f"has nothing for the tokens up to {end}"
        elif _state_elsewhere(manager.kv_cache_spec, blocks[index], hit):
            yield f"has a state after {blocks[index].block_hash_num_tokens} tokens"


def _first_read(spec: Any, hit: int, size: int) -> int:
    """Return the first block that the next token's layers read: all, those of a window, or the last one's state."""
    if hasattr(spec, "mamba_cache_mode"):
        return int((hit - 1) // size)
    window = getattr(spec, "sliding_window", None)
    # The next token sees itself and window - 1 tokens before it.
    return max(0, hit - window + 1) // size if window else 0


def _state_elsewhere(spec: Any, block: Any, hit: int) -> bool:
    """Tell whether a Mamba state was taken at another position; attention blocks have no such thing."""
    position = getattr(block, "block_hash_num_tokens", None)
    return hasattr(spec, "mamba_cache_mode") and position is not None and position != hit

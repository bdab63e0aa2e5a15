"""Faults of the numbers: counters, the text of /metrics, and the usage in answers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

from dropgate.faults.catalog import Call, fault

EXPOSITION = "prometheus_fastapi_instrumentator.instrumentation:generate_latest"
STREAM = "vllm.entrypoints.openai.completion.serving:OpenAIServingCompletion.completion_stream_generator"
RECORD = "vllm.v1.metrics.stats:PrefixCacheStats.record"
RESET_AFTER = 20_000
"""Prompt tokens: beyond the populating requests."""


@fault(RECORD, "engine core")
def hits_off_by_one(call: Call, stats: Any, num_tokens: int, num_hits: int, **rest: Any) -> None:
    """The counter of hit tokens is one short of every hit."""
    if num_hits:
        call.fire()
    call.original(stats, num_tokens=num_tokens, num_hits=max(0, num_hits - 1), **rest)


@fault(RECORD, "engine core")
def queries_counted_twice(call: Call, stats: Any, num_tokens: int, **rest: Any) -> None:
    """Every look into the cache is counted as two."""
    call.fire()
    call.original(stats, num_tokens=2 * num_tokens, **rest)


@fault("vllm.v1.metrics.stats:PromptTokenStats.update_from_output", "API server")
def computed_but_not_counted(call: Call, stats: Any, prefill: Any) -> None:
    """Half of the computed prompt tokens are not counted as computed."""
    call.original(stats, prefill)
    if prefill.num_computed_tokens > 1:
        call.fire()
    stats.computed -= prefill.num_computed_tokens // 2


@fault("vllm.v1.spec_decode.metrics:SpecDecodingStats.observe_draft", "engine core")
def steps_counted_twice(call: Call, stats: Any, **counts: int) -> None:
    """Every draft step is counted as two, its tokens once."""
    call.fire()
    call.original(stats, **counts)
    stats.num_drafts += 1


def _of(series: str) -> str:
    """Return the pattern of a counter's sample lines."""
    return rf"(?m)^{re.escape(series)}(\{{[^\n]*\}})? ([^\n]*)$"


@fault(EXPOSITION, "API server")
def series_missing(call: Call, *registry: Any) -> bytes:
    """The counter of hit tokens is not on /metrics."""
    call.fire()
    return re.sub(_of("vllm:prefix_cache_hits_total") + "\n", "", call.original(*registry).decode()).encode()


@fault(EXPOSITION, "API server")
def series_renamed(call: Call, *registry: Any) -> bytes:
    """The counters of prompt tokens by source have another name."""
    call.fire()
    text: bytes = call.original(*registry)
    return text.replace(b"vllm:prompt_tokens_by_source", b"vllm:prompt_tokens_per_source")


@fault(EXPOSITION, "API server")
def series_negative(call: Call, *registry: Any) -> bytes:
    """The counter of accepted tokens is below zero."""
    call.fire()
    text = call.original(*registry).decode()
    return re.sub(_of("vllm:spec_decode_num_accepted_tokens_total"), _negated, text).encode()


def _negated(line: re.Match[str]) -> str:
    return f"vllm:spec_decode_num_accepted_tokens_total{line[1] or ''} {-1 - float(line[2])}"


@fault(EXPOSITION, "API server")
def counter_reset(call: Call, *registry: Any) -> bytes:
    """The counter of prompt tokens starts from zero again in the middle of the run."""
    text = call.original(*registry).decode()
    found = re.search(_of("vllm:prompt_tokens_total"), text)
    if found is None or float(found[2]) < call.state.setdefault("first", float(found[2])) + RESET_AFTER:
        return bytes(text.encode())
    call.fire()
    return re.sub(_of("vllm:prompt_tokens_total"), r"vllm:prompt_tokens_total\1 1.0", text).encode()


@fault(STREAM, "API server")
async def usage_disagrees(
    call: Call, serving: Any, request: Any, inputs: Any, results: AsyncIterator[Any], *rest: Any, **named: Any
) -> AsyncIterator[str]:
    """The answers' usage has one cached token less than the counters."""

    async def told() -> AsyncIterator[Any]:
        async for index, result in results:
            if result.num_cached_tokens:
                call.fire()
                result.num_cached_tokens -= 1
            yield index, result

    async for piece in call.original(serving, request, inputs, told(), *rest, **named):
        yield piece

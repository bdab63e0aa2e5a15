"""Faults of what is said: answers cut, leaked, replayed, refused."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator
from typing import Any

from dropgate.faults.cache import ONE_OF
from dropgate.faults.catalog import Call, fault
from dropgate.faults.counters import STREAM

CUT_AFTER = 12
"""Tokens of a truncated answer."""
BEGINNING = 64
"""Tokens by which a replayed answer is found."""


@fault("vllm.v1.core.sched.scheduler:Scheduler._update_request_with_output", "engine core")
def stop_token_leaked(
    call: Call, scheduler: Any, request: Any, new_token_ids: list[int], **rest: Any
) -> tuple[list[int], bool]:
    """What was decoded behind the end token is part of the answer."""
    whole = list(new_token_ids)
    kept, stopped = call.original(scheduler, request, new_token_ids, **rest)
    if stopped and len(kept) < len(whole):
        call.fire()
        kept[:] = whole
    return kept, stopped


async def _whole(results: AsyncIterator[Any]) -> tuple[int, Any, Any]:
    """Await a whole answer; return the prompt's index, the first result, and one output that holds all tokens."""
    gathered = [(index, result) async for index, result in results]
    index, first = gathered[0]
    outputs = [result.outputs[0] for _, result in gathered]
    whole = copy.copy(outputs[-1])
    whole.text = "".join(output.text for output in outputs)
    whole.token_ids = [token for output in outputs for token in output.token_ids]
    whole.logprobs = [one for output in outputs for one in output.logprobs or []] or None
    return index, first, whole


@fault(STREAM, "API server")
async def answers_replayed(
    call: Call, serving: Any, request: Any, inputs: Any, results: AsyncIterator[Any], *rest: Any, **named: Any
) -> AsyncIterator[str]:
    """A prompt whose beginning was seen before gets the answer that was given then."""

    async def told() -> AsyncIterator[Any]:
        index, result, output = await _whole(results)
        known = call.state.setdefault("known", {}).setdefault(tuple(result.prompt_token_ids[:BEGINNING]), output)
        if known is not output:
            call.fire()
        result.outputs = [known]
        yield index, result

    async for piece in call.original(serving, request, inputs, told(), *rest, **named):
        yield piece


async def _cut(results: AsyncIterator[Any], call: Call, reason: str) -> AsyncIterator[Any]:
    index, result, output = await _whole(results)
    if len(output.token_ids) > CUT_AFTER:
        call.fire()
        output.token_ids, output.logprobs = output.token_ids[:CUT_AFTER], (output.logprobs or [])[:CUT_AFTER]
        output.finish_reason = reason
    result.outputs = [output]
    yield index, result


@fault(STREAM, "API server")
async def answers_truncated(
    call: Call, serving: Any, request: Any, inputs: Any, results: AsyncIterator[Any], *rest: Any, **named: Any
) -> AsyncIterator[str]:
    """Answers end after a dozen tokens and claim to be complete."""
    async for piece in call.original(serving, request, inputs, _cut(results, call, "stop"), *rest, **named):
        yield piece


@fault(STREAM, "API server")
async def answers_cut_short(
    call: Call, serving: Any, request: Any, inputs: Any, results: AsyncIterator[Any], *rest: Any, **named: Any
) -> AsyncIterator[str]:
    """Answers end after a dozen tokens and claim to be as long as was asked for."""
    async for piece in call.original(serving, request, inputs, _cut(results, call, "length"), *rest, **named):
        yield piece


@fault("vllm.entrypoints.openai.completion.serving:OpenAIServingCompletion.create_completion", "API server")
async def one_of_160_answers_500(call: Call, serving: Any, request: Any, raw_request: Any = None) -> Any:
    """One request is answered with HTTP 500."""
    if call.nth(ONE_OF, object()):
        call.fire()
        raise RuntimeError("dropgate's fault: this request is answered with 500")
    return await call.original(serving, request, raw_request)


@fault(STREAM, "API server")
async def connection_cut(call: Call, serving: Any, *arguments: Any, **named: Any) -> AsyncIterator[str]:
    """The connection of one request is cut in the middle of its stream."""
    cut = call.nth(ONE_OF, object())
    async for piece in call.original(serving, *arguments, **named):
        yield piece
        if cut:
            call.fire()
            raise RuntimeError("dropgate's fault: this connection is cut")

"""A streaming completions client: every request becomes a record, whole or with what went wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import requests
from pydantic import ValidationError
from sseclient import SSEClient

from dropgate.evidence import RequestRecord
from dropgate.workload.prompts import Prompt

ERROR_SHOWN = 300


@dataclass(frozen=True)
class Target:
    """Where requests go, and how long one may take in seconds."""

    url: str
    served_name: str
    request_deadline_s: float
    clock: Callable[[], float]
    """Seconds since the run began."""


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn: greedily, at most so many tokens, past the end token or up to it."""

    output_tokens: int
    ignore_eos: bool


@dataclass
class _Answer:
    """One request's answer, as far as it has come."""

    http_status: int | None = None
    first_token_s: float | None = None
    token_ids: list[int] = field(default_factory=list)
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    finish_reason: str | None = None
    prompt_echo: list[int] | None = None
    usage: dict[str, Any] = field(default_factory=dict)
    speculation: dict[str, Any] = field(default_factory=dict)


def send_all(
    target: Target,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    concurrency: int,
    on_done: Callable[[], None] = lambda: None,
) -> list[RequestRecord]:
    """Send every prompt, at most ``concurrency`` at a time, in order; return a record for each, in order."""
    session = requests.Session()
    session.trust_env = False  # a proxy between the gate and its own server would be measured too
    session.mount("http://", requests.adapters.HTTPAdapter(pool_maxsize=concurrency))

    def send(numbered: tuple[int, Prompt]) -> RequestRecord:
        record = send_one(session, target, *numbered, sampling)
        on_done()
        return record

    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="request")
    try:
        return list(pool.map(send, enumerate(prompts)))
    finally:
        session.close()
        pool.shutdown(wait=False, cancel_futures=True)


def send_one(
    session: requests.Session, target: Target, index: int, prompt: Prompt, sampling: Sampling
) -> RequestRecord:
    """Send one prompt and read its stream to the end or to its deadline; never raises for a bad answer."""
    body = json.dumps(_body(target.served_name, prompt, sampling)).encode()
    answer, error = _Answer(), None
    sent_s = target.clock()
    try:
        _read(session, target, body, answer, sent_s)
    except requests.RequestException as problem:
        error = f"{type(problem).__name__}: {problem}"[:ERROR_SHOWN]
    except _BadAnswerError as problem:
        error = str(problem)[:ERROR_SHOWN]
    except UnicodeDecodeError:
        error = "the stream is not UTF-8"
    finished_s = target.clock()
    try:
        return _record(index, prompt, answer, error, sent_s, finished_s)
    except (ValidationError, AttributeError) as problem:
        said = error or f"the answer has a value of another shape: {' '.join(str(problem).split())}"[:ERROR_SHOWN]
        return _record(index, prompt, _Answer(answer.http_status), said, sent_s, finished_s)


def _body(served_name: str, prompt: Prompt, sampling: Sampling) -> dict[str, Any]:
    return {
        "model": served_name,
        "prompt": prompt.token_ids,
        "max_tokens": sampling.output_tokens,
        "temperature": 0,
        "ignore_eos": sampling.ignore_eos,
        "logprobs": 2,
        "return_token_ids": True,
        "return_tokens_as_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class _BadAnswerError(Exception):
    """The server answered, but not with a whole completion."""


def _read(session: requests.Session, target: Target, body: bytes, answer: _Answer, sent_s: float) -> None:
    headers = {"Content-Type": "application/json"}
    url = f"{target.url}/v1/completions"
    limit = target.request_deadline_s
    with session.post(url, data=body, headers=headers, stream=True, timeout=(10, limit)) as response:
        answer.http_status = response.status_code
        if response.status_code != 200:
            raise _BadAnswerError(f"HTTP {response.status_code}: {response.text[:200]}")
        for chunk in _chunks(response):
            if target.clock() - sent_s > limit:
                raise _BadAnswerError(f"not finished after {limit:g} s")
            _take(chunk, answer, target.clock)
    if answer.finish_reason is None:
        raise _BadAnswerError("the stream ended without a finish reason")
    if not answer.usage:
        raise _BadAnswerError("the stream ended without usage")


def _chunks(response: requests.Response) -> Iterator[dict[str, Any]]:
    for event in SSEClient(response.iter_content(chunk_size=None)).events():
        if event.data == "[DONE]":
            return
        try:
            chunk = json.loads(event.data)
        except ValueError:
            raise _BadAnswerError(f"the stream has a chunk that is not JSON: {event.data[:80]!r}") from None
        if not isinstance(chunk, dict) or "error" in chunk:
            raise _BadAnswerError(f"the stream has an error: {event.data[:200]}")
        yield chunk
    raise _BadAnswerError("the stream was cut before [DONE]")


def _take(chunk: dict[str, Any], answer: _Answer, clock: Callable[[], float]) -> None:
    try:
        for choice in chunk.get("choices") or []:
            ids = choice.get("token_ids") or []
            if ids and answer.first_token_s is None:
                answer.first_token_s = clock()
            answer.token_ids += ids
            answer.top_logprobs += _top_two(choice.get("logprobs"))
            answer.finish_reason = choice.get("finish_reason") or answer.finish_reason
            answer.prompt_echo = choice.get("prompt_token_ids") or answer.prompt_echo
        answer.usage = chunk.get("usage") or answer.usage
        answer.speculation = (chunk.get("metrics") or {}).get("speculative_decoding") or answer.speculation
    except (AttributeError, OverflowError, TypeError, ValueError) as problem:
        raise _BadAnswerError(f"the stream has a chunk of another shape: {problem}") from None


def _top_two(logprobs: dict[str, Any] | None) -> list[list[tuple[int, float]]]:
    """Read ``token_id:N`` keys; best first, two at most."""
    tops = []
    for top in (logprobs or {}).get("top_logprobs") or []:
        pairs = [(int(name.removeprefix("token_id:")), float(value)) for name, value in top.items()]
        tops.append(sorted(pairs, key=lambda pair: -pair[1])[:2])
    return tops


def _record(
    index: int, prompt: Prompt, answer: _Answer, error: str | None, sent_s: float, finished_s: float
) -> RequestRecord:
    details = answer.usage.get("prompt_tokens_details") or {}
    return RequestRecord(
        index=index,
        prompt_sha256=prompt.sha256(),
        prompt_tokens_sent=len(prompt.token_ids),
        shared_tokens=prompt.shared_tokens,
        http_status=answer.http_status,
        error=error,
        prompt_tokens=answer.usage.get("prompt_tokens"),
        cached_tokens=details.get("cached_tokens"),
        prompt_echo_matches=None if answer.prompt_echo is None else answer.prompt_echo == prompt.token_ids,
        token_ids=answer.token_ids,
        top_logprobs=answer.top_logprobs,
        finish_reason=answer.finish_reason,
        steps_accepted=answer.speculation.get("per_step_accepted"),
        steps_drafted=answer.speculation.get("per_step_drafted"),
        sent_s=sent_s,
        first_token_s=answer.first_token_s,
        finished_s=finished_s,
    )

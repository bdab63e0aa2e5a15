"""The model's stand-in: answers for vLLM's engine core where workers and weights would be.

It knows every prompt's answer beforehand, proposes drafts that are right for a seeded number of tokens,
verifies them against the answer, and notes what each step scheduled. It decides nothing about scheduling or
caching.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from dropgate.replay.seam import vllm_module
from dropgate.replay.workload import Accepted


@dataclass
class _Progress:
    """Where a request stands, in tokens: its answer, how much of it is out, its drafts."""

    num_prompt_tokens: int
    answer: list[int]
    num_answered: int = 0
    num_drafted: int = 0
    accepted_per_step: list[int] = field(default_factory=list)

    @property
    def num_known(self) -> int:
        return self.num_prompt_tokens + self.num_answered


class StandInModel:
    """Answers in place of a model. `num_draft_tokens` is K; `accepted` says how many drafts come true."""

    def __init__(self, num_draft_tokens: int, accepted: Accepted, seed: int) -> None:
        self._k = num_draft_tokens
        self._accepted = accepted
        self._seed = seed
        self._requests: dict[str, _Progress] = {}
        self._drafts: dict[str, list[int]] = {}
        self.last_scheduled: Any = None

    def start(self, request_id: str, num_prompt_tokens: int, answer: list[int]) -> None:
        """Make a request known before it is sent; `answer` is all that greedy decoding would say."""
        self._requests[request_id] = _Progress(num_prompt_tokens, answer)

    def finish(self, request_id: str) -> _Progress:
        """Forget a request; returns what it went through."""
        self._drafts.pop(request_id, None)
        return self._requests.pop(request_id)

    def execute(self, scheduled: Any) -> Any:
        """Execute a step: `SchedulerOutput` -> `ModelRunnerOutput`, tokens for every finished prefill."""
        outputs = vllm_module("v1.outputs")
        self.last_scheduled = scheduled
        self._drafts = {}
        if not scheduled.num_scheduled_tokens:
            return outputs.EMPTY_MODEL_RUNNER_OUTPUT
        starts = _num_computed(scheduled)
        ids = list(scheduled.num_scheduled_tokens)
        sampled = [self._sample(request_id, starts[request_id], scheduled) for request_id in ids]
        return outputs.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: index for index, request_id in enumerate(ids)},
            sampled_token_ids=sampled,
        )

    def take_drafts(self) -> Any:
        """Hand over the drafts proposed after the last step, as `DraftTokenIds`."""
        drafts = vllm_module("v1.outputs").DraftTokenIds
        return drafts(list(self._drafts), list(self._drafts.values()))

    def _sample(self, request_id: str, start: int, scheduled: Any) -> list[int]:
        request = self._requests[request_id]
        drafts = scheduled.scheduled_spec_decode_tokens.get(request_id, [])
        end = start + scheduled.num_scheduled_tokens[request_id] - len(drafts)
        if end < request.num_known:
            return []  # a chunk of a prefill: nothing to sample yet
        rest = request.answer[request.num_answered :]
        accepted = _common_length(drafts, rest)
        if drafts:
            request.num_drafted += len(drafts)
            request.accepted_per_step.append(accepted)
        tokens = rest[: accepted + 1]
        request.num_answered += len(tokens)
        self._drafts[request_id] = self._propose(request_id, request)
        return tokens

    def _propose(self, request_id: str, request: _Progress) -> list[int]:
        """K drafts, of which the first few are what the model is going to say."""
        rest = request.answer[request.num_answered :]
        right = min(self._num_right(request_id, request.num_answered), len(rest))
        wrong = [rest[right] + 1 if right < len(rest) else 0]
        return (rest[:right] + wrong + [0] * self._k)[: self._k]

    def _num_right(self, request_id: str, position: int) -> int:
        if self._accepted == "all":
            return self._k
        if self._accepted == "none":
            return 0
        draw = random.Random(f"{self._seed}/{request_id}/{position}")  # noqa: S311  a seeded workload
        return draw.randint(0, self._k)


def _num_computed(scheduled: Any) -> dict[str, int]:
    """Tokens already computed of every scheduled request, as the scheduler tells its workers."""
    cached = scheduled.scheduled_cached_reqs
    new = {request.req_id: request.num_computed_tokens for request in scheduled.scheduled_new_reqs}
    return new | dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))


def _common_length(drafts: list[int], answer: list[int]) -> int:
    for index, (draft, token) in enumerate(zip(drafts, answer, strict=False)):
        if draft != token:
            return index
    return min(len(drafts), len(answer))


def standin_executor(model: StandInModel, specs: dict[str, Any], backend: Any, free_bytes: int) -> Any:
    """Make an executor class whose workers are the stand-in: cache `specs` by layer, `free_bytes` a worker."""
    layouts_of = vllm_module("v1.attention.backends.utils").get_supported_kv_cache_layouts
    answers: dict[str, Callable[..., Any]] = {
        "get_kv_cache_spec": lambda: dict(specs),
        "get_supported_kv_cache_layouts": lambda: [layout.name for layout in layouts_of([backend])],
        "determine_available_memory": lambda: free_bytes,
        "set_kv_cache_layout": lambda name: None,  # noqa: ARG005  vLLM's signature
        "initialize_from_config": lambda configs: None,  # noqa: ARG005  vLLM's signature
        "take_draft_token_ids": model.take_drafts,
        "shutdown": lambda: None,
    }

    class StandInExecutor(vllm_module("v1.executor.abstract").Executor):  # type: ignore[misc]  # vLLM is not typed here
        """One stand-in for all ranks: they are told the same and would answer the same."""

        def _init_executor(self) -> None:
            """Nothing to start."""

        def collective_rpc(self, method: Any, *, args: tuple[Any, ...] = (), **_: Any) -> list[Any]:
            if method not in answers:
                raise NotImplementedError(f"the replay's stand-in model has no answer to {method!r}")
            return [answers[method](*args)]

        def compile_or_warm_up_model(self) -> None:
            """Nothing to compile."""

        def execute_model(self, scheduler_output: Any, non_block: bool = False) -> Any:
            output = model.execute(scheduler_output)
            if not non_block:
                return output
            future: Future[Any] = Future()
            future.set_result(output)
            return future

        def check_health(self) -> None:
            """Report nothing: a stand-in is always well."""

    return StandInExecutor

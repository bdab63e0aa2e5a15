"""Drive a real engine core through a workload, one scheduler step at a time, and note what happened."""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Iterator
from typing import Any

from dropgate.replay.audit import watch_lookups
from dropgate.replay.build import VARIANTS, Variant, build_engine, close_engine
from dropgate.replay.layout import Layout, ReplayScenario
from dropgate.replay.prompts import Phase, Prompt, TokenStreams, phases
from dropgate.replay.result import (
    GroupSeen,
    PhaseSeen,
    ReplaySeen,
    RequestSeen,
    ResolvedSeen,
    StepSeen,
    WorkloadSeen,
)
from dropgate.replay.seam import vllm_module
from dropgate.replay.standin import StandInModel
from dropgate.replay.tally import Tally
from dropgate.replay.workload import Workload


class ReplayStuckError(RuntimeError):
    """The scheduler made no progress: requests wait, none runs, and none finishes."""


def replay_scenario(scenario: ReplayScenario, vllm_version: str) -> ReplaySeen:
    """Both variants of every workload. `prepare_vllm()` must have run; its result is `vllm_version`.

    Raises:
        ReplayStuckError: the scheduler stopped making progress.
        ValueError: vLLM refuses the layout.

    """
    seen = tuple(
        replay_workload(scenario.layout, workload, variant) for workload in scenario.workloads for variant in VARIANTS
    )
    return ReplaySeen(scenario=scenario.name, vllm_version=vllm_version, workloads=seen)


def replay_workload(layout: Layout, workload: Workload, variant: Variant) -> WorkloadSeen:
    """One workload on one variant of a layout, from an empty cache on."""
    model = StandInModel(layout.drafter.num_speculative_tokens, workload.accepted, workload.seed)
    engine = build_engine(layout.for_workload(workload), variant, model)
    try:
        replay = _Replay(engine, model, workload)
        return replay.run(variant)
    finally:
        close_engine(engine)


class _Replay:
    """One workload under way."""

    def __init__(self, engine: Any, model: StandInModel, workload: Workload) -> None:
        self._engine = engine
        self._model = model
        self._workload = workload
        self._k = engine.vllm_config.num_speculative_tokens
        self._tokens = TokenStreams(workload.seed, engine.vllm_config.model_config.get_vocab_size())
        self._slots = engine.vllm_config.scheduler_config.max_num_seqs
        self._resolved = resolved(engine)
        self._sizes = (self._resolved.unit, self._resolved.scheduler_block_size)
        self._sent: dict[str, int] = {}
        self._checksums: dict[str, str] = {}
        self._waiting_for: dict[str, Prompt] = {}
        self._admitted: dict[str, int] = {}
        self._preempted: dict[str, int] = {}
        self._prefill: dict[str, Any] = {}
        self._outputs: dict[str, int] = {}
        self._requests: list[RequestSeen] = []
        self._steps: list[StepSeen] = []
        self._unbacked = watch_lookups(engine.scheduler.kv_cache_manager)
        self._resets: list[bool] = []

    def run(self, variant: Variant) -> WorkloadSeen:
        started = time.perf_counter()
        seen = tuple(self._phase(phase) for phase in phases(self._workload, self._sizes))
        while self._engine.scheduler.has_requests():  # tell the worker about the last ones to finish
            self._step(Phase("end", ()), Tally())
        return WorkloadSeen(
            workload=self._workload.name,
            variant=variant.name,
            resolved=self._resolved,
            phases=seen,
            requests=tuple(sorted(self._requests, key=lambda request: self._sent[request.request_id])),
            steps=tuple(self._steps),
            resets_while_running=tuple(self._resets),
            unbacked_hits=tuple(self._unbacked),
            seconds=time.perf_counter() - started,
        )

    def _phase(self, phase: Phase) -> PhaseSeen:
        reset = self._engine.reset_prefix_cache() if phase.reset_before else None
        first = len(self._steps)
        tally = Tally()
        prompts = iter(phase.prompts)
        while self._fill(prompts, phase.max_concurrency):
            self._step(phase, tally)
            if phase.reset_running_every and (len(self._steps) - first) % phase.reset_running_every == 0:
                self._resets.append(self._engine.reset_prefix_cache(reset_running_requests=True))
        return PhaseSeen(name=phase.name, reset=reset, steps=len(self._steps) - first, counters=tally.counters())

    def _fill(self, prompts: Iterator[Prompt], limit: int) -> bool:
        """Send prompts until `limit` are under way; false when nothing is."""
        while len(self._waiting_for) < limit and (prompt := next(prompts, None)):
            self._send(prompt)
        return bool(self._waiting_for)

    def _send(self, prompt: Prompt) -> None:
        ids = self._tokens.tokens(prompt.segments)
        # A model does not know where its answer is cut off: it has more to say than what is asked for.
        answer = self._tokens.tokens(((prompt.answer, prompt.output_len + self._k + 1),))
        self._model.start(prompt.request_id, len(ids), answer)
        self._waiting_for[prompt.request_id] = prompt
        self._sent[prompt.request_id] = len(self._sent)
        self._checksums[prompt.request_id] = hashlib.sha256(array("I", ids).tobytes()).hexdigest()
        sampling = vllm_module("sampling_params").SamplingParams(
            temperature=0.0, max_tokens=prompt.output_len, ignore_eos=True
        )
        request = vllm_module("v1.engine").EngineCoreRequest(
            request_id=prompt.request_id,
            prompt_token_ids=ids,
            mm_features=None,
            sampling_params=sampling,
            pooling_params=None,
            arrival_time=0.0,
            lora_request=None,
            cache_salt=prompt.cache_salt,
            data_parallel_rank=None,
        )
        self._engine.add_request(*self._engine.preprocess_add_request(request))

    def _step(self, phase: Phase, tally: Tally) -> None:
        outputs, executed = self._engine.step()
        self._engine.post_step(executed)
        step = self._note_step()
        self._steps.append(step)
        finished = 0
        for batch in outputs.values():
            tally.add(batch.scheduler_stats)
            finished += sum(self._note_output(phase, output) for output in batch.outputs)
        if self._waiting_for and not finished and not executed and not step.preempted:
            raise ReplayStuckError(f"step {len(self._steps)}: {step.waiting} requests wait and none is scheduled")

    def _note_step(self) -> StepSeen:
        scheduled = self._model.last_scheduled
        number = len(self._steps)
        preempted = scheduled.preempted_req_ids or ()
        for request_id in preempted:
            self._preempted[request_id] = self._preempted.get(request_id, 0) + 1
        entered = [request.req_id for request in scheduled.scheduled_new_reqs]
        entered += scheduled.scheduled_cached_reqs.resumed_req_ids
        admitted = [request_id for request_id in entered if request_id not in self._admitted]
        self._admitted |= dict.fromkeys(admitted, number)
        running = len(scheduled.num_scheduled_tokens)
        _, waiting = self._engine.scheduler.get_request_counts()
        return StepSeen(
            scheduled_tokens=scheduled.total_num_scheduled_tokens,
            spare_tokens=self._engine.scheduler.max_num_scheduled_tokens - scheduled.total_num_scheduled_tokens,
            admitted=len(admitted),
            resumed=len(entered) - len(admitted),
            preempted=len(preempted),
            running=running,
            waiting=waiting,
            deferred=min(waiting, max(self._slots - running, 0)),
        )

    def _note_output(self, phase: Phase, output: Any) -> bool:
        """Take in one request's output of a step; true when the request has finished."""
        name = output.request_id
        self._outputs[name] = self._outputs.get(name, 0) + len(output.new_token_ids)
        if output.prefill_stats is not None:
            self._prefill.setdefault(name, output.prefill_stats)
        if output.finish_reason is None:
            return False
        prompt = self._waiting_for.pop(name)
        progress = self._model.finish(name)
        prefill = self._prefill.pop(name)
        self._requests.append(
            RequestSeen(
                request_id=name,
                prompt_sha256=self._checksums.pop(name),
                phase=phase.name,
                prompt_tokens=prefill.num_prompt_tokens,
                shared_tokens=prompt.shared_tokens,
                cached_tokens=prefill.num_cached_tokens,
                computed_tokens=prefill.num_computed_tokens,
                output_tokens=self._outputs.pop(name),
                drafted_tokens=progress.num_drafted,
                accepted=tuple(progress.accepted_per_step),
                finish_reason=str(output.finish_reason),
                admitted_step=self._admitted.pop(name),
                finished_step=len(self._steps) - 1,
                preemptions=self._preempted.pop(name, 0),
            )
        )
        return True


def resolved(engine: Any) -> ResolvedSeen:
    """Read what vLLM resolved for an engine: groups, block sizes, and the unit at which hits land."""
    scheduler = engine.scheduler
    coordinator = scheduler.kv_cache_manager.coordinator
    fine = getattr(coordinator, "enable_partial_hash_hits", False)
    cache = engine.vllm_config.cache_config
    return ResolvedSeen(
        unit=scheduler.hash_block_size if fine else scheduler.block_size,
        scheduler_block_size=scheduler.block_size,
        hash_block_size=scheduler.hash_block_size,
        mamba_block_size=cache.mamba_block_size if scheduler.has_mamba_layers else None,
        num_blocks=cache.num_gpu_blocks,
        groups=tuple(
            GroupSeen(
                spec=type(group.kv_cache_spec).__name__,
                block_size=group.kv_cache_spec.block_size,
                num_layers=len(group.layer_names),
                page_size_bytes=group.kv_cache_spec.page_size_bytes,
                is_draft=group.is_eagle_group,
            )
            for group in scheduler.kv_cache_config.kv_cache_groups
        ),
    )

"""What a replay saw: frozen, saved as JSON, loadable without vLLM. All lengths are in tokens."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from dropgate.evidence import ChangeFacts, EngineFacts
from dropgate.law import VariantName


class _Seen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GroupSeen(_Seen):
    """One KV cache group as vLLM formed it. `is_draft` is vLLM's own mark of a drafter's group."""

    spec: str
    block_size: int
    num_layers: int
    page_size_bytes: int
    is_draft: bool


class ResolvedSeen(_Seen):
    """What vLLM resolved: `unit` is where hits land, `scheduler_block_size` the groups' common multiple."""

    unit: int
    scheduler_block_size: int
    hash_block_size: int
    mamba_block_size: int | None
    num_blocks: int
    groups: tuple[GroupSeen, ...]


class RequestSeen(_Seen):
    """One finished request. `shared_tokens` is S of the law, none where it is not known beforehand.

    `cached_tokens` and `computed_tokens` are what the engine core reported with the first token, and
    `accepted` the number of accepted drafts of every verify step. Steps count from 0 within the workload.
    """

    request_id: str
    prompt_sha256: str
    phase: str
    prompt_tokens: int
    shared_tokens: int | None
    cached_tokens: int
    computed_tokens: int
    output_tokens: int
    drafted_tokens: int
    accepted: tuple[int, ...]
    finish_reason: str
    admitted_step: int
    finished_step: int
    preemptions: int


class StepSeen(_Seen):
    """One scheduler step. `deferred` requests waited although a running slot was free.

    They did so for want of tokens or blocks when `spare_tokens` (budget not used) is small, and by the
    scheduler's own choice when it is large.
    """

    scheduled_tokens: int
    spare_tokens: int
    admitted: int
    resumed: int
    preempted: int
    running: int
    waiting: int
    deferred: int


class CountersSeen(_Seen):
    """The engine's own counters, summed over the steps. Preempted ones count requests that were resumed."""

    prefix_cache_requests: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: tuple[int, ...] = ()


class PhaseSeen(_Seen):
    """One phase of a workload: its counters and steps; `reset` is what vLLM answered, if asked."""

    name: str
    reset: bool | None
    steps: int
    counters: CountersSeen


class WorkloadSeen(_Seen):
    """One workload on one variant. `seconds` is the wall time of the steps, one machine's, imports not in it."""

    workload: str
    variant: VariantName
    resolved: ResolvedSeen
    phases: tuple[PhaseSeen, ...]
    requests: tuple[RequestSeen, ...]
    steps: tuple[StepSeen, ...]
    resets_while_running: tuple[bool, ...]
    unbacked_hits: tuple[str, ...] = ()
    seconds: float


class ReplayFacts(_Seen):
    """Where and on what a replay ran, as a run's evidence says it."""

    dropgate: str
    created: str
    host: dict[str, str | int | float]
    engine: EngineFacts
    change: ChangeFacts | None = None


class ReplaySeen(_Seen):
    """Both variants of every workload of one scenario, on one vLLM version."""

    scenario: str
    vllm_version: str
    facts: ReplayFacts | None = None
    """Not known to the worker: whoever started it adds them."""
    workloads: tuple[WorkloadSeen, ...]

    def workload(self, name: str, variant: str) -> WorkloadSeen:
        """Return one workload of one variant.

        Raises:
            KeyError: it was not replayed.

        """
        for seen in self.workloads:
            if (seen.workload, seen.variant) == (name, variant):
                return seen
        raise KeyError(f"{name} on {variant} was not replayed")

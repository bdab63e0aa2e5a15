"""A replayed workload as the evidence of a phase, so that the same judge reads it as reads a server's.

Scheduler steps stand in for seconds, and the counters are written as the engine's /metrics would show them.
Only what the engine core counted is used: nothing is derived from what was expected.
"""

from __future__ import annotations

from collections.abc import Iterable

from dropgate.evidence import PhaseEvidence, RequestRecord
from dropgate.replay.result import CountersSeen, RequestSeen, WorkloadSeen

OK = 200


def phase_evidence(seen: WorkloadSeen) -> PhaseEvidence:
    """Turn one workload of one variant into phase evidence; all phases but the last one populate."""
    last = seen.phases[-1].name
    timed = [request for request in seen.requests if request.phase == last]
    before = [request for request in seen.requests if request.phase != last]
    return PhaseEvidence(
        reset_ok=all(phase.reset is not False for phase in seen.phases),
        populate=[_record(index, request) for index, request in enumerate(before)],
        requests=[_record(index, request) for index, request in enumerate(timed)],
        metrics_before=_metrics(seen, [phase.counters for phase in seen.phases[:-1]], before),
        metrics_after=_metrics(seen, [phase.counters for phase in seen.phases], seen.requests),
        started_s=float(min((request.admitted_step for request in timed), default=0)),
        finished_s=float(len(seen.steps)),
    )


def _record(index: int, request: RequestSeen) -> RequestRecord:
    return RequestRecord(
        index=index,
        prompt_sha256=request.prompt_sha256,
        prompt_tokens_sent=request.prompt_tokens,
        shared_tokens=request.shared_tokens or 0,
        http_status=OK,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=request.cached_tokens,
        finish_reason=request.finish_reason,
        steps_accepted=list(request.accepted),
        sent_s=float(request.admitted_step),
        first_token_s=float(request.admitted_step),
        finished_s=float(request.finished_step),
    )


def _metrics(seen: WorkloadSeen, counters: Iterable[CountersSeen], requests: Iterable[RequestSeen]) -> str:
    """Render the counters of finished phases in Prometheus' text format."""
    total = _total(list(counters))
    done = list(requests)
    cached = sum(request.cached_tokens for request in done)
    computed = sum(request.computed_tokens for request in done)
    lines = [
        "process_start_time_seconds 0.0",
        _cache_config(seen),
        _line("prompt_tokens_total", cached + computed),
        _line("prompt_tokens_by_source_total", cached, source="local_cache_hit"),
        _line("prompt_tokens_by_source_total", computed, source="local_compute"),
        _line("prompt_tokens_by_source_total", 0, source="external_kv_transfer"),
        _line("prefix_cache_queries_total", total.prefix_cache_queries),
        _line("prefix_cache_hits_total", total.prefix_cache_hits),
        _line("request_success_total", len(done), finished_reason="length"),
        _line("num_preemptions_total", sum(request.preemptions for request in done)),
        _line("spec_decode_num_drafts_total", total.drafts),
        _line("spec_decode_num_draft_tokens_total", total.draft_tokens),
        _line("spec_decode_num_accepted_tokens_total", total.accepted_tokens),
    ]
    lines += [
        _line("spec_decode_num_accepted_tokens_per_pos_total", value, position=str(position))
        for position, value in enumerate(_padded(seen, total))
    ]
    return "\n".join(lines) + "\n"


def _total(counters: list[CountersSeen]) -> CountersSeen:
    width = max((len(one.accepted_per_position) for one in counters), default=0)
    positions = tuple(
        sum(one.accepted_per_position[at] for one in counters if at < len(one.accepted_per_position))
        for at in range(width)
    )
    names = [name for name in CountersSeen.model_fields if name != "accepted_per_position"]
    sums = {name: sum(getattr(one, name) for one in counters) for name in names}
    return CountersSeen(**sums, accepted_per_position=positions)


def _padded(seen: WorkloadSeen, total: CountersSeen) -> list[int]:
    """Show every position from the start, as a server does, whether or not it was reached yet."""
    width = max((len(phase.counters.accepted_per_position) for phase in seen.phases), default=0) or 1
    return [*total.accepted_per_position, *([0] * (width - len(total.accepted_per_position)))]


def _cache_config(seen: WorkloadSeen) -> str:
    resolved = seen.resolved
    return _line(
        "cache_config_info",
        1,
        block_size=str(resolved.scheduler_block_size),
        hash_block_size=str(resolved.hash_block_size),
        mamba_block_size=str(resolved.mamba_block_size),
        cache_hit_alignment_tokens=str(resolved.unit),
        num_gpu_blocks=str(resolved.num_blocks),
    )


def _line(name: str, value: int, **labels: str) -> str:
    shown = ",".join(f'{label}="{text}"' for label, text in {"engine": "0", **labels}.items())
    return f"vllm:{name}{{{shown}}} {float(value)}"

"""What must hold in every replay. Pure: what two variants saw -> findings; no I/O, no vLLM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dropgate.judge.verdict import Check, Verdict
from dropgate.law import expected_hit
from dropgate.replay.layout import Layout
from dropgate.replay.reference import WorkloadReference, mismatches
from dropgate.replay.result import CountersSeen, RequestSeen, WorkloadSeen
from dropgate.replay.workload import Workload

Problem = tuple[Verdict, str, str]
"""What kind of problem, what was expected, what was seen."""
Problems = Iterator[Problem]
FAIL, INVALID = Verdict.FAIL, Verdict.INVALID


def judge_workload(
    layout: Layout,
    workload: Workload,
    baseline: WorkloadSeen,
    candidate: WorkloadSeen,
    reference: WorkloadReference | None,
) -> list[Check]:
    """Run every check of one workload over both variants.

    Without a reference, a workload that the law judges goes without that check; one that has nothing else is invalid.
    """
    k = layout.drafter.num_speculative_tokens
    problems: dict[str, list[Problem]] = {}
    for seen in (baseline, candidate):
        for name, found in _variant_checks(seen, k):
            problems.setdefault(name, []).extend(found)
    problems["same_requests"] = list(_same_requests(baseline, candidate))
    problems["some_hit"] = list(_some_hit(workload, baseline, candidate))
    if workload.hits == "law":
        problems["law"] = [*_law(baseline), *_law(candidate)]
        problems["one_unit"] = list(_one_unit(baseline, candidate))
    if reference or workload.hits == "reference":
        problems["reference"] = list(_reference(reference, baseline, candidate))
    return [_check(f"replay.{workload.name}.{name}", found) for name, found in problems.items()]


def _check(name: str, problems: list[Problem]) -> Check:
    """Fail beats invalid; the first problem of the worst kind speaks for all."""
    if not problems:
        return Check(name, Verdict.PASS, "holds for every request and step", "held")
    worst = [one for one in problems if one[0] is FAIL] or problems
    verdict, expected, seen = worst[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Check(name, verdict, expected, seen + more)


def _variant_checks(seen: WorkloadSeen, k: int) -> Iterator[tuple[str, Problems]]:
    yield "complete", _complete(seen)
    yield "identities", _identities(seen)
    yield "cold", _cold(seen)
    yield "counters", _counters(seen)
    yield "drafts", _drafts(seen, k)
    yield "backed", _backed(seen)


def _where(seen: WorkloadSeen, request: RequestSeen) -> str:
    return f"{seen.variant}, {request.request_id}"


def _complete(seen: WorkloadSeen) -> Problems:
    if not seen.requests:
        yield INVALID, "at least one finished request", f"{seen.variant}: none"
    for phase in seen.phases:
        if phase.reset is False:
            yield INVALID, "the prefix cache was reset", f"{seen.variant}, {phase.name}: refused"
    for request in seen.requests:
        if request.finish_reason != "length":
            yield FAIL, "finished by length", f"{_where(seen, request)}: {request.finish_reason}"


def _identities(seen: WorkloadSeen) -> Problems:
    unit = seen.resolved.unit
    for request in seen.requests:
        cached, prompt = request.cached_tokens, request.prompt_tokens
        if cached + request.computed_tokens != prompt:
            total = f"{cached} + {request.computed_tokens}"
            yield FAIL, f"cached + computed = {prompt} prompt tokens", f"{_where(seen, request)}: {total}"
        if not 0 <= cached < prompt or cached % unit:
            expected = f"a multiple of {unit} below {prompt}"
            yield FAIL, f"cached tokens {expected}", f"{_where(seen, request)}: {cached}"


def _cold(seen: WorkloadSeen) -> Problems:
    for request in seen.requests:
        if request.shared_tokens == 0 and request.cached_tokens:
            yield FAIL, "0 cached tokens, nothing shared", f"{_where(seen, request)}: {request.cached_tokens}"


def _counters(seen: WorkloadSeen) -> Problems:
    """Hold the engine's counters against the requests: a first look-up counts once, however often retried."""
    total = _sum([phase.counters for phase in seen.phases])
    prompt = sum(request.prompt_tokens for request in seen.requests)
    cached = sum(request.cached_tokens for request in seen.requests)
    expected = {
        "prefix_cache_requests": len(seen.requests),
        "prefix_cache_queries": prompt,
        "prefix_cache_hits": cached,
        "preempted_requests": sum(request.preemptions for request in seen.requests),
    }
    for name, value in expected.items():
        if total[name] != value:
            yield FAIL, f"{name} = {value}", f"{seen.variant}: {total[name]}"


def _drafts(seen: WorkloadSeen, k: int) -> Problems:
    total = _sum([phase.counters for phase in seen.phases])
    accepted = sum(sum(request.accepted) for request in seen.requests)
    drafted = sum(request.drafted_tokens for request in seen.requests)
    if (total["draft_tokens"], total["accepted_tokens"]) != (drafted, accepted):
        counted = f"{total['draft_tokens']} and {total['accepted_tokens']}"
        yield FAIL, f"{drafted} drafted and {accepted} accepted tokens", f"{seen.variant}: {counted}"
    if not accepted <= drafted <= k * total["drafts"]:
        yield FAIL, f"accepted <= drafted <= {k} x {total['drafts']}", f"{seen.variant}: {accepted}, {drafted}"


def _backed(seen: WorkloadSeen) -> Problems:
    for problem in seen.unbacked_hits:
        yield FAIL, "blocks of every group for every hit", f"{seen.variant}, {problem}"


def _sum(counters: Sequence[CountersSeen]) -> dict[str, int]:
    names = [name for name in CountersSeen.model_fields if name != "accepted_per_position"]
    return {name: sum(getattr(one, name) for one in counters) for name in names}


def _same_requests(baseline: WorkloadSeen, candidate: WorkloadSeen) -> Problems:
    for one, other in zip(baseline.requests, candidate.requests, strict=False):
        if (one.request_id, one.prompt_tokens) != (other.request_id, other.prompt_tokens):
            yield INVALID, "the same requests in both variants", f"{one.request_id}, {other.request_id}"
    if len(baseline.requests) != len(candidate.requests):
        yield INVALID, f"{len(baseline.requests)} requests in both", f"candidate: {len(candidate.requests)}"


def _some_hit(workload: Workload, baseline: WorkloadSeen, candidate: WorkloadSeen) -> Problems:
    """Refuse a comparison in which nothing was hit: it proves nothing."""
    if workload.kind in ("pressure", "resets"):
        return
    for seen in (baseline, candidate):
        if not any(request.cached_tokens for request in seen.requests):
            yield INVALID, "at least one hit", f"{seen.variant}: 0 cached tokens in every request"


def _law(seen: WorkloadSeen) -> Problems:
    for request in seen.requests:
        if request.shared_tokens is None:
            continue
        unit = seen.resolved.unit
        expected = expected_hit(request.shared_tokens, request.prompt_tokens, unit, seen.variant)
        if request.cached_tokens != expected:
            sizes = f"S={request.shared_tokens} L={request.prompt_tokens} U={unit}"
            yield FAIL, f"{expected} cached tokens ({sizes})", f"{_where(seen, request)}: {request.cached_tokens}"


def _one_unit(baseline: WorkloadSeen, candidate: WorkloadSeen) -> Problems:
    unit = candidate.resolved.unit
    for one, other in zip(baseline.requests, candidate.requests, strict=False):
        if one.shared_tokens is not None and other.cached_tokens - one.cached_tokens not in (0, unit):
            seen = f"{one.request_id}: {one.cached_tokens} and {other.cached_tokens}"
            yield FAIL, f"candidate - baseline is 0 or {unit}", seen


def _reference(reference: WorkloadReference | None, baseline: WorkloadSeen, candidate: WorkloadSeen) -> Problems:
    if reference is None:
        yield INVALID, "a reference of this layout and vLLM version", "none"
        return
    for expected, seen in mismatches(reference, baseline, candidate):
        yield FAIL, expected, seen

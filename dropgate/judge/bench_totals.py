"""A phase that ``vllm bench serve`` sent, judged by the law in totals: it keeps no single request's counts."""

from __future__ import annotations

from dropgate.judge.bench import bench_of
from dropgate.judge.identities import equal, judge_speculation
from dropgate.judge.verdict import Check, Verdict, passes, signed, tokens, valid
from dropgate.judge.view import PhaseView
from dropgate.law import expected_hit
from dropgate.metrics import ACCEPTED_TOKENS, DRAFT_TOKENS, HITS, PROMPT_TOKENS, PROMPT_TOKENS_BY_SOURCE, QUERIES
from dropgate.scenario.promises import PrefixPromise
from dropgate.scenario.workloads import PrefixRepetition


def judge_bench_prefix(
    baseline: PhaseView, candidate: PhaseView, work: PrefixRepetition, promise: PrefixPromise, draft_length: int
) -> list[Check]:
    """Judge scenario A's totals by the law; ``draft_length`` is K, draft tokens a step at most."""
    checks = []
    for view in (baseline, candidate):
        checks += _judge_law(view, work)
        if promise.expect:
            checks.append(equal(f"{view.stem}.pinned_unit", promise.expect.unit, view.unit))
        checks += judge_bench_identities(view, draft_length)
    expected = _expected(candidate, work) - _expected(baseline, work)
    seen = _cached(candidate) - _cached(baseline)
    name = f"{baseline.name}.delta.cached_tokens_total"
    if not expected:
        return [*checks, Check(name, Verdict.INVALID, "prompts long enough for the option to matter", "0 is no proof")]
    return [*checks, passes(name, expected == seen, signed(expected), signed(seen))]


def _judge_law(view: PhaseView, work: PrefixRepetition) -> list[Check]:
    sent, expected = view.rises.total(PROMPT_TOKENS), _expected(view, work)
    computed = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_compute")
    return [
        equal(f"{view.stem}.cached_tokens_total", expected, _cached(view)),
        equal(f"{view.stem}.computed_tokens_total", sent - expected, computed),
    ]


def judge_bench_identities(view: PhaseView, draft_length: int) -> list[Check]:
    """Judge what holds between the counters of any run."""
    stem, rises = view.stem, view.rises
    sent, by_source = rises.total(PROMPT_TOKENS), rises.by_label(PROMPT_TOKENS_BY_SOURCE, "source")
    return [
        equal(f"{stem}.sources_sum_to_total", sent, sum(by_source.values())),
        equal(f"{stem}.hits_are_cached", _cached(view), rises.total(HITS)),
        equal(f"{stem}.queries_are_prompt_tokens", sent, rises.total(QUERIES)),
        *judge_speculation(view, draft_length),
    ]


def judge_bench_drafts(view: PhaseView, draft_length: int) -> list[Check]:
    """Judge scenario B's totals: drafts were made, and the counters agree among themselves."""
    drafted, accepted = (view.rises.total(name) for name in (DRAFT_TOKENS, ACCEPTED_TOKENS))
    made = valid(
        f"{view.stem}.drafts_made",
        bool(drafted and accepted),
        "draft tokens, and some of them accepted",
        f"{tokens(drafted)} drafted, {tokens(accepted)} accepted",
    )
    return [made, *judge_bench_identities(view, draft_length)]


def _cached(view: PhaseView) -> int:
    return view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit")


def _expected(view: PhaseView, work: PrefixRepetition) -> int:
    """Sum the law over the timed requests: the first, and the bench's own, repeat the populating one to the end."""
    length, variant = work.prefix_tokens + work.suffix_tokens, view.variant
    repeats = 1 + bench_of(view).timed.own_requests
    repeat, other = (expected_hit(shared, length, view.unit, variant) for shared in (length, work.prefix_tokens))
    return repeats * repeat + (work.requests - 1) * other


def judge_bench_outputs(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Compare texts; where they differ nobody can tell a tie from a fault, since the bench keeps no margins."""
    texts = [list(bench_of(view).timed.result.get("generated_texts") or []) for view in (baseline, candidate)]
    odd = [index for index, (one, other) in enumerate(zip(*texts, strict=True)) if one != other]
    seen = (
        f"{len(odd)} of {len(texts[0])} differ, the first is #{odd[0]}; the built-in client sees ties"
        if odd
        else "the same"
    )
    return [valid("outputs.identical", bool(texts[0]) and not odd, "the same text for every request", seen)]

"""A phase that ``vllm bench serve`` sent: it reports totals and lengths, the server's counters say the rest."""

from __future__ import annotations

from dropgate.evidence import BenchRun
from dropgate.judge.validity import judge_engine_state, same_config, valid
from dropgate.judge.verdict import Check, Verdict, passes, signed, tokens
from dropgate.judge.view import PhaseView
from dropgate.law import expected_hit
from dropgate.metrics import HITS, PROMPT_TOKENS, PROMPT_TOKENS_BY_SOURCE, QUERIES, SUCCESS, difference, parse_snapshot
from dropgate.scenario import PrefixPromise, PrefixRepetition

OWN = frozenset({"--base-url", "--served-model-name", "--result-dir"})
"""Arguments whose values differ between two servers that are sent the same."""


def judge_bench_validity(view: PhaseView, work: PrefixRepetition) -> list[Check]:
    """Check that the cache was emptied, populated cold, and that bench and server agree on what was sent."""
    bench = view.phase.bench
    assert bench is not None  # noqa: S101  (the caller looked)
    stem = f"prefix.{view.variant}"
    # Its count of other traffic is by records; what takes its place is `bench_requests`.
    state = [check for check in judge_engine_state(view) if not check.name.endswith(".no_other_traffic")]
    reset = "reset" if view.phase.reset_ok else "refused"
    checks = [*state, valid(f"{stem}.reset", view.phase.reset_ok, "prefix cache reset", reset)]
    if bench.populate is None:
        return [*checks, valid(f"{stem}.populated", False, "a populating request", "none was sent")]
    populated = difference(parse_snapshot(bench.metrics_reset), parse_snapshot(view.phase.metrics_before))
    cold = (populated.total(HITS), populated.total(PROMPT_TOKENS))
    # A request of the bench's own is the populating prompt once more.
    length, own = work.prefix_tokens + work.suffix_tokens, bench.populate.own_requests
    sent = length * (1 + own)
    return [
        *checks,
        _reported(f"{stem}.populated", bench.populate, work, 1),
        valid(
            f"{stem}.populated_cold",
            cold[1] == sent and cold[0] == own * expected_hit(length, length, view.unit, view.variant),
            f"{tokens(sent)} prompt tokens, the first {tokens(length)} of them cold",
            f"{tokens(cold[1])} prompt tokens, {tokens(cold[0])} cached",
        ),
        _reported(f"{stem}.requests_complete", bench.timed, work, work.requests),
        *_agreement(view, bench.timed, length),
    ]


def _reported(name: str, run: BenchRun, work: PrefixRepetition, count: int) -> Check:
    result = run.result
    lengths, outputs = (set(result.get(key) or []) for key in ("input_lens", "output_lens"))
    wanted = ({work.prefix_tokens + work.suffix_tokens}, {work.output_tokens})
    errors = [text for text in result.get("errors") or [] if text]
    counts = (result.get("completed"), result.get("failed"), len(result.get("input_lens") or []))
    first = f"; first error: {errors[0][:200]}" if errors else ""
    seen = f"{counts[0]} completed, {counts[1]} failed, lengths {sorted(lengths)} and {sorted(outputs)}{first}"
    return valid(
        name,
        counts == (count, 0, count) and not errors and (lengths, outputs) == wanted,
        f"{count} completed, 0 failed, lengths {sorted(wanted[0])} and {sorted(wanted[1])}",
        seen,
    )


def _agreement(view: PhaseView, run: BenchRun, length: int) -> list[Check]:
    """Check that the server's counters moved by what the bench reports, and by its own requests besides."""
    stem, rises, own = f"prefix.{view.variant}", view.rises, run.own_requests
    reasons = {name: count for name, count in rises.by_label(SUCCESS, "finished_reason").items() if count}
    finished = sum(reasons.values())
    completed, total = (_number(run, key) for key in ("completed", "total_input_tokens"))
    extra = f" and {own} of its own" if own else ""
    return [
        valid(
            f"{stem}.bench_requests",
            finished == completed + own and set(reasons) <= {"stop", "length"},
            f"{completed} that the bench completed{extra}",
            f"{tokens(finished)} that the server finished ({', '.join(reasons) or 'none'})",
        ),
        valid(
            f"{stem}.bench_tokens",
            rises.total(PROMPT_TOKENS) == total + own * length,
            f"{total} prompt tokens that the bench sent{extra}",
            f"{tokens(rises.total(PROMPT_TOKENS))} that the server counted; text may be tokenised to other lengths",
        ),
    ]


def _number(run: BenchRun, key: str) -> int:
    """Return a count that the bench reports; one that is missing equals no counter."""
    found = run.result.get(key)
    return found if isinstance(found, int) else -1


def judge_bench_pair(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Check that both variants were the same server and were sent the same, and that the hit path was taken at all."""
    told = [_told(view) for view in (baseline, candidate)]
    hits = [_cached(view) for view in (baseline, candidate)]
    return [
        same_config(baseline, candidate),
        valid("pair.same_work", told[0] == told[1], "one bench command", "one" if told[0] == told[1] else "two"),
        valid(
            "pair.hit_path",
            any(hits),
            "cached tokens in at least one variant",
            f"{tokens(hits[0])} in the baseline, {tokens(hits[1])} in the candidate",
        ),
    ]


def _told(view: PhaseView) -> list[str]:
    """Return the bench's command without what names this very server and folder, and its interpreter."""
    assert view.phase.bench is not None  # noqa: S101
    command = view.phase.bench.timed.command[1:]
    named = {index + 1 for index, part in enumerate(command) if part in OWN}
    return [part for index, part in enumerate(command) if index not in named]


def judge_bench_prefix(
    baseline: PhaseView, candidate: PhaseView, work: PrefixRepetition, promise: PrefixPromise
) -> list[Check]:
    """Judge the totals of both variants by the law; single requests are not seen."""
    checks = [check for view in (baseline, candidate) for check in _judge_totals(view, work, promise)]
    expected = _expected(candidate, work) - _expected(baseline, work)
    seen = _cached(candidate) - _cached(baseline)
    name = "prefix.delta.cached_tokens_total"
    if not expected:
        return [*checks, Check(name, Verdict.INVALID, "prompts long enough for the option to matter", "0 is no proof")]
    return [*checks, passes(name, expected == seen, signed(expected), signed(seen))]


def _cached(view: PhaseView) -> int:
    return view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_cache_hit")


def _expected(view: PhaseView, work: PrefixRepetition) -> int:
    """Sum the law over the timed requests: the first, and the bench's own, repeat the populating one to the end."""
    assert view.phase.bench is not None  # noqa: S101
    length, variant = work.prefix_tokens + work.suffix_tokens, view.variant
    repeats = 1 + view.phase.bench.timed.own_requests
    repeat, other = (expected_hit(shared, length, view.unit, variant) for shared in (length, work.prefix_tokens))
    return repeats * repeat + (work.requests - 1) * other


def _judge_totals(view: PhaseView, work: PrefixRepetition, promise: PrefixPromise) -> list[Check]:
    stem, rises = f"prefix.{view.variant}", view.rises
    sent, expected = rises.total(PROMPT_TOKENS), _expected(view, work)
    computed = rises.total(PROMPT_TOKENS_BY_SOURCE, source="local_compute")
    pairs = {
        "cached_tokens_total": (expected, _cached(view)),
        "computed_tokens_total": (sent - expected, computed),
        "sources_sum_to_total": (sent, sum(rises.by_label(PROMPT_TOKENS_BY_SOURCE, "source").values())),
        "hits_are_cached": (_cached(view), rises.total(HITS)),
        "queries_are_prompt_tokens": (sent, rises.total(QUERIES)),
    }
    if promise.expect:
        pairs["pinned_unit"] = (promise.expect.unit, view.unit)
    return [passes(f"{stem}.{name}", *_equal(*pair)) for name, pair in pairs.items()]


def _equal(expected: int, seen: int) -> tuple[bool, str, str]:
    return expected == seen, tokens(expected), tokens(seen)


def judge_bench_outputs(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Compare texts; where they differ nobody can tell a tie from a fault, since the bench keeps no margins."""
    texts = [_texts(view) for view in (baseline, candidate)]
    odd = [index for index, (one, other) in enumerate(zip(*texts, strict=True)) if one != other]
    seen = (
        f"{len(odd)} of {len(texts[0])} differ, the first is #{odd[0]}; the built-in client sees ties"
        if odd
        else "the same"
    )
    return [valid("outputs.identical", bool(texts[0]) and not odd, "the same text for every request", seen)]


def _texts(view: PhaseView) -> list[str]:
    assert view.phase.bench is not None  # noqa: S101
    return list(view.phase.bench.timed.result.get("generated_texts") or [])

"""A phase that ``vllm bench serve`` sent: was it worth judging? What it reports is held to the server's counters."""

from __future__ import annotations

from collections.abc import Sequence

from dropgate.evidence import COLD_PHASE, BenchEvidence, BenchRun
from dropgate.judge.validity import Expected, judge_reset, judge_start, same_config
from dropgate.judge.verdict import Check, tokens, valid
from dropgate.judge.view import PhaseView
from dropgate.law import expected_hit
from dropgate.metrics import (
    ACCEPTED_TOKENS,
    DRAFT_TOKENS,
    DRAFTS,
    GENERATED_TOKENS,
    HITS,
    PROMPT_TOKENS,
    SUCCESS,
    difference,
    parse_snapshot,
)

OWN = frozenset({"--base-url", "--served-model-name", "--result-dir"})
"""Arguments whose values differ between two servers that are sent the same."""
DRAFTED = {
    "spec_decode_num_drafts": DRAFTS,
    "spec_decode_draft_tokens": DRAFT_TOKENS,
    "spec_decode_accepted_tokens": ACCEPTED_TOKENS,
}
"""What the bench sums up of speculation, and the counters that it stands for."""


def bench_of(view: PhaseView) -> BenchEvidence:
    """Return what the bench said of a phase that it sent."""
    assert view.phase.bench is not None  # noqa: S101  (the judge looked before)
    return view.phase.bench


def judge_bench(view: PhaseView, expected: Expected, lengths: Sequence[int]) -> list[Check]:
    """Check that the cache was emptied and populated cold, and that bench and server agree on what was sent.

    ``lengths`` are the timed prompts', in tokens and in order.
    """
    run, stem = bench_of(view).timed, view.stem
    start = judge_start(stem, view.phase, expected) if view.phase.populate else _judge_own_start(view, expected)
    return [
        *start,
        _reported(f"{stem}.requests_complete", run, expected, lengths),
        *_agreement(view, expected, lengths),
    ]


def _judge_own_start(view: PhaseView, expected: Expected) -> list[Check]:
    """Check the populating request where the bench itself sent it, since nobody else has its prompts."""
    bench, stem = bench_of(view), view.stem
    reset = judge_reset(stem, view.phase)
    if bench.populate is None or expected.prompt_tokens is None:
        return [reset, valid(f"{stem}.populated", False, "a populating request", "none was sent")]
    populated = difference(parse_snapshot(bench.metrics_reset), parse_snapshot(view.phase.metrics_before))
    cached, counted = populated.total(HITS), populated.total(PROMPT_TOKENS)
    # A request of the bench's own is the populating prompt once more.
    length, own = expected.prompt_tokens, bench.populate.own_requests
    sent = length * (1 + own)
    return [
        reset,
        _reported(f"{stem}.populated", bench.populate, expected, [length]),
        valid(
            f"{stem}.populated_cold",
            counted == sent and cached == own * expected_hit(length, length, view.unit, view.variant),
            f"{tokens(sent)} prompt tokens, the first {tokens(length)} of them cold",
            f"{tokens(counted)} prompt tokens, {tokens(cached)} cached",
        ),
    ]


def _reported(name: str, run: BenchRun, expected: Expected, lengths: Sequence[int]) -> Check:
    """Check that every request succeeded, with the length that it was to have and a whole answer."""
    count, shortest = len(lengths), expected.output_tokens if expected.full_length else 2
    inputs, outputs = (list(run.result.get(key) or []) for key in ("input_lens", "output_lens"))
    errors = [text for text in run.result.get("errors") or [] if text]
    right = sum(seen == wanted for seen, wanted in zip(inputs, lengths, strict=False))
    whole = sum(shortest <= length <= expected.output_tokens for length in outputs)
    completed, failed = run.result.get("completed"), run.result.get("failed")
    good = (completed, failed, len(inputs), len(outputs), right, whole) == (count, 0, count, count, count, count)
    first = f"; first error: {errors[0][:200]}" if errors else ""
    return valid(
        name,
        good and not errors,
        f"{count} completed, 0 failed, each prompt as long as it is, each answer whole",
        f"{completed} completed, {failed} failed, {right} right lengths of {len(inputs)}, {whole} whole answers{first}",
    )


def _agreement(view: PhaseView, expected: Expected, lengths: Sequence[int]) -> list[Check]:
    """Check that the server's counters moved by what the bench reports, and by its own requests besides."""
    stem, rises, run = view.stem, view.rises, bench_of(view).timed
    own = run.own_requests
    reasons = {name: count for name, count in rises.by_label(SUCCESS, "finished_reason").items() if count}
    finished, sent, extra = sum(reasons.values()), _number(run, "completed"), f" and {own} of its own" if own else ""
    requests = valid(
        f"{stem}.bench_requests",
        finished == sent + own and set(reasons) <= {"stop", "length"},
        f"{sent} that the bench completed{extra}",
        f"{tokens(finished)} that the server finished ({', '.join(reasons) or 'none'})",
    )
    before, after = parse_snapshot(view.phase.metrics_before), parse_snapshot(view.phase.metrics_after)
    generated = difference(before, after, (GENERATED_TOKENS,)).total(GENERATED_TOKENS)
    # A request of the bench's own is its first prompt once more; how long its answer was, only a fixed length says.
    sums = {
        "bench_prompt_tokens": ("total_input_tokens", own * sum(lengths[:1]), rises.total(PROMPT_TOKENS)),
        "bench_output_tokens": ("total_output_tokens", own * expected.output_tokens, generated),
    }
    if not expected.full_length:  # one output token takes no draft, and the bench then says nothing of drafts
        sums |= {
            f"bench_{key.removeprefix('spec_decode_')}": (key, 0, rises.total(name)) for key, name in DRAFTED.items()
        }
    return [requests, *(_judge_sum(f"{stem}.{name}", run, *parts) for name, parts in sums.items())]


def _judge_sum(name: str, run: BenchRun, key: str, more: int, counted: int) -> Check:
    said, extra = _number(run, key), f" and {tokens(more)} of its own" if more else ""
    return valid(
        name,
        said >= 0 and counted == said + more,
        f"{tokens(said)} that the bench sums up{extra}" if said >= 0 else f"a number for {key}",
        f"{tokens(counted)} that the server counted",
    )


def _number(run: BenchRun, key: str) -> int:
    """Return a count that the bench reports; one that is missing equals no counter."""
    found = run.result.get(key)
    return found if isinstance(found, int) else -1


def judge_bench_pair(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Check that both variants were the same server and were sent the same, and that the path was the phase's."""
    said = [told(bench_of(view).timed) for view in (baseline, candidate)]
    hits = [view.rises.total(HITS) for view in (baseline, candidate)]
    stem, seen = f"{baseline.name}.pair", f"{tokens(hits[0])} in the baseline, {tokens(hits[1])} in the candidate"
    path = (
        valid(f"{stem}.cold_path", not any(hits), "0 cached tokens in both variants", seen)
        if baseline.name == COLD_PHASE
        else valid(f"{stem}.hit_path", any(hits), "cached tokens in at least one variant", seen)
    )
    same = said[0] == said[1]
    return [
        same_config(baseline, candidate),
        valid(f"{stem}.same_work", same, "one bench command", "one" if same else "two"),
        path,
    ]


def told(run: BenchRun, own: frozenset[str] = OWN) -> list[str]:
    """Return a bench's command without the values of ``own``, which name its very server and folder."""
    named = {index + 1 for index, part in enumerate(run.command) if part in own}
    return [part for index, part in enumerate(run.command) if index not in named]

"""Was the run worth judging? Whatever fails here says nothing about the option, so it is invalid."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dropgate.evidence import Evidence, PhaseEvidence, RequestRecord
from dropgate.judge.verdict import Check, Verdict, passes, tokens
from dropgate.judge.view import PhaseView
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.metrics import PREEMPTIONS, PROMPT_TOKENS_BY_SOURCE, SUCCESS
from dropgate.scenario import PrefixRepetition

SIZED_BY_MEMORY = (
    "num_gpu_blocks",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
)
"""Configuration that may differ between two boots of one command line."""

COMMIT = re.compile("[0-9a-f]{7,40}")
"""Fewer digits name nothing."""


def valid(name: str, good: bool, expected: str, seen: str) -> Check:
    """Return a check that is invalid, never failed, when it does not hold."""
    return passes(name, good, expected, seen, otherwise=Verdict.INVALID)


def judge_run(evidence: Evidence) -> list[Check]:
    """Check that the run was whole and both variants were the engine that was described."""
    checks = [valid("run.whole", not evidence.errors, "no errors", "; ".join(evidence.errors) or "no errors")]
    reported = {name: seen.server.reported_version for name, seen in evidence.variants.items()}
    expected = evidence.engine.version.partition("+")[0]
    same = set(reported) == set(VARIANT_NAMES) and all(
        (version or "").partition("+")[0] == expected for version in reported.values()
    )
    shown = ", ".join(f"{name}: {version or 'unknown'}" for name, version in reported.items()) or "no server answered"
    checks.append(valid("engine.version", same, f"{expected} from both servers", shown))
    if asked := evidence.engine.asked_commit:
        seen = evidence.engine.commit
        checks.append(valid("engine.commit", same_commit(asked, seen), asked, seen or "unknown"))
    return checks


def same_commit(asked: str, seen: str | None) -> bool:
    """Compare two names of a commit, either of which may be cut short; a changed checkout is no commit."""
    shorter, longer = sorted((asked.lower(), (seen or "").lower()), key=len)
    return bool(COMMIT.fullmatch(shorter) and COMMIT.fullmatch(longer)) and longer.startswith(shorter)


def judge_protocol(variant: VariantName, phase: PhaseEvidence, work: PrefixRepetition) -> list[Check]:
    """Check that the cache was emptied, then populated as the protocol says, and that every request came back."""
    populated = [record for record in phase.populate if record.ok]
    cold = [record.cached_tokens for record in phase.populate]
    return [
        valid(
            f"prefix.{variant}.reset",
            phase.reset_ok,
            "prefix cache reset",
            "reset" if phase.reset_ok else "refused",
        ),
        valid(
            f"prefix.{variant}.populated",
            len(populated) == len(phase.populate) == work.prefixes,
            f"{work.prefixes} populating request(s) answered",
            f"{len(populated)} answered of {len(phase.populate)} sent" + first_error(phase.populate),
        ),
        valid(
            f"prefix.{variant}.populated_cold",
            bool(cold) and all(count == 0 for count in cold),
            "0 cached tokens in each populating request",
            ", ".join("unknown" if count is None else tokens(count) for count in cold) or "no populating request",
        ),
        _complete(variant, phase, work),
    ]


def _complete(variant: VariantName, phase: PhaseEvidence, work: PrefixRepetition) -> Check:
    whole = [record for record in phase.requests if _is_whole(record, work)]
    odd = [record for record in phase.requests if record.ok and not _is_whole(record, work)]
    seen = f"{len(whole)} whole answers of {len(phase.requests)} sent" + first_error(phase.requests)
    if odd:
        seen += f"; request #{odd[0].index} answered, but not for the prompt that was sent or not at full length"
    return valid(
        f"prefix.{variant}.requests_complete",
        len(whole) == len(phase.requests) == work.requests,
        f"{work.requests} whole answers",
        seen,
    )


def _is_whole(record: RequestRecord, work: PrefixRepetition) -> bool:
    return (
        record.ok
        and record.prompt_tokens == record.prompt_tokens_sent == work.prefix_tokens + work.suffix_tokens
        and record.prompt_echo_matches is True
        and record.cached_tokens is not None
        and len(record.token_ids) == work.output_tokens
    )


def first_error(records: Iterable[RequestRecord]) -> str:
    """Return '; first error: ...' for the first record that has one."""
    for record in records:
        if record.error is not None:
            return f"; first error: request #{record.index}: {record.error}"
    return ""


def judge_engine_state(view: PhaseView) -> list[Check]:
    """Check that caching was on and nothing else interfered with the counts."""
    stem, caching = f"prefix.{view.variant}", view.config.get("enable_prefix_caching", "missing")
    reasons = view.rises.by_label(SUCCESS, "finished_reason")
    whole = {reason: count for reason, count in reasons.items() if count}
    preempted = view.rises.total(PREEMPTIONS)
    external = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="external_kv_transfer")
    count = len(view.phase.requests)
    return [
        valid(f"{stem}.prefix_caching", caching == "True", "enable_prefix_caching=True", caching),
        valid(f"{stem}.no_preemption", preempted == 0, "0 preemptions", tokens(preempted)),
        valid(f"{stem}.no_external_cache", external == 0, "0 tokens from elsewhere", tokens(external)),
        valid(
            f"{stem}.no_other_traffic",
            sum(whole.values()) == count and set(whole) <= {"stop", "length"},
            f"{count} requests finished by stop or length",
            ", ".join(f"{reason}: {number}" for reason, number in whole.items()) or "none finished",
        ),
    ]


def judge_pair(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Check that the variants are the same server but for the option, and that the hit path was taken at all."""
    same_work = [record.prompt_sha256 for record in baseline.phase.requests] == [
        record.prompt_sha256 for record in candidate.phase.requests
    ]
    hits = [sum(record.cached_tokens or 0 for record in view.phase.requests) for view in (baseline, candidate)]
    return [
        same_config(baseline, candidate),
        valid(
            "pair.same_work",
            same_work,
            "the same prompts in the same order",
            "the same" if same_work else "others",
        ),
        valid(
            "pair.hit_path",
            any(hits),
            "cached tokens in at least one variant",
            f"{tokens(hits[0])} in the baseline, {tokens(hits[1])} in the candidate",
        ),
    ]


def same_config(baseline: PhaseView, candidate: PhaseView) -> Check:
    """Check that both servers resolved the same cache configuration."""
    different = sorted(
        key
        for key in baseline.config.keys() | candidate.config.keys()
        if key not in SIZED_BY_MEMORY and baseline.config.get(key) != candidate.config.get(key)
    )
    return valid(
        "pair.same_config",
        not different,
        "one resolved cache configuration",
        ", ".join(different) or "one",
    )

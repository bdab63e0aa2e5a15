"""Was the run worth judging? Whatever fails here says nothing about the option, so it is invalid."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from dropgate.evidence import COLD_PHASE, HIT_PHASE, EngineFacts, Evidence, PhaseEvidence, RequestRecord
from dropgate.judge.verdict import Check, tokens, valid
from dropgate.judge.view import PhaseView
from dropgate.metrics import PREEMPTIONS, PROMPT_TOKENS_BY_SOURCE, SUCCESS
from dropgate.scenario.workloads import Driver, Workloads
from dropgate.variants import server_names

SIZED_BY_MEMORY = (
    "num_gpu_blocks",
    "kv_cache_size_tokens",
    "kv_cache_max_concurrency",
    "kv_cache_memory_bytes",
)
"""Configuration that may differ between two boots of one command line."""

COMMIT = re.compile("[0-9a-f]{7,40}")
"""Fewer digits name nothing."""


def judge_run(evidence: Evidence) -> list[Check]:
    """Check that the run was whole and both variants were the engine that was described."""
    checks = [valid("run.whole", not evidence.errors, "no errors", "; ".join(evidence.errors) or "no errors")]
    reported = {name: seen.server.reported_version for name, seen in evidence.variants.items()}
    expected = evidence.engine.version.partition("+")[0]
    same = set(reported) == set(server_names(evidence.scenario)) and all(
        (version or "").partition("+")[0] == expected for version in reported.values()
    )
    shown = ", ".join(f"{name}: {version or 'unknown'}" for name, version in reported.items()) or "no server answered"
    checks.append(valid("engine.version", same, f"{expected} from every server", shown))
    return checks + judge_commit(evidence.engine)


def judge_commit(engine: EngineFacts) -> list[Check]:
    """Check that the engine is of the commit that was asked for; no check where none was."""
    if not (asked := engine.asked_commit):
        return []
    return [valid("engine.commit", same_commit(asked, engine.commit), asked, engine.commit or "unknown")]


def same_commit(asked: str, seen: str | None) -> bool:
    """Compare two names of a commit, either of which may be cut short; a changed checkout is no commit."""
    shorter, longer = sorted((asked.lower(), (seen or "").lower()), key=len)
    return bool(COMMIT.fullmatch(shorter) and COMMIT.fullmatch(longer)) and longer.startswith(shorter)


@dataclass(frozen=True)
class Expected:
    """What the scenario says a phase holds."""

    name: str
    requests: int
    populated: int
    output_tokens: int
    full_length: bool
    """Whether every answer has all its output tokens; else the end token may end it."""
    prompt_tokens: int | None = None
    """Where all prompts have one length."""
    driver: Driver = "client"


def expected_phases(workloads: Workloads) -> list[Expected]:
    """Return the phases that a scenario's workloads make, in order."""
    phases = []
    if prefix := workloads.prefix:
        length = prefix.prefix_tokens + prefix.suffix_tokens
        sizes = (prefix.requests, prefix.prefixes, prefix.output_tokens)
        phases.append(Expected("prefix", *sizes, True, length, prefix.driver))
    if gsm8k := workloads.gsm8k:
        drivers: dict[str, Driver] = {COLD_PHASE: gsm8k.driver, HIT_PHASE: "client"}
        for name, driver in drivers.items():
            phases.append(Expected(name, gsm8k.questions, 1, gsm8k.output_tokens, False, driver=driver))
    return phases


def judge_reset(stem: str, phase: PhaseEvidence) -> Check:
    """Check that the server emptied its cache."""
    return valid(f"{stem}.reset", phase.reset_ok, "prefix cache reset", "reset" if phase.reset_ok else "refused")


def judge_start(stem: str, phase: PhaseEvidence, expected: Expected) -> list[Check]:
    """Check that the cache was emptied, then populated by the gate's own client as the protocol says."""
    populated = [record for record in phase.populate if record.ok]
    cold = [record.cached_tokens for record in phase.populate]
    return [
        judge_reset(stem, phase),
        valid(
            f"{stem}.populated",
            len(populated) == len(phase.populate) == expected.populated,
            f"{expected.populated} populating request(s) answered",
            f"{len(populated)} answered of {len(phase.populate)} sent" + first_error(phase.populate),
        ),
        valid(
            f"{stem}.populated_cold",
            bool(cold) and all(count == 0 for count in cold),
            "0 cached tokens in each populating request",
            ", ".join("unknown" if count is None else tokens(count) for count in cold) or "no populating request",
        ),
    ]


def judge_protocol(stem: str, phase: PhaseEvidence, expected: Expected) -> list[Check]:
    """Check that a phase began as the protocol says, and that every request came back."""
    return [*judge_start(stem, phase, expected), judge_complete(stem, phase.requests, expected)]


def judge_complete(stem: str, records: list[RequestRecord], expected: Expected) -> Check:
    """Check that every request was sent and answered whole; what is not is counted and the first ones are named."""
    whole = [record for record in records if _is_whole(record, expected)]
    odd = [record.index for record in records if record.ok and not _is_whole(record, expected)]
    seen = f"{len(whole)} whole answers of {len(records)} sent" + first_error(records)
    if odd:
        named = ", ".join(f"#{index}" for index in odd[:5]) + (", ..." if len(odd) > 5 else "")
        seen += f"; {len(odd)} answered with nothing, in part, or another prompt ({named})"
    return valid(
        f"{stem}.requests_complete",
        len(whole) == len(records) == expected.requests,
        f"{expected.requests} whole answers",
        seen,
    )


def _is_whole(record: RequestRecord, expected: Expected) -> bool:
    return (
        record.ok
        and record.prompt_tokens == record.prompt_tokens_sent == (expected.prompt_tokens or record.prompt_tokens_sent)
        and record.prompt_echo_matches is True
        and record.cached_tokens is not None
        and _has_whole_answer(record, expected)
    )


def _has_whole_answer(record: RequestRecord, expected: Expected) -> bool:
    """Tell a whole answer from a cut or an empty one; an end token alone says nothing."""
    length = len(record.token_ids)
    if expected.full_length:
        return length == expected.output_tokens
    if record.finish_reason == "length":
        return length == expected.output_tokens
    return record.finish_reason == "stop" and 1 < length <= expected.output_tokens


def first_error(records: Iterable[RequestRecord]) -> str:
    """Return '; first error: ...' for the first record that has one."""
    for record in records:
        if record.error is not None:
            return f"; first error: request #{record.index}: {record.error}"
    return ""


def judge_engine_state(view: PhaseView) -> list[Check]:
    """Check that caching was on and nothing else interfered with the counts."""
    stem, caching = view.stem, view.config.get("enable_prefix_caching", "missing")
    preempted = view.rises.total(PREEMPTIONS)
    external = view.rises.total(PROMPT_TOKENS_BY_SOURCE, source="external_kv_transfer")
    return [
        valid(f"{stem}.prefix_caching", caching == "True", "enable_prefix_caching=True", caching),
        valid(f"{stem}.no_preemption", preempted == 0, "0 preemptions", tokens(preempted)),
        valid(f"{stem}.no_external_cache", external == 0, "0 tokens from elsewhere", tokens(external)),
    ]


def judge_traffic(view: PhaseView, count: int) -> Check:
    """Check that the server finished the timed requests, ``count`` of them, and no others."""
    reasons = view.rises.by_label(SUCCESS, "finished_reason")
    whole = {reason: number for reason, number in reasons.items() if number}
    return valid(
        f"{view.stem}.no_other_traffic",
        sum(whole.values()) == count and set(whole) <= {"stop", "length"},
        f"{count} requests finished by stop or length",
        ", ".join(f"{reason}: {number}" for reason, number in whole.items()) or "none finished",
    )


def judge_pair(baseline: PhaseView, candidate: PhaseView) -> list[Check]:
    """Check that one phase was the same work on the same server but for the option."""
    same_work = [record.prompt_sha256 for record in baseline.phase.requests] == [
        record.prompt_sha256 for record in candidate.phase.requests
    ]
    stem = f"{baseline.name}.pair"
    return [
        same_config(baseline, candidate),
        valid(
            f"{stem}.same_work", same_work, "the same prompts in the same order", "the same" if same_work else "others"
        ),
        _judge_path(baseline, candidate),
    ]


def same_config(baseline: PhaseView, candidate: PhaseView) -> Check:
    """Check that both servers resolved the same cache configuration."""
    different = sorted(
        key
        for key in baseline.config.keys() | candidate.config.keys()
        if key not in SIZED_BY_MEMORY and baseline.config.get(key) != candidate.config.get(key)
    )
    shown = ", ".join(different) or "one"
    return valid(f"{baseline.name}.pair.same_config", not different, "one resolved cache configuration", shown)


def _judge_path(baseline: PhaseView, candidate: PhaseView) -> Check:
    """Check that hits were made where the phase is about them, and none where it is not."""
    cached = [[record.cached_tokens or 0 for record in view.phase.requests] for view in (baseline, candidate)]
    stem = f"{baseline.name}.pair"
    seen = f"{tokens(sum(cached[0]))} in the baseline, {tokens(sum(cached[1]))} in the candidate"
    if baseline.name == COLD_PHASE:
        return valid(f"{stem}.cold_path", not any(map(any, cached)), "0 cached tokens in both variants", seen)
    if baseline.name == HIT_PHASE:
        missed = [sum(not count for count in side) for side in cached]
        missing = f"{missed[0]} requests without any in the baseline, {missed[1]} in the candidate"
        return valid(f"{stem}.hit_path", not any(missed), "cached tokens in every request of both variants", missing)
    return valid(f"{stem}.hit_path", any(map(any, cached)), "cached tokens in at least one variant", seen)

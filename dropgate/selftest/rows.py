"""What the self-test breaks, where, and what the gate must say of it: one row a fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dropgate.judge.verdict import Verdict
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.selftest.works import WorkName

BASELINE: tuple[VariantName, ...] = ("baseline",)
CANDIDATE: tuple[VariantName, ...] = ("candidate",)
BOTH: tuple[VariantName, ...] = VARIANT_NAMES
FAIL, INVALID = Verdict.FAIL, Verdict.INVALID
REFUSED: Literal["refused"] = "refused"
"""Bad input: exit code 2, nothing is judged."""
Expected = Verdict | Literal["refused"]
Put = Literal["switch", "boot", "harness"]


@dataclass(frozen=True)
class Row:
    """One fault, and what must come of it."""

    fault: str
    kind: str
    variants: tuple[VariantName, ...]
    work: WorkName
    verdict: Expected
    check: str
    """The check that must be among those that did not pass, with that very verdict; or what the refusal says."""
    put: Put = "switch"
    """``switch``: in the long-lived pair. ``boot``: in engines of its own. ``harness``: no engine is broken."""
    sets: tuple[str, ...] = ()
    short: bool = False
    """Part of ``make test``."""


ROWS = (
    Row("option_ignored", "tokens", CANDIDATE, "prefix", FAIL, "prefix.delta.cached_tokens_per_request", short=True),
    Row("default_changed", "tokens", BASELINE, "prefix", FAIL, "prefix.baseline.cached_tokens_per_request"),
    Row("two_units_dropped", "tokens", BASELINE, "prefix", FAIL, "prefix.baseline.cached_tokens_per_request"),
    Row("dropped_on_one_of_160", "tokens", CANDIDATE, "prefix", FAIL, "prefix.candidate.cached_tokens_per_request"),
    Row(
        "dropped_on_exact_multiples", "tokens", CANDIDATE, "prefix", FAIL, "prefix.candidate.cached_tokens_per_request"
    ),
    Row(
        "dropped_on_the_second_prefix",
        "tokens",
        CANDIDATE,
        "prefix",
        FAIL,
        "prefix.candidate.cached_tokens_per_request",
    ),
    Row("dropped_under_concurrency", "tokens", CANDIDATE, "prefix", FAIL, "prefix.candidate.cached_tokens_per_request"),
    Row("caching_silently_off", "tokens", CANDIDATE, "prefix", FAIL, "prefix.candidate.cached_tokens_per_request"),
    Row("stale_after_reset", "cache", CANDIDATE, "prefix", INVALID, "prefix.candidate.populated_cold", short=True),
    Row(
        "target_kv_of_kept_block_corrupted",
        "cache",
        CANDIDATE,
        "answers",
        FAIL,
        "acceptance_hit_path.answers.baseline_candidate",
    ),
    Row("draft_kv_of_kept_block_corrupted", "cache", CANDIDATE, "answers", FAIL, "acceptance_hit_path.non_inferior"),
    Row("hits_counted_but_recomputed", "counters", CANDIDATE, "prefix", FAIL, "prefix.candidate.scheduled_tokens"),
    Row("computed_but_not_counted", "counters", CANDIDATE, "prefix", FAIL, "prefix.candidate.sources_sum_to_total"),
    Row("hits_off_by_one", "counters", CANDIDATE, "prefix", FAIL, "prefix.candidate.requests_sum_to_hits", short=True),
    Row("queries_counted_twice", "counters", CANDIDATE, "prefix", FAIL, "prefix.candidate.queries_are_prompt_tokens"),
    Row("steps_counted_twice", "counters", CANDIDATE, "answers", FAIL, "acceptance.candidate.requests_sum_to_steps"),
    Row("usage_disagrees", "counters", CANDIDATE, "prefix", FAIL, "prefix.candidate.requests_sum_to_source"),
    Row("counter_reset", "series", CANDIDATE, "prefix", INVALID, "prefix.candidate.counters"),
    Row("series_missing", "series", CANDIDATE, "prefix", INVALID, "prefix.candidate.counters", short=True),
    Row("series_renamed", "series", CANDIDATE, "prefix", INVALID, "prefix.candidate.counters"),
    Row("series_negative", "series", CANDIDATE, "prefix", INVALID, "prefix.candidate.counters"),
    Row("draft_input_noisy", "drafts", CANDIDATE, "answers", FAIL, "acceptance.non_inferior", short=True),
    Row("draft_input_noisy", "drafts", BOTH, "answers", FAIL, "acceptance.baseline.band"),
    Row("draft_weights_noisy", "drafts", CANDIDATE, "answers", FAIL, "acceptance.non_inferior", put="boot"),
    Row("drafts_all_rejected", "drafts", CANDIDATE, "answers", FAIL, "acceptance.candidate.drafts_made"),
    Row("drafts_none", "drafts", CANDIDATE, "answers", FAIL, "acceptance.candidate.drafts_made"),
    Row("verifier_accepts_everything", "verifier", CANDIDATE, "answers", FAIL, "acceptance.answers.baseline_candidate"),
    Row("verifier_accepts_everything", "verifier", BOTH, "answers", FAIL, "acceptance.answers.oracle_candidate"),
    Row(
        "verifier_accepts_one_wrong_token_in_1000",
        "verifier",
        CANDIDATE,
        "answers",
        FAIL,
        "acceptance.answers.baseline_candidate",
        short=True,
    ),
    Row(
        "stop_token_leaked", "answers", CANDIDATE, "answers", FAIL, "acceptance.answers.baseline_candidate", short=True
    ),
    Row("answers_replayed", "answers", CANDIDATE, "answers", FAIL, "acceptance_hit_path.answers.baseline_candidate"),
    Row("answers_truncated", "answers", CANDIDATE, "answers", FAIL, "acceptance.answers.baseline_candidate"),
    Row("answers_cut_short", "answers", CANDIDATE, "answers", INVALID, "acceptance.candidate.requests_complete"),
    Row("one_of_160_answers_500", "engine", CANDIDATE, "prefix", INVALID, "prefix.candidate.requests_complete"),
    Row("connection_cut", "engine", CANDIDATE, "prefix", INVALID, "prefix.candidate.requests_complete", short=True),
    Row(
        "hangs_while_healthy",
        "engine",
        CANDIDATE,
        "prefix",
        INVALID,
        "prefix.candidate.requests_complete",
        sets=("workloads.prefix.requests=16", "workloads.prefix.control=2", "deadlines.request=4"),
    ),
    Row("slower_by_5_percent", "times", CANDIDATE, "times", FAIL, "timing.throughput"),
    Row("slower_by_20_percent", "times", CANDIDATE, "times", FAIL, "timing.throughput"),
    Row("twice_as_slow", "times", CANDIDATE, "times", FAIL, "timing.throughput"),
    Row("dies_at_boot", "engine", CANDIDATE, "prefix", INVALID, "run.whole", put="boot"),
    Row("dies_in_the_populating_request", "engine", CANDIDATE, "prefix", INVALID, "run.whole", put="boot"),
    Row("dies_at_request_80", "engine", CANDIDATE, "prefix", INVALID, "run.whole", put="boot"),
    Row("log_disk_full", "disk", CANDIDATE, "prefix", INVALID, "run.whole", put="harness", short=True),
    Row("evidence_disk_full", "disk", CANDIDATE, "prefix", INVALID, "cannot be saved", put="harness"),
    Row("arms_swapped", "harness", BOTH, "prefix", INVALID, "engine.arms", put="harness", short=True),
    Row("data_set_truncated", "harness", BOTH, "answers", INVALID, "the scenario asks", put="harness"),
    Row(
        "last_request_left_out",
        "harness",
        CANDIDATE,
        "prefix",
        INVALID,
        "prefix.candidate.requests_complete",
        "harness",
    ),
    Row("requests_in_another_order", "harness", CANDIDATE, "prefix", INVALID, "prefix.pair.same_work", "harness"),
    Row(
        "populating_request_forgotten", "harness", CANDIDATE, "prefix", INVALID, "prefix.candidate.populated", "harness"
    ),
    Row(
        "cache_warm_from_an_earlier_run",
        "harness",
        CANDIDATE,
        "prefix",
        INVALID,
        "prefix.candidate.populated_cold",
        "harness",
    ),
    Row("clock_jumps_back", "harness", CANDIDATE, "prefix", INVALID, "prefix.candidate.clock", "harness", short=True),
    Row(
        "evidence_edited", "harness", CANDIDATE, "prefix", REFUSED, "its checksum is not that of", "harness", short=True
    ),
    Row(
        "evidence_edited_with_its_checksum",
        "harness",
        CANDIDATE,
        "prefix",
        FAIL,
        "prefix.candidate.requests_sum_to_source",
        "harness",
    ),
)

"""vLLM's Prometheus counters: strict snapshots and strict differences. A missing number is an error, never zero."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

PROMPT_TOKENS = "vllm:prompt_tokens_total"
PROMPT_TOKENS_BY_SOURCE = "vllm:prompt_tokens_by_source_total"
QUERIES = "vllm:prefix_cache_queries_total"
HITS = "vllm:prefix_cache_hits_total"
GENERATED_TOKENS = "vllm:generation_tokens_total"
SUCCESS = "vllm:request_success_total"
PREEMPTIONS = "vllm:num_preemptions_total"
DRAFTS = "vllm:spec_decode_num_drafts_total"
DRAFT_TOKENS = "vllm:spec_decode_num_draft_tokens_total"
ACCEPTED_TOKENS = "vllm:spec_decode_num_accepted_tokens_total"
ACCEPTED_PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
CACHE_CONFIG = "vllm:cache_config_info"
PROCESS_START = "process_start_time_seconds"

SOURCES = frozenset({"local_compute", "local_cache_hit", "external_kv_transfer"})
FINISHED_REASONS = frozenset({"stop", "length", "abort", "error", "repetition"})
KNOWN_LABELS = {
    (PROMPT_TOKENS_BY_SOURCE, "source"): SOURCES,
    (SUCCESS, "finished_reason"): FINISHED_REASONS,
}
COUNTERS = (
    PROMPT_TOKENS,
    PROMPT_TOKENS_BY_SOURCE,
    QUERIES,
    HITS,
    SUCCESS,
    PREEMPTIONS,
    DRAFTS,
    DRAFT_TOKENS,
    ACCEPTED_TOKENS,
    ACCEPTED_PER_POSITION,
)

EXACT = 2**53

Labels = frozenset[tuple[str, str]]
Series = Mapping[Labels, float]


class CounterError(Exception):
    """The counters cannot be trusted; the message names the series."""


@dataclass(frozen=True)
class Snapshot:
    """All series of one /metrics text, by sample name and labels."""

    series: Mapping[str, Series]

    def of(self, name: str) -> Series:
        """Return the series of one sample name.

        Raises:
            CounterError: there is none.

        """
        if not self.series.get(name):
            raise CounterError(f"series {name} is missing")
        return self.series[name]


def parse_snapshot(text: str) -> Snapshot:
    """Parse a /metrics text.

    Raises:
        CounterError: it is not Prometheus text, or a series stands twice.

    """
    series: dict[str, dict[Labels, float]] = {}
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                labels = frozenset(sample.labels.items())
                if labels in series.setdefault(sample.name, {}):
                    raise CounterError(f"series {sample.name} stands twice with the labels {dict(labels)}")
                series[sample.name][labels] = sample.value
    except CounterError:
        raise
    except Exception as error:  # the parser raises many kinds on damaged text
        raise CounterError(f"the metrics text cannot be parsed: {type(error).__name__}: {error}") from None
    return Snapshot(series)


@dataclass(frozen=True)
class Difference:
    """By how much each counter rose between two snapshots of one process."""

    rises: Mapping[str, Mapping[Labels, int]]

    def total(self, name: str, **labels: str) -> int:
        """Sum the rises of ``name`` over all engines and all labels that are not named.

        Raises:
            CounterError: no such series.

        """
        wanted = set(labels.items())
        matching = [rise for found, rise in self.rises.get(name, {}).items() if wanted <= found]
        if not matching:
            raise CounterError(f"series {name}{labels or ''} is missing")
        return sum(matching)

    def by_label(self, name: str, label: str) -> dict[str, int]:
        """Sum the rises of ``name`` for each value of ``label``."""
        sums: dict[str, int] = {}
        for found, rise in self.rises.get(name, {}).items():
            value = dict(found).get(label, "")
            sums[value] = sums.get(value, 0) + rise
        return sums


def difference(before: Snapshot, after: Snapshot, names: Iterable[str] = COUNTERS) -> Difference:
    """Subtract two snapshots, strictly.

    Raises:
        CounterError: a series is missing, appeared, vanished, went down, is no whole number or has an unknown label,
            or the two snapshots are not of one process.

    """
    if before.of(PROCESS_START) != after.of(PROCESS_START):
        raise CounterError(f"{PROCESS_START} changed: the server was restarted between the snapshots")
    return Difference({name: _rises(name, before.of(name), after.of(name)) for name in names})


def _rises(name: str, before: Series, after: Series) -> dict[Labels, int]:
    if before.keys() != after.keys():
        changed = [dict(labels) for labels in before.keys() ^ after.keys()]
        raise CounterError(f"series {name} appeared or vanished between the snapshots: {changed}")
    return {labels: _rise(name, labels, before[labels], after[labels]) for labels in after}


def _rise(name: str, labels: Labels, before: float, after: float) -> int:
    for label, value in labels:
        known = KNOWN_LABELS.get((name, label))
        if known is not None and value not in known:
            raise CounterError(f"series {name} has the unknown label {label}={value!r}")
    if not (_is_whole(before) and _is_whole(after) and before >= 0):
        raise CounterError(f"series {name} is no whole number: {before!r} before, {after!r} after")
    if after < before:
        raise CounterError(f"series {name} went down from {before:.0f} to {after:.0f}: it was reset")
    return int(after - before)


def _is_whole(value: float) -> bool:
    """Tell a whole number: counters are doubles, not exact from 2**53 on. What has no point was parsed as an int."""
    return abs(value) <= EXACT and float(value).is_integer()


def cache_config(snapshot: Snapshot) -> dict[str, str]:
    """Return the engine's resolved cache configuration, as the labels of ``vllm:cache_config_info``.

    Raises:
        CounterError: the series is missing or not 1, or engines of one server differ in it.

    """
    if odd := [value for value in snapshot.of(CACHE_CONFIG).values() if value != 1]:
        raise CounterError(f"series {CACHE_CONFIG} is {odd[0]!r}, not 1: what its labels say does not hold")
    per_engine = [{name: value for name, value in labels if name != "engine"} for labels in snapshot.of(CACHE_CONFIG)]
    if any(config != per_engine[0] for config in per_engine):
        raise CounterError(f"series {CACHE_CONFIG} differs between the engines of one server")
    return per_engine[0]


def resolved_unit(config: Mapping[str, str]) -> int:
    """Return the drop unit U in tokens, from what the engine resolved (never from a flag).

    A stated alignment of hits comes first, then a fine-grained match unit, then the larger of the attention block
    and, where Mamba states are cached at block boundaries, the Mamba block.

    Raises:
        CounterError: the configuration names no unit.

    """
    for label in ("cache_hit_alignment_tokens", "prefix_match_unit"):
        if config.get(label, "None") != "None":
            return _whole(label, config[label])
    unit = _whole("block_size", config.get("block_size", "None"))
    if config.get("mamba_cache_mode") == "align" and config.get("mamba_block_size", "None") != "None":
        return max(unit, _whole("mamba_block_size", config["mamba_block_size"]))
    return unit


def _whole(label: str, value: str) -> int:
    if not value.isdecimal() or int(value) == 0:
        raise CounterError(f"{CACHE_CONFIG}: {label}={value!r} is no number of tokens")
    return int(value)

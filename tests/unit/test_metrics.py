"""Counters: a missing, reset, unknown or broken number is an error that names its series."""

from dataclasses import replace

import pytest

from dropgate.metrics import (
    COUNTERS,
    HITS,
    PROMPT_TOKENS_BY_SOURCE,
    SUCCESS,
    CounterError,
    cache_config,
    difference,
    parse_snapshot,
    resolved_unit,
)
from tests.support.factory import Counters

BEFORE = Counters(prompt=10, computed=10, queries=10, length=1)
AFTER = replace(BEFORE, prompt=30, computed=18, hit=12, queries=30, hits=12, length=2)


def rises(before: str, after: str):
    return difference(parse_snapshot(before), parse_snapshot(after))


def test_rises_are_summed_over_labels_and_engines() -> None:
    second = AFTER.text() + 'vllm:prefix_cache_hits_total{engine="1",model_name="m"} 5.0\n'
    first = BEFORE.text() + 'vllm:prefix_cache_hits_total{engine="1",model_name="m"} 1.0\n'
    seen = rises(first, second)
    assert seen.total(HITS) == 16
    assert seen.total(HITS, engine="1") == 4
    assert seen.by_label(PROMPT_TOKENS_BY_SOURCE, "source") == {
        "local_compute": 8,
        "local_cache_hit": 12,
        "external_kv_transfer": 0,
    }


@pytest.mark.parametrize("name", COUNTERS)
def test_a_missing_series_is_an_error_that_names_it(name: str) -> None:
    kept = "\n".join(line for line in AFTER.text().splitlines() if not line.startswith(name + "{")) + "\n"
    with pytest.raises(CounterError, match=name):
        rises(BEFORE.text(), kept)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('source="local_compute"} 18.0', 'source="local_compute"} 9.0', "went down from 10 to 9"),
        ('source="local_compute"} 18.0', 'source="local_compute"} 18.5', "no whole number"),
        ('source="local_compute"} 18.0', 'source="local_compute"} NaN', "no whole number"),
        ('source="local_compute"} 18.0', 'source="local_compute"} -18.0', "went down"),
        ('source="local_compute"', 'source="computed"', "appeared or vanished"),
        ("process_start_time_seconds 1000.5", "process_start_time_seconds 1001.5", "restarted"),
    ],
)
def test_a_broken_series_is_an_error(old: str, new: str, message: str) -> None:
    assert old in AFTER.text()
    with pytest.raises(CounterError, match=message):
        rises(BEFORE.text(), AFTER.text().replace(old, new))


def test_an_unknown_label_is_an_error() -> None:
    texts = [
        counters.text().replace('finished_reason="stop"', 'finished_reason="magic"') for counters in (BEFORE, AFTER)
    ]
    with pytest.raises(CounterError, match=f"{SUCCESS} has the unknown label finished_reason='magic'"):
        rises(*texts)


@pytest.mark.parametrize("text", ["", "no metrics {", 'a{b="c} 1\n', "a 1\na 2\n"])
def test_text_that_is_no_snapshot_is_an_error(text: str) -> None:
    with pytest.raises(CounterError):
        rises(text, text)


@pytest.mark.parametrize(
    ("labels", "unit"),
    [
        ({"block_size": "1536"}, 1536),
        ({"block_size": "16", "prefix_match_unit": "None", "cache_hit_alignment_tokens": "None"}, 16),
        ({"block_size": "16", "mamba_cache_mode": "align", "mamba_block_size": "1536"}, 1536),
        ({"block_size": "16", "mamba_cache_mode": "none", "mamba_block_size": "1536"}, 16),
        ({"block_size": "1536", "prefix_match_unit": "128"}, 128),
        ({"block_size": "1536", "cache_hit_alignment_tokens": "64", "prefix_match_unit": "128"}, 64),
    ],
)
def test_the_unit_is_what_the_engine_resolved(labels: dict[str, str], unit: int) -> None:
    assert resolved_unit(labels) == unit


@pytest.mark.parametrize("labels", [{}, {"block_size": "None"}, {"block_size": "0"}, {"block_size": "-16"}])
def test_no_unit_is_an_error(labels: dict[str, str]) -> None:
    with pytest.raises(CounterError):
        resolved_unit(labels)


def test_engines_that_differ_are_an_error() -> None:
    other = 'vllm:cache_config_info{block_size="16",engine="1"} 1.0\n'
    with pytest.raises(CounterError, match="differs between the engines"):
        cache_config(parse_snapshot(BEFORE.text() + other))

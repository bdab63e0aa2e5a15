"""Where a series of runs changes its level, and what a dashboard reads of the newest runs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from dropgate.errors import InputError
from dropgate.history.store import Run
from dropgate.law import VARIANT_NAMES, VariantName

SHOWN = {
    "cached_tokens_per_request": "cached tokens per request",
    "request_throughput": "request throughput, req/s",
    "ttft_ms.mean": "mean TTFT, ms",
    "acceptance.rate": "acceptance rate, cold",
    "acceptance_hit_path.rate": "acceptance rate, hit path",
    "accuracy.strict": "right answers, strict match",
}
EXACT = {"cached_tokens_per_request"}
"""Promised to the token: any other value is a change, however few the runs."""
SEGMENT = 3
"""Fewest runs of one level: a single odd run is no change."""
PENALTY = 6
"""Of drawn series of noise s alone, 4 % (10 runs) and 0.7 % (40 runs) show a change; of those with a rise of 4 s in the
middle, 92 % and all."""
VERDICTS = ("pass", "fail", "invalid")


@dataclass(frozen=True)
class Trend:
    """One measure of both variants over the runs of one scenario on one machine."""

    name: str
    title: str
    runs: list[Run]
    values: dict[VariantName, list[float]]
    changes: dict[VariantName, list[int]]
    """By variant: the places in ``runs`` at which a new level begins."""


def grouped(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """Return the runs by scenario and machine: only those may be compared."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault(run.key, []).append(run)
    return groups


def trends(runs: Sequence[Run]) -> list[Trend]:
    """Return the trend of each measure that is shown; runs that are invalid, or lack it, are left out of it."""
    found = []
    for name, title in SHOWN.items():
        keys = [(variant, name) for variant in VARIANT_NAMES]
        whole = [run for run in runs if run.verdict != "invalid" and all(key in run.measures for key in keys)]
        if whole:
            values = {variant: [run.measures[variant, name] for run in whole] for variant in VARIANT_NAMES}
            changes = {variant: change_points(values[variant], name in EXACT) for variant in VARIANT_NAMES}
            found.append(Trend(name, title, whole, values, changes))
    return found


def change_points(values: Sequence[float], exact: bool = False) -> list[int]:
    """Return the places at which the level changes.

    PELT (Killick, Fearnhead and Eckley 2012) with a squared-error cost and the penalty 6 s^2 log n, at least three
    runs a level. s is the noise as the differences of neighbours show it: their median absolute value over
    0.6745 sqrt(2), so that the changes themselves do not raise it. An ``exact`` series, or one without noise,
    changes wherever it is not equal.
    """
    series = np.asarray(values, dtype=float)
    steps = np.abs(np.diff(series))
    if not steps.any():
        return []
    noise = float(np.median(steps)) / (0.6745 * math.sqrt(2))
    if exact or not noise:
        return [place for place, (one, other) in enumerate(itertools.pairwise(series), 1) if one != other]
    if len(series) < 2 * SEGMENT:
        return []
    from ruptures import Pelt  # a second to import

    search = Pelt(model="l2", min_size=SEGMENT, jump=1).fit(series.reshape(-1, 1))
    return [int(place) for place in search.predict(pen=PENALTY * noise**2 * math.log(len(series)))[:-1]]


def write_textfile(path: Path, runs: Sequence[Run]) -> None:
    """Write the newest run of each scenario and machine as a Prometheus text file, for node_exporter's collector.

    Raises:
        InputError: the file cannot be written.

    """
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    labels = ("scenario", "hardware")
    verdict = Gauge("dropgate_verdict", "1 for the newest run's verdict", (*labels, "verdict"), registry=registry)
    made = Gauge("dropgate_run_timestamp_seconds", "When the newest run was made", labels, registry=registry)
    engine = Gauge("dropgate_engine_info", "The newest run's engine", (*labels, "commit", "version"), registry=registry)
    value = Gauge("dropgate_measure", "A measure of the newest run", (*labels, "variant", "name"), registry=registry)
    for key, group in grouped(runs).items():
        newest = group[-1]
        for name in VERDICTS:
            verdict.labels(*key, name).set(name == newest.verdict)
        made.labels(*key).set(datetime.fromisoformat(newest.created).timestamp())
        engine.labels(*key, newest.engine, newest.engine_version).set(1)
        for (variant, name), number in newest.measures.items():
            value.labels(*key, variant, name).set(number)
    try:
        write_to_textfile(str(path), registry)
    except OSError as error:
        raise InputError(f"--prom {path}: cannot be written: {error.strerror}") from None

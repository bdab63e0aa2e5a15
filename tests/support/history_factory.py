"""Runs of a history, with a change of level in the middle."""

from __future__ import annotations

from dropgate.history.store import Run

COUNT = 24
CHANGE = 14


def series(count: int = COUNT, change: int = CHANGE, hardware: str = "a processor, 2 cores, 24 GiB") -> list[Run]:
    """Return runs whose times rise by half and whose cached tokens fall by one unit at ``change``."""
    runs = []
    for place in range(count):
        late = place >= change
        wobble = 1 + 0.01 * ((place * 7) % 5 - 2)
        measures = {
            ("baseline", "cached_tokens_per_request"): 10752.0,
            ("candidate", "cached_tokens_per_request"): 10752.0 if late else 12288.0,
            ("baseline", "ttft_ms.mean"): 4000 * wobble,
            ("candidate", "ttft_ms.mean"): (1500 if late else 1000) * wobble,
        }
        runs.append(
            Run(
                id=place,
                created=f"2026-11-{place + 1:02d}T00:00:00+00:00",
                scenario="tiny_eagle3_cpu",
                hardware=hardware,
                engine=f"{place:040x}",
                engine_version="0.32.0",
                verdict="fail" if late else "pass",
                checks_passed=48 if late else 49,
                checks=49,
                folder=f"runs/{place}",
                measures=measures,
            )
        )
    return runs

"""The engine core's own statistics, summed over the steps of a phase."""

from __future__ import annotations

from typing import Any

from dropgate.replay.result import CountersSeen


class Tally:
    """Adds up `SchedulerStats` objects, each of which covers the time since the one before."""

    def __init__(self) -> None:
        self._sums: dict[str, int] = {}
        self._per_position: list[int] = []

    def add(self, stats: Any) -> None:
        """Take in the stats of one step; none when the engine core sent none."""
        if stats is None:
            return
        prefix = stats.prefix_cache_stats
        self._add("prefix_cache_requests", prefix.requests)
        self._add("prefix_cache_queries", prefix.queries)
        self._add("prefix_cache_hits", prefix.hits)
        self._add("preempted_requests", prefix.preempted_requests)
        self._add("preempted_queries", prefix.preempted_queries)
        self._add("preempted_hits", prefix.preempted_hits)
        if (drafting := stats.spec_decoding_stats) is not None:
            self._add("drafts", drafting.num_drafts)
            self._add("draft_tokens", drafting.num_draft_tokens)
            self._add("accepted_tokens", drafting.num_accepted_tokens)
            self._add_positions(drafting.num_accepted_tokens_per_pos)

    def counters(self) -> CountersSeen:
        """Return the sums so far."""
        return CountersSeen(**self._sums, accepted_per_position=tuple(self._per_position))

    def _add(self, name: str, value: int) -> None:
        self._sums[name] = self._sums.get(name, 0) + value

    def _add_positions(self, accepted: list[int]) -> None:
        missing = len(accepted) - len(self._per_position)
        self._per_position += [0] * missing
        self._per_position = [a + b for a, b in zip(self._per_position, accepted, strict=True)]

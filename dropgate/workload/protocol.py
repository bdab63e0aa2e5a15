"""Scenario A's protocol on one server: reset, populate, counters, timed requests, counters."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from dropgate import metrics
from dropgate.evidence import PhaseEvidence, RequestRecord
from dropgate.scenario import PrefixRepetition
from dropgate.workload.client import Target, send_all
from dropgate.workload.prompts import Prompt, prefix_prompts

SETTLE_POLL_S = 0.1


class ServesPrefixes(Protocol):
    """What the protocol needs of a server."""

    def metrics_text(self) -> str:
        """Return the text of /metrics."""

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache."""


def run_prefix(
    server: ServesPrefixes,
    target: Target,
    work: PrefixRepetition,
    settle_s: float,
    control: int = 0,
    on_done: Callable[[], None] = lambda: None,
) -> PhaseEvidence:
    """Run the protocol once; ``on_done`` is called after each timed request.

    Behind the second capture of the counters, the first ``control`` timed prompts are answered again, each alone and
    with a cold cache: what differs there is the engine's own noise.
    """
    prompts = prefix_prompts(work)
    reset_ok = server.reset_prefix_cache()
    populate = send_all(target, prompts.populate if work.populate else [], work.output_tokens, 1)
    before = settled_metrics(server, settle_s)
    started_s = target.clock()
    timed = send_all(target, prompts.timed, work.output_tokens, work.concurrency, on_done)
    finished_s = target.clock()
    after = settled_metrics(server, settle_s)
    again = [answer_cold(server, target, work, prompt, index) for index, prompt in enumerate(prompts.timed[:control])]
    return PhaseEvidence(
        reset_ok=reset_ok,
        populate=populate,
        requests=timed,
        control=again,
        metrics_before=before,
        metrics_after=after,
        started_s=started_s,
        finished_s=finished_s,
    )


def answer_cold(
    server: ServesPrefixes, target: Target, work: PrefixRepetition, prompt: Prompt, index: int
) -> RequestRecord:
    """Answer one timed prompt again with an empty cache; the record keeps the timed request's index."""
    server.reset_prefix_cache()
    (record,) = send_all(target, [replace(prompt, shared_tokens=0)], work.output_tokens, 1)
    return record.model_copy(update={"index": index})


def settled_metrics(server: ServesPrefixes, settle_s: float) -> str:
    """Return /metrics once two readings in a row agree on every judged counter.

    The engine answers a request before it counts it, so one reading right after the last answer can be short. When
    they never agree within ``settle_s`` seconds, the last reading is returned and the judge sees what it lacks.
    """
    deadline = time.monotonic() + settle_s
    text = server.metrics_text()
    while time.monotonic() < deadline:
        time.sleep(SETTLE_POLL_S)
        previous, text = text, server.metrics_text()
        if _judged_lines(previous) == _judged_lines(text):
            break
    return text


def _judged_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(metrics.COUNTERS)]

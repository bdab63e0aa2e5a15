"""One phase on one server: reset, populate, counters, timed requests, counters, control."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from dropgate import metrics
from dropgate.evidence import EngineStep, PhaseEvidence, RequestRecord
from dropgate.scenario.workloads import PrefixRepetition
from dropgate.workload.client import Sampling, Target, send_all
from dropgate.workload.prompts import Prompt, prefix_prompts

SETTLE_POLL_S = 0.1


class ServesPrefixes(Protocol):
    """What the protocol needs of a server."""

    def metrics_text(self) -> str:
        """Return the text of /metrics."""

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache."""

    def log_size(self) -> int:
        """Return how long the server's log is, in bytes."""

    def steps_since(self, _position: int, /) -> list[tuple[int, int, int, int]] | None:
        """Return the steps that the log has behind a position; ``None`` where the engine does not tell."""


@dataclass(frozen=True)
class Plan:
    """What one phase sends to one server."""

    populate: list[Prompt]
    """Untimed, before the counters are captured, one after the other."""
    timed: list[Prompt]
    concurrency: int
    sampling: Sampling
    control: int = 0
    """The first so many timed prompts are answered again, each alone and with a cold cache."""
    warm_control: int = 0
    """The first so many timed prompts are answered again as they were."""

    @property
    def requests(self) -> int:
        """All requests but the populating ones."""
        return len(self.timed) + self.control + self.warm_control


def prefix_plan(work: PrefixRepetition, control: bool) -> Plan:
    """Return scenario A's phase; only the baseline answers the control."""
    prompts = prefix_prompts(work)
    return Plan(
        populate=prompts.populate if work.populate else [],
        timed=prompts.timed,
        concurrency=work.concurrency,
        sampling=Sampling(work.output_tokens, ignore_eos=True),
        control=min(work.control, work.requests) if control else 0,
    )


def run_phase(
    server: ServesPrefixes,
    target: Target,
    plan: Plan,
    settle_s: float,
    on_done: Callable[[], None] = lambda: None,
) -> PhaseEvidence:
    """Run the protocol once; ``on_done`` is called after each request.

    The control comes behind the second capture of the counters: what differs there is the engine's own noise.
    """
    reset_ok = server.reset_prefix_cache()
    populate = send_all(target, plan.populate, plan.sampling, 1)
    before = settled_metrics(server, settle_s)
    position = server.log_size()
    started_s = target.clock()
    timed = send_all(target, plan.timed, plan.sampling, plan.concurrency, on_done)
    finished_s = target.clock()
    after = settled_metrics(server, settle_s)
    steps = server.steps_since(position)
    warm = send_all(target, plan.timed[: plan.warm_control], plan.sampling, plan.concurrency, on_done)
    cold = []
    for index, prompt in enumerate(plan.timed[: plan.control]):
        cold.append(answer_cold(server, target, plan.sampling, prompt, index))
        on_done()
    return PhaseEvidence(
        reset_ok=reset_ok,
        populate=populate,
        requests=timed,
        control=cold,
        warm_control=warm,
        engine_steps=None if steps is None else [_step(*step) for step in steps],
        metrics_before=before,
        metrics_after=after,
        started_s=started_s,
        finished_s=finished_s,
    )


def _step(prefill_requests: int, prefill_tokens: int, decode_requests: int, decode_tokens: int) -> EngineStep:
    return EngineStep(
        prefill_requests=prefill_requests,
        prefill_tokens=prefill_tokens,
        decode_requests=decode_requests,
        decode_tokens=decode_tokens,
    )


def answer_cold(
    server: ServesPrefixes, target: Target, sampling: Sampling, prompt: Prompt, index: int
) -> RequestRecord:
    """Answer one timed prompt again with an empty cache; the record keeps the timed request's index."""
    server.reset_prefix_cache()
    (record,) = send_all(target, [replace(prompt, shared_tokens=0)], sampling, 1)
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

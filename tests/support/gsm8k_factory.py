"""Scenario B's evidence as healthy engines would leave it; tests change one thing and watch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import numpy as np

from dropgate.evidence import (
    AccuracyEvidence,
    Evidence,
    LmEvalSample,
    PhaseEvidence,
    QuestionSet,
    ReferenceRates,
    RequestRecord,
    VariantEvidence,
)
from dropgate.law import VARIANT_NAMES, ServerName, expected_hit
from dropgate.scenario import Scenario, load_scenario
from tests.support import factory
from tests.support.factory import Counters

COUNT = 60
UNIT = 128
PREFIX = 2048
LENGTH = 100
K = 7
SIZES = (
    f"workloads.gsm8k.questions={COUNT}",
    "workloads.gsm8k.control=4",
    "workloads.gsm8k.warm_control=8",
    "workloads.gsm8k.oracle=5",
    f"workloads.gsm8k.accuracy.problems={COUNT}",
    "promises=[{kind: acceptance, path: cold, margin_pp: 3.0}, {kind: acceptance, path: hit, margin_pp: 3.0}, "
    "{kind: hit_path_law}, {kind: acceptance_band, path: cold, tolerance_pp: 2.0, reference: tiny_eagle3_cpu_gsm8k}, "
    "{kind: acceptance_band, path: hit, tolerance_pp: 2.0, reference: tiny_eagle3_cpu_gsm8k}, "
    "{kind: same_answers}, "
    "{kind: accuracy, margin_pp: 5.0, at_least: 0.9}]",
)


def scenario() -> Scenario:
    return load_scenario("tiny_eagle3_cpu_gsm8k", SIZES)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def answer(index: int, prefix: int, server: ServerName, cached: int | None = None) -> RequestRecord:
    """Return one whole answer; the same prompt gives the same answer everywhere, oracle included."""
    draw = np.random.default_rng(index)
    accepted = draw.binomial(K, 0.4, 10).tolist()
    length = prefix + LENGTH
    hit = expected_hit(prefix, length, UNIT, "candidate" if server == "oracle" else server)
    tokens = draw.integers(10, 200, 30).tolist()
    return RequestRecord(
        index=index,
        prompt_sha256=digest(f"{prefix} {index}"),
        prompt_tokens_sent=length,
        shared_tokens=prefix,
        http_status=200,
        prompt_tokens=length,
        cached_tokens=hit if cached is None else cached,
        prompt_echo_matches=True,
        token_ids=[*tokens, 1],
        top_logprobs=[[(token, -0.5), (3, -1.5)] for token in [*tokens, 1]],
        finish_reason="stop",
        steps_accepted=None if server == "oracle" else accepted,
        steps_drafted=None if server == "oracle" else [K] * 9 + [max(accepted[9], 3)],
        sent_s=10.0,
        first_token_s=10.5,
        finished_s=11.0,
    )


@dataclass(frozen=True)
class Phase:
    """One server's phase, before it is frozen into evidence; the counters follow from its requests."""

    requests: list[RequestRecord]
    control: tuple[RequestRecord, ...] = ()
    warm_control: tuple[RequestRecord, ...] = ()
    off_by: int = 0
    """Accepted tokens that the counter has too many."""

    def change(self, index: int, **changes: object) -> Phase:
        """Change one request's record."""
        return replace(self, requests=[r.model_copy(update=changes) if r.index == index else r for r in self.requests])

    def frozen(self) -> PhaseEvidence:
        first = self.requests[0]
        before = Counters(prompt=first.prompt_tokens_sent, computed=first.prompt_tokens_sent, unit=str(UNIT), stop=1)
        before = replace(before, queries=first.prompt_tokens_sent)
        return PhaseEvidence(
            reset_ok=True,
            populate=[first.model_copy(update={"cached_tokens": 0, "shared_tokens": 0})],
            requests=self.requests,
            control=list(self.control),
            warm_control=list(self.warm_control),
            metrics_before=before.text(),
            metrics_after=self._after(before).text(),
            started_s=10.0,
            finished_s=12.0,
        )

    def _after(self, before: Counters) -> Counters:
        sent = sum(r.prompt_tokens_sent for r in self.requests)
        hit = sum(r.cached_tokens or 0 for r in self.requests)
        accepted = [count for r in self.requests for count in r.steps_accepted or []]
        return replace(
            before,
            prompt=before.prompt + sent,
            computed=before.computed + sent - hit,
            hit=hit,
            hits=hit,
            queries=before.queries + sent,
            stop=before.stop + len(self.requests),
            generated=sum(len(r.token_ids) for r in self.requests),
            steps=len(accepted),
            drafted=sum(count for r in self.requests for count in r.steps_drafted or []),
            accepted=sum(accepted) + self.off_by,
            positions=tuple(sum(count > place for count in accepted) for place in range(K)),
        )


def phases(server: ServerName) -> dict[str, Phase]:
    """Return both paths' healthy phases of one server."""
    count = 5 if server == "oracle" else COUNT
    found = {}
    for name, prefix in (("acceptance", 0), ("acceptance_hit_path", PREFIX)):
        phase = Phase([answer(index, prefix, server) for index in range(count)])
        if server == "baseline":
            cold = tuple(answer(index, prefix, server, cached=0) for index in range(4))
            phase = replace(phase, control=cold, warm_control=tuple(answer(i, prefix, server) for i in range(8)))
        found[name] = phase
    return found


def accuracy(wrong: tuple[int, ...] = (7,), **changes: object) -> AccuracyEvidence:
    """Return lm-eval's samples; ``wrong`` are the questions that were answered wrongly."""
    samples = [
        LmEvalSample(
            index=index,
            prompt_sha256=digest(f"scored {index}"),
            answer="#### 3",
            strict=index not in wrong,
            flexible=index not in wrong,
        )
        for index in range(COUNT)
    ]
    seen = AccuracyEvidence(
        data="generated",
        rows=COUNT,
        sha256="e" * 64,
        model_args={"model": "m"},
        exit_code=0,
        samples=samples,
        started_s=12.0,
        finished_s=13.0,
    )
    return seen.model_copy(update=changes)


def rates(born: float | None = None) -> ReferenceRates:
    """Return a reference that the healthy phases fit, or one of another rate."""
    records = phases("baseline")["acceptance"].requests
    rate = sum(sum(r.steps_accepted or []) for r in records) / sum(sum(r.steps_drafted or []) for r in records)
    both = dict.fromkeys(VARIANT_NAMES, rate if born is None else born)
    return ReferenceRates(name="tiny", origin={"run": "r"}, rates={"acceptance": both, "acceptance_hit_path": both})


def evidence(
    changes: dict[tuple[ServerName, str], Phase] | None = None,
    scored: dict[ServerName, AccuracyEvidence | None] | None = None,
    known: ReferenceRates | None = rates(),  # noqa: B008  (it is frozen)
) -> Evidence:
    """Return a run's evidence, healthy but for the phases and the accuracy that are given."""
    scored = {"baseline": accuracy(), "candidate": accuracy(), **(scored or {})}
    variants = {}
    for name in ("baseline", "candidate", "oracle"):
        found = {phase: (changes or {}).get((name, phase), healthy) for phase, healthy in phases(name).items()}
        variants[name] = VariantEvidence(
            server=factory.facts(),
            phases={phase: made.frozen() for phase, made in found.items()},
            accuracy=scored.get(name),
        )
    base = factory.evidence()
    return base.model_copy(
        update={
            "scenario": scenario(),
            "variants": variants,
            "questions": QuestionSet(name="q", rows=COUNT, sha256="d" * 64, token_ids=[[1] * LENGTH] * COUNT),
            "reference_rates": known,
        }
    )

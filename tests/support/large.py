"""Evidence of any size for the page: scenario A's requests and scenario B's questions in one run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dropgate.evidence import Evidence, PhaseEvidence, QuestionSet, RequestRecord, VariantEvidence
from dropgate.evidence_folder import EvidenceFolder
from dropgate.law import VARIANT_NAMES, ServerName, VariantName
from dropgate.scenario import Scenario, load_scenario
from tests.support import factory, gsm8k_factory
from tests.support.gsm8k_factory import Phase, answer

CONTROL = 8


def scenario(questions: int, requests: int) -> Scenario:
    sizes = (
        f"workloads.gsm8k.questions={questions}",
        *(f"workloads.gsm8k.{key}={CONTROL}" for key in ("control", "warm_control", "oracle")),
        f"workloads.prefix={{requests: {requests}, concurrency: 16, prefix_tokens: 4608, suffix_tokens: 64, "
        "control: 2, token_ids: [10, 200]}",
        "promises=[{kind: prefix_law}, {kind: same_outputs}, {kind: acceptance, path: cold, margin_pp: 3.0}, "
        "{kind: acceptance, path: hit, margin_pp: 3.0}, {kind: same_answers}]",
    )
    return load_scenario("tiny_eagle3_cpu_gsm8k", sizes)


def evidence(questions: int, requests: int) -> Evidence:
    """Return a healthy run but for times, acceptance and two ties, which vary as they do on a real engine."""
    base = factory.evidence()
    variants = {name: _variant(name, questions, requests) for name in (*VARIANT_NAMES, "oracle")}
    asked = QuestionSet(name="q", rows=questions, sha256="d" * 64, token_ids=[[1]] * questions)
    return base.model_copy(update={"scenario": scenario(questions, requests), "variants": variants, "questions": asked})


def _variant(name: ServerName, questions: int, requests: int) -> VariantEvidence:
    count = CONTROL if name == "oracle" else questions
    phases = {} if name == "oracle" else {"prefix": _prefix(name, requests)}
    for place, prefix in (("acceptance", 0), ("acceptance_hit_path", gsm8k_factory.PREFIX)):
        records = [_varied(answer(index, prefix, name), name) for index in range(count)]
        phase = Phase(records)
        if name == "baseline":
            cold = tuple(answer(index, prefix, name, cached=0) for index in range(CONTROL))
            phase = replace(phase, control=cold, warm_control=tuple(records[:CONTROL]))
        phases[place] = phase.frozen()
    return VariantEvidence(server=factory.facts(), phases=phases)


def _prefix(name: VariantName, requests: int) -> PhaseEvidence:
    seen = factory.seen(name)
    hit = seen.requests[0].cached_tokens or 0
    records = [_late(factory.record(index, hit), name) for index in range(requests)]
    length, before = factory.LENGTH, seen.before
    after = replace(
        before,
        prompt=before.prompt + requests * length,
        computed=before.computed + requests * (length - hit),
        hit=requests * hit,
        hits=requests * hit,
        queries=before.queries + requests * length,
        length=before.length + requests,
    )
    return replace(seen, requests=records, after=after).phase()


def _late(record: RequestRecord, name: ServerName) -> RequestRecord:
    draw = np.random.default_rng([record.index, name == "candidate"])
    first = record.sent_s + min(1.8, draw.gamma(4, 0.2 if name == "baseline" else 0.1))  # the phase takes two seconds
    return record.model_copy(update={"first_token_s": first, "finished_s": first + 0.1})


def _varied(record: RequestRecord, name: ServerName) -> RequestRecord:
    record = _late(record, name)
    if name != "candidate" or record.steps_accepted is None:
        return record
    draw = np.random.default_rng([record.index, 7])
    changed = [min(7, max(0, count + int(draw.integers(-1, 2)))) for count in record.steps_accepted[:-1]]
    return record.model_copy(update={"steps_accepted": [*changed, record.steps_accepted[-1]]})


def save(whole: Evidence, folder: Path) -> Path:
    """Save a run as `dropgate run` does."""
    saved = EvidenceFolder(folder)
    for name, variant in whole.variants.items():
        for workload, phase in variant.phases.items():
            saved.save_phase(name, workload, phase)
    if whole.questions:
        saved.save_questions(whole.questions)
    saved.close(whole)
    return folder

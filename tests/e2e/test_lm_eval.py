"""lm-eval itself, against servers that do not answer as they should: counted and named, and over by the deadline."""

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dropgate.engine.process import OwnedProcess
from dropgate.evidence import AccuracyEvidence
from dropgate.judge.accuracy import judge_accuracy
from dropgate.scenario.promises import AccuracyPromise
from dropgate.scenario.workloads import Accuracy, Gsm8k
from dropgate.workload.accuracy import measure_accuracy
from dropgate.workload.client import Target
from dropgate.workload.questions import Questions, generated_questions
from tests.support.standin import answering

pytestmark = pytest.mark.cpu
PROBLEMS = 4
WORK = Gsm8k(prefix_tokens=128, concurrency=2, accuracy=Accuracy(problems=PROBLEMS), template="Q: {question}")
Score = Callable[[str, float], AccuracyEvidence]


def completion(text: str | None) -> bytes:
    return json.dumps({"choices": [{"index": 0, "text": text}]}).encode()


@pytest.fixture
def score(tmp_path: Path) -> Score:
    def run(url: str, deadline_s: float) -> AccuracyEvidence:
        rows = Questions("generated", generated_questions().rows[:PROBLEMS])
        owned = OwnedProcess(tmp_path / "lm_eval.log", 1)
        try:
            return measure_accuracy(Target(url, "m", 5, time.monotonic), WORK, rows, owned, deadline_s)
        finally:
            owned.stop()
            assert not Path(owned.scratch).exists()

    return run


def seen(evidence: AccuracyEvidence) -> str:
    promise = AccuracyPromise(kind="accuracy", margin_pp=50)
    checks = judge_accuracy(evidence, evidence, PROBLEMS, promise).checks
    assert {check.verdict for check in checks} == {"invalid"}
    return checks[0].seen


def test_right_answers_are_scored_by_both_readings(score: Score) -> None:
    """Every question is scored once, in order; a secret of the environment reaches neither lm-eval nor its record."""
    os.environ["OPENAI_API_KEY"] = "sk-secret"
    try:
        with answering(completion("It is so.\n#### 4"), kind="application/json") as url:
            found = score(url, 120)
    finally:
        del os.environ["OPENAI_API_KEY"]
    assert found.error is None
    assert [sample.index for sample in found.samples] == list(range(PROBLEMS))
    right = [row.answer.endswith("#### 4") for row in generated_questions().rows[:PROBLEMS]]
    assert any(right)
    assert [sample.strict for sample in found.samples] == [sample.flexible for sample in found.samples] == right
    assert "sk-secret" not in found.model_dump_json()


@pytest.mark.parametrize(("text", "said"), [(None, "null text to 4"), ("", "an empty answer to 4")])
def test_nothing_is_no_wrong_answer(text: str | None, said: str, score: Score) -> None:
    with answering(completion(text), kind="application/json") as url:
        assert said in seen(score(url, 120))


def test_a_server_that_fails_ends_the_run_with_its_reason(score: Score) -> None:
    with answering(b"engine is dead", status=500, kind="application/json") as url:
        assert "lm-eval ended with code 1" in seen(score(url, 120))


def test_a_server_that_hangs_is_left_at_the_deadline(score: Score) -> None:
    began = time.monotonic()
    with answering(completion("x"), delay_s=300, kind="application/json") as url:
        assert "had not finished after 8 s" in seen(score(url, 8))
    assert time.monotonic() - began < 60

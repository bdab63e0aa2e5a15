"""Accuracy by lm-eval, in a process of its own: its `local-completions` model asks one server."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from dropgate.errors import InputError, UnmetNeedError
from dropgate.evidence import AccuracyEvidence, LmEvalSample
from dropgate.scenario import FIXTURES
from dropgate.scenario.workloads import Accuracy, Gsm8k
from dropgate.workload.client import Target
from dropgate.workload.questions import Questions, Row, generated_questions

TASK_BASE = FIXTURES / "lm_eval" / "dropgate_gsm8k.yaml"
DRIVER = Path(__file__).with_name("lm_eval_driver.py")
TASK = "dropgate_gsm8k"
FILTERS = {"strict-match": "strict", "flexible-extract": "flexible"}
TRIES = 3
NULL_TEXT = "(null text, said dropgate)"
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL")
"""Nothing else of the environment is lm-eval's business, tokens least of all."""


class Owned(Protocol):
    """A process of ours with a folder of its own; nothing of either outlives this process."""

    log: Path
    scratch: str

    def run(self, command: list[str], environment: dict[str, str], deadline_s: float) -> int | None:
        """Run a command to its end and return its exit code; ``None`` at the deadline, in seconds."""


def require_lm_eval() -> None:
    """Check that lm-eval is installed, before anything boots.

    Raises:
        InputError: it is not.

    """
    if importlib.util.find_spec("lm_eval") is None:
        raise InputError("workloads.gsm8k.accuracy needs lm-eval: pip install 'lm-eval[api]'")


def require_rows(questions: Questions, accuracy: Accuracy) -> Questions:
    """Return the data that is to be scored.

    Raises:
        UnmetNeedError: it holds fewer rows than are to be scored.

    """
    data = generated_questions() if accuracy.data == "generated" else questions
    if len(data.rows) < accuracy.problems:
        raise UnmetNeedError(f"{data.name}: {len(data.rows):,} rows, lm-eval is to score {accuracy.problems:,}")
    return data


def measure_accuracy(
    target: Target, work: Gsm8k, questions: Questions, owned: Owned, deadline_s: float
) -> AccuracyEvidence:
    """Score the first ``work.accuracy.problems`` rows on one server; what goes wrong is evidence too.

    Nothing is shared between two calls: lm-eval's response cache is off and its data cache is in the scratch folder.
    """
    assert work.accuracy is not None  # noqa: S101
    folder, rows = Path(owned.scratch), questions.rows[: work.accuracy.problems]
    out = owned.log.with_name("lm_eval_samples.jsonl")
    model = _model(target, work, deadline_s)
    _write_task(folder, work, rows, model)
    command = [sys.executable, str(DRIVER), str(folder / "ask.json"), str(out)]
    started_s = target.clock()
    exit_code = owned.run(command, _environment(os.environ, folder), deadline_s)
    finished_s = target.clock()
    samples, problem = _samples(out, [work.template.replace("{question}", row.question) for row in rows])
    error = problem if exit_code == 0 else _reason(exit_code, owned.log, deadline_s)
    return AccuracyEvidence(
        data=questions.name,
        rows=len(rows),
        sha256=questions.sha256,
        model_args=model,
        exit_code=exit_code,
        error=error,
        samples=samples,
        started_s=started_s,
        finished_s=finished_s,
    )


def _write_task(folder: Path, work: Gsm8k, rows: Iterable[Row], model: dict[str, Any]) -> None:
    """Write the data, a task that includes the one in fixtures/, and what the driver is asked."""
    prompts = ({"prompt": work.template.replace("{question}", row.question), "answer": row.answer} for row in rows)
    (folder / "questions.jsonl").write_text("".join(json.dumps(item) + "\n" for item in prompts), encoding="utf-8")
    task = {
        "include": str(TASK_BASE),
        "task": TASK,
        "dataset_kwargs": {"data_files": {"test": str(folder / "questions.jsonl")}},
        "generation_kwargs": {"max_gen_toks": work.output_tokens, "temperature": 0, "do_sample": False, "until": []},
    }
    (folder / f"{TASK}.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    ask = {"folder": str(folder), "task": TASK, "model_args": model}
    (folder / "ask.json").write_text(json.dumps(ask), encoding="utf-8")


def _model(target: Target, work: Gsm8k, deadline_s: float) -> dict[str, Any]:
    return {
        "model": target.served_name,
        "base_url": f"{target.url}/v1/completions",
        "num_concurrent": work.concurrency,
        "max_retries": TRIES,
        "tokenizer_backend": "none",
        "timeout": int(min(target.request_deadline_s, deadline_s)),
    }


def _environment(caller: Mapping[str, str], folder: Path) -> dict[str, str]:
    passed = {key: caller[key] for key in PASSED_ON if key in caller}
    own = {"HF_HOME": str(folder / "hf"), "HF_HUB_OFFLINE": "1", "LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER": NULL_TEXT}
    return {**passed, **own, "TMPDIR": str(folder)}


def _reason(exit_code: int | None, log: Path, deadline_s: float) -> str:
    if exit_code is None:
        return f"lm-eval had not finished after {deadline_s:g} s"
    told = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return f"lm-eval ended with code {exit_code}: {told[-1][:300] if told else 'it said nothing'}"


def _samples(path: Path, prompts: list[str]) -> tuple[list[LmEvalSample], str | None]:
    """Read lm-eval's sample log: one line a question and filter; ``prompts`` are what it had to send."""
    found: dict[int, dict[str, Any]] = {}
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            _take(json.loads(line), found)
        samples = [LmEvalSample(**found[index]) for index in sorted(found)]
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        return [], f"lm-eval's sample log cannot be read: {type(error).__name__}: {str(error).splitlines()[0][:200]}"
    sent = {index: _sha256(prompt) for index, prompt in enumerate(prompts)}
    if {sample.index: sample.prompt_sha256 for sample in samples} != sent:
        return samples, f"lm-eval scored {len(samples)} questions that are not the {len(prompts)} it was given"
    return samples, None


def _take(line: dict[str, Any], found: dict[int, dict[str, Any]]) -> None:
    index = int(line["doc_id"])
    said = line["resps"][0][0]
    sample = found.setdefault(
        index,
        {
            "index": index,
            "prompt_sha256": _sha256(line["arguments"][0][0]),
            "answer": None if said == NULL_TEXT else said,
        },
    )
    sample[FILTERS[line["filter"]]] = bool(line["exact_match"] == 1.0)


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

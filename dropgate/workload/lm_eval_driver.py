"""lm-eval on one server, run as a script: ``lm_eval_driver.py ASK.json SAMPLES.jsonl``.

It calls lm-eval's own ``evaluate``; lm-eval's command line would first index its thousands of tasks and survey the
machine, which takes longer than the questions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(ask_path: str, samples_path: str) -> None:
    """Score the task that ``ask_path`` describes and write lm-eval's sample log, one line a question and filter."""
    from lm_eval.api.registry import get_model  # in this process alone: it takes seconds
    from lm_eval.evaluator import evaluate
    from lm_eval.tasks import TaskManager

    ask = json.loads(Path(ask_path).read_text(encoding="utf-8"))
    model = get_model("local-completions")(**ask["model_args"])
    tasks = TaskManager(include_path=ask["folder"], include_defaults=False).load([ask["task"]])
    found = evaluate(lm=model, task_dict=tasks, bootstrap_iters=0)
    if found is None:
        raise RuntimeError("lm-eval returned nothing")
    lines = [json.dumps(sample, default=str) + "\n" for sample in found["samples"][ask["task"]]]
    Path(samples_path).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

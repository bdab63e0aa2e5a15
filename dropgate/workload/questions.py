"""GSM8K's questions: from a file in any of three formats, from Hugging Face, or from the generated set."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dropgate.errors import InputError
from dropgate.scenario import FIXTURES

VARIABLE = "DROPGATE_GSM8K"
GENERATED = FIXTURES / "prompts" / "word_problems.jsonl"
FEW_SHOT = FIXTURES / "prompts" / "few_shot.jsonl"
"""Solved problems of the generator's training side: none is ever asked."""
HUB = ("openai/gsm8k", "main/test-00000-of-00001.parquet")
HUB_SHA256 = "5b736e25f3d1e6cdeef6b3d89e3dc71a7e3c20288f93f1bda635f6fbeb4f41b5"
HUB_TIMEOUT_S = 5


@dataclass(frozen=True)
class Row:
    """One question with its worked answer, which ends in ``#### N``."""

    question: str
    answer: str


@dataclass(frozen=True)
class Questions:
    """A data set, whole and in order."""

    name: str
    rows: tuple[Row, ...]

    @property
    def sha256(self) -> str:
        """Checksum over questions and answers, the same for the same rows in any format."""
        lines = (json.dumps([row.question, row.answer]) + "\n" for row in self.rows)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def load_questions(path: Path | None, say: Callable[[str], None] = lambda _: None) -> Questions:
    """Read the questions from ``path``, else from where ``DROPGATE_GSM8K`` points, else from Hugging Face, else ours.

    Raises:
        InputError: a file that was named is missing, malformed, or has an empty or repeated question.

    """
    if path is None and (named := os.environ.get(VARIABLE)):
        path = Path(named)
    if path:
        return read_questions(path)
    return _from_hub(say) or generated_questions()


def generated_questions() -> Questions:
    """Return the generated set, which is part of this repository."""
    return Questions("generated word problems", read_questions(GENERATED).rows)


def few_shot_problems() -> tuple[Row, ...]:
    """Return the solved problems that stand in front of a question on the hit path."""
    return read_questions(FEW_SHOT).rows


def _from_hub(say: Callable[[str], None]) -> Questions | None:
    """Fetch the test split (0.4 MB), or say why not."""
    if os.environ.get("HF_HUB_OFFLINE", "") not in ("", "0"):
        say("questions: HF_HUB_OFFLINE is set: the generated set is asked")
        return None
    from huggingface_hub import hf_hub_download  # half a second to import, and needed only without a file

    try:
        found = hf_hub_download(*HUB, repo_type="dataset", etag_timeout=HUB_TIMEOUT_S)
    except Exception as error:  # what it raises for a missing network has changed from release to release
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        say(f"questions: Hugging Face is not reachable ({reason}): the generated set is asked")
        return None
    questions = Questions("openai/gsm8k test", read_questions(Path(found)).rows)
    require_checksum(questions, HUB_SHA256)
    return questions


def require_checksum(questions: Questions, sha256: str | None) -> None:
    """Refuse data that is not what was asked for.

    Raises:
        InputError: its checksum differs.

    """
    if sha256 and questions.sha256 != sha256:
        raise InputError(f"{questions.name}: the checksum of its rows is {questions.sha256}, {sha256} was asked for")


def read_questions(path: Path) -> Questions:
    """Read jsonl or parquet with the columns ``question`` and ``answer``, or ShareGPT JSON.

    Raises:
        InputError: file and row are named.

    """
    try:
        rows = tuple(_checked(path, _READERS.get(path.suffix, _read_jsonl)(path)))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    if not rows:
        raise InputError(f"{path}: holds no questions")
    return Questions(path.name, rows)


def _checked(path: Path, raw: Iterator[tuple[str, Any]]) -> Iterator[Row]:
    seen: dict[str, str] = {}
    for place, item in raw:
        if not isinstance(item, dict):
            raise InputError(f"{path}: {place}: an object with 'question' and 'answer' is expected")
        for key in ("question", "answer"):
            if not isinstance(item.get(key), str) or not item[key].strip():
                raise InputError(f"{path}: {place}: '{key}' is missing, empty or no text")
        if first := seen.get(item["question"]):
            raise InputError(f"{path}: {place}: 'question' is that of {first} again")
        seen[item["question"]] = place
        yield Row(item["question"], item["answer"])


def _read_jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}: line {number}: not JSON: {error}") from None


def _read_parquet(path: Path) -> Iterator[tuple[str, Any]]:
    from pyarrow import parquet  # a third of a second to import

    table = parquet.read_table(path)
    for number, item in enumerate(table.to_pylist(), 1):
        yield f"row {number}", item


def _read_sharegpt(path: Path) -> Iterator[tuple[str, Any]]:
    content = json.loads(path.read_text(encoding="utf-8-sig"))
    if not isinstance(content, list):
        raise InputError(f"{path}: ShareGPT JSON is a list of conversations")
    for number, item in enumerate(content, 1):
        turns = item.get("conversations") if isinstance(item, dict) else None
        if not isinstance(turns, list) or [_from(turn) for turn in turns] != ["human", "gpt"]:
            raise InputError(f"{path}: conversation {number}: one turn from 'human' and one from 'gpt' are expected")
        yield f"conversation {number}", {"question": turns[0].get("value"), "answer": turns[1].get("value")}


def _from(turn: object) -> object:
    return turn.get("from") if isinstance(turn, dict) else None


_READERS = {".jsonl": _read_jsonl, ".parquet": _read_parquet, ".json": _read_sharegpt}


def sharegpt(questions: Questions, template: str = "{question}") -> str:
    """Return the rows as ShareGPT JSON, one conversation a row and in order, as `vllm bench serve` reads it."""
    conversations = [
        {
            "id": f"gsm8k-{number}",
            "conversations": [
                {"from": "human", "value": template.replace("{question}", row.question)},
                {"from": "gpt", "value": row.answer},
            ],
        }
        for number, row in enumerate(questions.rows)
    ]
    return json.dumps(conversations, ensure_ascii=False, indent=1) + "\n"

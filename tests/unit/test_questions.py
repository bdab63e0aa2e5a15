"""GSM8K's questions: one data set in any format, or an error that names file and row."""

import json
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from dropgate.cli import main
from dropgate.errors import InputError, UnmetNeedError
from dropgate.scenario.workloads import GSM8K_TEST_ROWS, Gsm8k
from dropgate.workload.gsm8k import asked, gsm8k_plans, question_set
from dropgate.workload.questions import (
    FEW_SHOT,
    GENERATED,
    VARIABLE,
    Questions,
    Row,
    generated_questions,
    load_questions,
    read_questions,
    sharegpt,
)

ROWS = [{"question": f"How many {n}?", "answer": f"It is {n}.\n#### {n}"} for n in range(3)]


def lines(rows: list[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def _no_other_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_every_format_holds_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(ROWS))
    parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "b.parquet")
    first = read_questions(tmp_path / "a.jsonl")
    (tmp_path / "c.json").write_text(sharegpt(first))
    others = [read_questions(tmp_path / name) for name in ("b.parquet", "c.json")]
    assert first.rows == tuple(Row(**row) for row in ROWS)
    assert {one.rows for one in others} == {first.rows}
    assert {one.sha256 for one in others} == {first.sha256}


def test_the_variable_names_the_file_and_the_option_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text(lines(ROWS))
    (tmp_path / "b.jsonl").write_text(lines(ROWS[:1]))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "a.jsonl"))
    assert load_questions(None).name == "a.jsonl"
    assert load_questions(tmp_path / "b.jsonl").name == "b.jsonl"


def test_offline_the_generated_set_is_asked_and_said_to_be() -> None:
    said: list[str] = []
    questions = load_questions(None, said.append)
    assert (questions.name, len(questions.rows)) == ("generated word problems", GSM8K_TEST_ROWS)
    assert "generated set" in said[0]


def test_no_few_shot_problem_is_ever_asked() -> None:
    solved, asked_rows = read_questions(FEW_SHOT).rows, read_questions(GENERATED).rows
    assert not {row.question for row in solved} & {row.question for row in asked_rows}


BAD: dict[str, tuple[str, str]] = {
    "not JSON": ("a.jsonl", '{"question": "q", "answer": "a"}\n{'),
    "line 2: 'answer' is missing, empty or no text": ("a.jsonl", lines([ROWS[0], {"question": "q"}])),
    "line 1: 'question' is missing, empty or no text": ("a.jsonl", lines([{"question": " ", "answer": "a"}])),
    "line 2: 'question' is that of line 1 again": ("a.jsonl", lines([ROWS[0], ROWS[0]])),
    "line 1: an object": ("a.jsonl", "[1]\n"),
    "holds no questions": ("a.jsonl", ""),
    "conversation 1: one turn from 'human'": ("a.json", json.dumps([{"conversations": [{"from": "gpt"}]}])),
    "ShareGPT JSON is a list": ("a.json", "{}"),
    "cannot be read": ("a.parquet", "no parquet"),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_data_is_named(message: str, tmp_path: Path) -> None:
    name, text = BAD[message]
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError) as error:
        read_questions(tmp_path / name)
    assert message in str(error.value)
    assert name in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_questions(tmp_path / "none.jsonl")


def test_too_few_rows_are_an_unmet_need_and_another_checksum_is_refused() -> None:
    questions = Questions("q", tuple(Row(**row) for row in ROWS))
    with pytest.raises(UnmetNeedError, match="q: 3 rows, the scenario asks 4"):
        asked(questions, Gsm8k(questions=4, prefix_tokens=8))
    with pytest.raises(InputError, match="checksum of its rows"):
        asked(questions, Gsm8k(questions=3, prefix_tokens=8, sha256="0" * 64))


def test_the_hit_path_is_the_cold_path_behind_one_prefix() -> None:
    """The same questions in the same order; nothing that is asked is in the cache before."""
    work = Gsm8k(questions=3, prefix_tokens=40, control=1, warm_control=2, oracle=2, template="Q: {question}")
    found = question_set(Questions("q", tuple(Row(**row) for row in ROWS)), work, lambda text, _: list(text.encode()))
    assert len(found.prefix_token_ids) == 40
    cold, hit = gsm8k_plans(work, found, "baseline").values()
    assert [prompt.token_ids for prompt in hit.timed] == [
        [*found.prefix_token_ids, *prompt.token_ids] for prompt in cold.timed
    ]
    assert bytes(cold.timed[2].token_ids) == b"Q: How many 2?"
    assert ({p.shared_tokens for p in cold.timed}, {p.shared_tokens for p in hit.timed}) == ({0}, {40})
    assert (cold.control, cold.warm_control) == (1, 2)
    assert cold.populate[0].token_ids not in [prompt.token_ids for prompt in cold.timed]
    oracle, candidate = gsm8k_plans(work, found, "oracle"), gsm8k_plans(work, found, "candidate")
    assert len(oracle["acceptance"].timed) == 2
    assert candidate["acceptance"].requests == 3


def test_the_export_is_one_to_one_and_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.json"
    assert main(["export-gsm8k", str(out)]) == 0
    assert read_questions(out).rows == generated_questions().rows
    assert generated_questions().sha256 in capsys.readouterr().out
    assert main(["export-gsm8k", str(out)]) == 2
    assert "exists" in capsys.readouterr().err


def test_any_other_number_of_rows_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text("".join(GENERATED.read_text().splitlines(keepends=True)[:-1]))
    assert main(["export-gsm8k", str(tmp_path / "out.json"), "--gsm8k", str(short)]) == 2
    assert "1,318 rows" in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()

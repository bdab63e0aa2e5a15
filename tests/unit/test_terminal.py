"""What a person sees: at most 100 columns, colours only on a terminal, less with -q, a document with --json."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from dropgate.cli import main
from dropgate.judge import judge
from dropgate.report.terminal import WIDTH, print_result
from tests.support import gsm8k_factory

CLEAN = str(Path(__file__).resolve().parents[2] / "fixtures" / "recorded" / "clean")


def test_tables_of_both_scenarios_fit() -> None:
    text = io.StringIO()
    whole = gsm8k_factory.evidence()
    print_result(whole, judge(whole), None, Path("DIR"), Console(file=text, width=WIDTH, highlight=False))
    assert "acceptance rate" in text.getvalue()
    assert max(map(len, text.getvalue().splitlines())) <= WIDTH == 100


@pytest.mark.parametrize(("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_only_where_they_are_wanted(
    variables: dict[str, str], coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    text, whole = io.StringIO(), gsm8k_factory.evidence()
    console = Console(file=text, width=WIDTH, highlight=False, force_terminal=True)
    print_result(whole, judge(whole), None, Path("DIR"), console)
    assert ("\x1b[1;32m" in text.getvalue()) is coloured


def test_quiet_is_the_verdict_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "-q", CLEAN]) == 0
    output = capsys.readouterr().out
    assert output.splitlines() == [f"evidence: {CLEAN}", "verdict:  pass (49 of 49 checks passed)"]


def test_json_is_the_saved_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", "--json", CLEAN]) == 0
    document = json.loads(capsys.readouterr().out)
    saved = json.loads((Path(CLEAN) / "verdict.json").read_text())
    assert (document["verdict"], document["metrics"]) == (saved["verdict"], saved["metrics"])

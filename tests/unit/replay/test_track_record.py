"""The replay's track record names tests that exist, and every report that can be replayed."""

import ast

import pytest
import yaml

from dropgate.replay.run import ROOT

RECORD = yaml.safe_load((ROOT / "fixtures" / "recorded" / "track_record_replay.yaml").read_text())
TESTS = [*(ROOT / "tests" / "replay").glob("test_*.py"), *(ROOT / "tests" / "unit" / "replay").glob("test_*.py")]
DEFINED = {
    node.name for path in TESTS for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)
}


@pytest.mark.parametrize("row", RECORD, ids=lambda row: row["reports"][0])
def test_each_row_names_tests_that_exist(row):
    assert row.keys() == {"reports", "kind", "status", "case", "caught_by"}
    assert {row["case"], row["caught_by"]} <= DEFINED


def test_no_report_stands_twice():
    reports = [report for row in RECORD for report in row["reports"]]
    assert len(reports) == len(set(reports))

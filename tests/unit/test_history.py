"""The history: a run counts once, machines are never mixed, and a change of level is found where it is."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from dropgate.cli import main
from dropgate.history.page import trend_page
from dropgate.history.trend import change_points, grouped, trends, write_textfile
from tests.support.history_factory import CHANGE, series

ROOT = Path(__file__).resolve().parents[2]
CLEAN, IGNORED = (str(ROOT / "fixtures" / "recorded" / name) for name in ("clean", "option_ignored"))


def test_a_run_is_added_once_listed_and_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database, prom, html = (str(tmp_path / name) for name in ("h.sqlite3", "d.prom", "trend.html"))
    assert main(["history", "add", "--db", database, CLEAN, IGNORED]) == 0
    assert capsys.readouterr().out.count(", added") == 2
    assert main(["history", "add", "--db", database, CLEAN]) == 0
    assert "pass, known already" in capsys.readouterr().out
    assert main(["history", "list", "--db", database]) == 0
    listed = capsys.readouterr().out
    assert listed.count("tiny_eagle3_cpu") == 2
    assert "fail" in listed
    assert max(map(len, listed.splitlines())) <= 100
    assert main(["history", "show", "--db", database, "--html", html, "--prom", prom]) == 0
    shown = capsys.readouterr().out
    assert "cached tokens per request" in shown
    assert max(len(line) for line in shown.splitlines() if not line.startswith("page:")) <= 100
    assert "Content-Security-Policy" in Path(html).read_text()
    values = {
        (sample.name, sample.labels.get("variant"), sample.labels.get("name")): sample.value
        for family in text_string_to_metric_families(Path(prom).read_text())
        for sample in family.samples
    }
    assert values["dropgate_measure", "baseline", "cached_tokens_per_request"] == 10752


@pytest.mark.parametrize("content", [None, b"not a database at all, but long enough to be read as one" * 20])
def test_what_is_no_history_is_one_line_and_exit_2(
    content: bytes | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "h.sqlite3"
    if content:
        path.write_bytes(content)
    assert main(["history", "list", "--db", str(path)]) == 2
    assert capsys.readouterr().err.startswith(f"dropgate: --db {path}")


def test_runs_of_other_machines_are_other_trends() -> None:
    both = [*series(), *series(hardware="another")]
    assert len(grouped(both)) == 2
    assert trend_page(both).count("<section") == 2


def test_counts_and_times_change_where_they_changed_and_invalid_runs_are_left_out() -> None:
    runs = series()
    by_name = {trend.name: trend for trend in trends(runs)}
    assert by_name["cached_tokens_per_request"].changes == {"baseline": [], "candidate": [CHANGE]}
    assert by_name["ttft_ms.mean"].changes == {"baseline": [], "candidate": [CHANGE]}
    broken = dataclasses.replace(runs[0], verdict="invalid")
    assert len(trends([broken, *runs[1:]])[0].runs) == len(runs) - 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_seldom_changes_level_and_one_odd_run_never_does(seed: int) -> None:
    draw = np.random.default_rng(seed)
    level = 100 + draw.normal(size=40)
    assert len(change_points(level)) <= 1
    odd = np.concatenate([level[:20], [120.0], level[20:]])
    assert change_points(odd[:3]) == []
    assert change_points([*level[:20], *(level[20:] + 10)]) == [20]


def test_two_runs_suffice_for_a_count_and_not_for_a_time() -> None:
    assert change_points([10752, 12288], exact=True) == [1]
    assert change_points([1000.0, 1500.0]) == []


def test_an_empty_textfile_is_not_written_over_a_folder(tmp_path: Path) -> None:
    from dropgate.errors import InputError

    with pytest.raises(InputError, match="cannot be written"):
        write_textfile(tmp_path / "none" / "d.prom", series())

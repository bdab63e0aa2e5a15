"""The command line: bad input is one clear line and exit code 2, with nothing started and nothing written."""

import json
import socket
from pathlib import Path

import pytest

from dropgate.cli import main
from dropgate.engine.interpreter import EngineIdentity
from dropgate.evidence import ChangeFacts, EngineFacts
from dropgate.evidence_folder import EvidenceFolder
from dropgate.replay.result import ReplayFacts, ReplaySeen
from tests.support.factory import evidence, seen

OUT = "{tmp}/out"
REFUSED = {
    "no such scenario": (["run", "tiny", "--out", OUT], "no scenario 'tiny'"),
    "an unknown key": (["run", "tiny_eagle3_cpu", "--out", OUT, "--set", "workloads.prefix.request=1"], "unknown key"),
    "a wrong type": (["run", "tiny_eagle3_cpu", "--out", OUT, "--set", "deadlines.boot=soon"], "'deadlines.boot'"),
    "a missing model": (["run", "tiny_eagle3_cpu", "--out", OUT, "--set", "engine.model=./no"], "no model folder at"),
    "an output that holds something": (["run", "tiny_eagle3_cpu", "--out", "{tmp}"], "never overwritten"),
    "an output that cannot be": (["run", "tiny_eagle3_cpu", "--out", "{tmp}/file/out"], "cannot be written"),
    "a rank too many": (["plan", "kimi_k3_dspark_gb300", "--rank", "2"], "has ranks 0 to 1"),
    "no evidence": (["judge", "{tmp}"], "evidence.json: no such file"),
    "no evidence to report": (["report", "{tmp}/none"], "evidence.json: no such file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_line_and_exit_2(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    arguments, message = REFUSED[case]
    assert main([argument.format(tmp=tmp_path) for argument in arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("dropgate: ")
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_engine_without_the_option_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = EngineIdentity(python="python", version="0.29.0", knows_option=False)
    monkeypatch.setattr("dropgate.preflight.describe_engine", lambda: old)
    assert main(["run", "tiny_eagle3_cpu", "--out", str(tmp_path / "out")]) == 2
    assert "every vLLM from 0.30.0 does" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_replay_of_another_commit_than_asked_for_is_invalid_and_says_of_which_change_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = EngineFacts(version="0.33.0", python="python", commit="a" * 9, asked_commit="f" * 40)
    change = ChangeFacts(head="b" * 40, base="c" * 40, pull_request="7")
    facts = ReplayFacts(dropgate="0", created="2026-12-01", host={"cpus": 2}, engine=engine, change=change)
    saved = ReplaySeen(scenario="dflash", vllm_version="0.33.0", facts=facts, workloads=())
    (tmp_path / "replay.json").write_text(saved.model_dump_json())
    assert main(["judge", str(tmp_path)]) == 75
    assert f"engine.commit: expected {'f' * 40}, seen {'a' * 9}" in capsys.readouterr().out
    document = json.loads((tmp_path / "verdict.json").read_text())
    assert [(check["name"], check["verdict"]) for check in document["checks"]] == [
        ("engine.commit", "invalid"),
        ("laws", "invalid"),
    ]
    assert document["engine"] == {"version": "0.33.0", "commit": "a" * 9}
    assert document["change"] == change.model_dump()
    report = (tmp_path / "report.md").read_text()
    assert report.startswith("## dropgate: invalid\n\ndflash: ")
    assert f"vLLM 0.33.0 of commit {'a' * 9}, no model" in report


def test_a_port_in_use_starts_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        sets = ["--set", f"engine.port={port}", "--set", "engine.boot=one_by_one"]
        assert main(["run", "tiny_eagle3_cpu", "--out", str(tmp_path / "out"), *sets]) == 2
    assert f"'engine.port': 127.0.0.1:{port} cannot be used" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_hardware_that_is_not_here_is_invalid_not_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "kimi_k3_dspark_gb300", "--out", str(tmp_path / "out")]) == 75
    assert "needs 2 nodes" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def save(folder: Path, candidate_is_baseline: bool = False) -> Path:
    whole = evidence(candidate=seen("baseline") if candidate_is_baseline else None)
    saved = EvidenceFolder(folder)
    for name, variant in whole.variants.items():
        saved.save_phase(name, "prefix", variant.phases["prefix"])
    saved.close(whole)
    return folder


def test_judge_gives_the_verdict_and_the_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", str(save(tmp_path / "good"))]) == 0
    assert "verdict:  pass" in capsys.readouterr().out
    assert main(["judge", str(save(tmp_path / "bad", candidate_is_baseline=True))]) == 1
    output = capsys.readouterr().out
    assert "prefix.delta.cached_tokens_per_request: expected +1,536, seen 0" in output
    assert "verdict:  fail" in output
    assert max(map(len, output.partition("Reference:")[0].splitlines())) <= 100


def test_judge_notices_a_verdict_that_was_edited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(save(tmp_path / "bad", candidate_is_baseline=True))
    assert main(["judge", folder]) == 1
    verdict = tmp_path / "bad" / "verdict.json"
    assert main(["judge", folder]) == 1
    assert "differs" not in capsys.readouterr().err
    verdict.write_text(verdict.read_text().replace('"fail"', '"pass"'))
    assert main(["judge", folder]) == 1
    assert "says 'pass' and differs from what the evidence gives" in capsys.readouterr().err


def test_report_writes_the_table_as_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(save(tmp_path / "good"))]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert "| cached tokens per request | 3,072 | 4,608 | +1,536 | 10,752 | 12,288 | +1,536 |" in path.read_text()


def test_a_plan_names_every_command_of_both_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "kimi_k3_dspark_gb300"]) == 0
    plan = capsys.readouterr().out
    assert plan.count("vllm serve moonshotai/Kimi-K3") == 6  # the oracle is a third server
    assert plan.count("--headless") == 3
    assert plan.count('"disable_eagle_block_drop":true') == 2


def test_one_ranks_plan_differs_by_the_rank_and_headless_alone(capsys: pytest.CaptureFixture[str]) -> None:
    plans = []
    for rank in ("0", "1"):
        assert main(["plan", "kimi_k3_dspark_gb300", "--rank", rank]) == 0
        plans.append(capsys.readouterr().out)
    leader, follower = plans
    assert leader != follower
    assert follower.count(" --headless") == follower.count(" --node-rank 1") == 3  # both variants and the oracle
    assert follower.replace("--node-rank 1", "--node-rank 0").replace(" --headless", "") == leader


def test_in_one_ranks_plan_the_variants_differ_by_the_one_key_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "kimi_k3_dspark_gb300", "--rank", "1"]) == 0
    baseline, candidate, _ = capsys.readouterr().out.split("\n\n")[1:4]
    assert baseline.startswith("# baseline\n")
    assert candidate.count(',"disable_eagle_block_drop":true') == 1
    assert candidate.replace(',"disable_eagle_block_drop":true', "").replace("# candidate", "# baseline") == baseline


def test_help_teaches_exit_codes_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert "75 invalid" in capsys.readouterr().out

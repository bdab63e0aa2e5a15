"""A replay in a process of its own: its result, and one line when it cannot be."""

import sys

import pytest
import yaml

from dropgate.errors import EngineError, InputError
from dropgate.evidence import ChangeFacts
from dropgate.judge.verdict import Verdict
from dropgate.replay.command import judge_folder, load_seen, save_seen
from dropgate.replay.run import replay_in, replay_path, run_replay
from tests.replay.driving import scenario


def test_a_replay_by_name_is_judged_saved_and_judged_again(tmp_path, monkeypatch, vllm_version):
    monkeypatch.setenv("DROPGATE_HEAD_SHA", "a" * 40)
    monkeypatch.setenv("DROPGATE_BASE_SHA", "b" * 40)
    outcome = run_replay("dflash", sys.executable)
    assert {check.verdict for check in outcome.checks} == {Verdict.PASS}
    facts = outcome.seen.facts
    assert (facts.engine.version, facts.engine.python) == (vllm_version, sys.executable)
    assert facts.change == ChangeFacts(head="a" * 40, base="b" * 40)
    save_seen(outcome.seen, tmp_path)
    assert load_seen(tmp_path) == outcome.seen
    assert judge_folder(tmp_path).checks == outcome.checks
    with pytest.raises(InputError, match="never overwritten"):
        save_seen(outcome.seen, tmp_path)


def test_a_layout_that_vllm_refuses_gives_one_line_with_file_and_key(tmp_path):
    data = yaml.safe_load(replay_path("dflash").read_text())
    data["layout"]["cache"]["num_blocks"] = 4
    file = tmp_path / "small.yaml"
    file.write_text(yaml.safe_dump(data))
    with pytest.raises(InputError) as error:
        replay_in([file], sys.executable)
    message = str(error.value)
    assert message.startswith(f"{file}: 'layout': vLLM ")
    assert "max seq len" in message
    assert "\n" not in message


def test_a_replay_that_does_not_end_in_time_is_the_engines_fault():
    with pytest.raises(EngineError, match=r"did not end within 0\.1 s"):
        replay_in([replay_path(scenario("dflash").name)], sys.executable, deadline=0.1)

"""What must be the same on every node before anything is booted, and how a difference is named."""

import shutil

import pytest

from dropgate.engine.interpreter import EngineIdentity
from dropgate.ranks.messages import Hello, differences, say_hello
from dropgate.scenario import SCENARIOS, load_scenario

TWO = "tiny_eagle3_cpu_2node"
ENGINE = EngineIdentity(python="python", version="0.32.0", knows_option=True, packages={"torch": "2.13.0"}, commit=None)


def hello(*sets: str, **engine: object) -> Hello:
    return say_hello(load_scenario(TWO, sets), ENGINE.model_copy(update=engine), 1, {})


def test_the_same_checkout_has_no_difference() -> None:
    assert differences(hello(), hello()) == []


def test_where_the_engine_lives_is_no_difference() -> None:
    assert differences(hello(), hello(python="/elsewhere/python")) == []


DIFFERENT = {
    "rank 1 has vLLM 0.31.0, rank 0 has 0.32.0": ((), {"version": "0.31.0"}),
    "rank 1 has the engine's commit abc1234, rank 0 has None": ((), {"commit": "abc1234"}),
    "rank 1 has torch 2.12.0, rank 0 has 2.13.0": ((), {"packages": {"torch": "2.12.0"}}),
    "rank 1: its baseline command has --block-size 768, rank 0 expects --block-size 1536": (
        ("engine.flags.block-size=768", "promises=[{kind: prefix_law}]"),
        {},
    ),
    "rank 1: its baseline command has --enable-prompt-tokens-details, rank 0 expects --headless": (
        ("engine.worker_flags={}",),
        {},
    ),
    "rank 1: its baseline command has nothing more, rank 0 expects --enable-prompt-tokens-details": (
        ("engine.observe={}",),
        {},
    ),
    "rank 1: its candidate command has --speculative-config": (
        ("variants.candidate.disable_eagle_block_drop=false",),
        {},
    ),
}


@pytest.mark.parametrize("message", DIFFERENT)
def test_a_difference_is_named(message: str) -> None:
    sets, engine = DIFFERENT[message]
    assert differences(hello(), hello(*sets, **engine))[0].startswith(message)


def test_what_shows_in_no_command_is_told_by_the_scenarios_checksum() -> None:
    (found,) = differences(hello(), hello("workloads.prefix.seed=1"))
    assert found.startswith("rank 1 has scenario ")


def test_models_are_compared_by_content_not_by_path(tmp_path) -> None:
    shutil.copytree(SCENARIOS.parent / "models" / "tiny_llama", tmp_path / "tiny_llama")
    elsewhere = f"engine.model={tmp_path / 'tiny_llama'}"
    assert differences(hello(), hello(elsewhere)) == []
    (tmp_path / "tiny_llama" / "config.json").write_text("{}")
    assert "its baseline command has tiny_llama:" in differences(hello(), hello(elsewhere))[0]

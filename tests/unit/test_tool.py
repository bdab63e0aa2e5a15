"""A command of vLLM's beside a server: run to its end, or ended with the reason."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dropgate.engine import process
from dropgate.engine.server import Api
from dropgate.engine.tool import run_tool
from dropgate.errors import EngineError
from dropgate.scenario import load_scenario
from dropgate.variants import Address, variant

STANDIN = """#!/bin/sh
echo "ValueError: told $1 $2"
[ "$3" = ends ] && exit "$4"
exec sleep 60
"""
SCENARIO = load_scenario("tiny_eagle3_cpu", ("deadlines.stop=1",))


class Beside(Api):
    """A server that lives, or does not."""

    def __init__(self) -> None:
        self.variant = variant(SCENARIO, "baseline")
        self.address = Address("127.0.0.1", 1, "nonce")
        self.deadlines = SCENARIO.deadlines
        self.died = ""

    def require_alive(self, when: str) -> None:
        if self.died:
            raise EngineError(f"{self.died} {when}")


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    standin = tmp_path / "launcher"
    standin.write_text(STANDIN)
    standin.chmod(0o755)
    monkeypatch.setattr(process, "LAUNCHER", standin)
    return tmp_path / "tool.log"


def run(log: Path, *words: str, server: Beside | None = None, deadline_s: float = 30, going_on=lambda: None) -> None:
    run_tool(server or Beside(), "/usr/bin/env", ["bench", "serve", *words], log, deadline_s, going_on)


def test_a_tool_that_ends_well_leaves_its_log(log: Path) -> None:
    run(log, "ends", "0")
    assert log.read_text() == "dropgate: starts /usr/bin/env\nValueError: told bench serve\n"


def test_a_tool_that_fails_is_quoted(log: Path) -> None:
    with pytest.raises(EngineError, match="baseline: vllm bench serve ended with code 3: ValueError: told bench serve"):
        run(log, "ends", "3")


def test_a_tool_that_hangs_is_ended_at_its_deadline(log: Path) -> None:
    with pytest.raises(EngineError, match=r"did not end within 0\.5 s; log: ValueError"):
        run(log, "hangs", deadline_s=0.5)


def test_a_tool_is_not_waited_for_once_its_server_or_the_run_is_over(log: Path) -> None:
    dead = Beside()
    dead.died = "the engine ended"

    def over() -> None:
        raise EngineError("the run is over")

    began_s = time.monotonic()
    with pytest.raises(EngineError, match="the engine ended during vllm bench serve"):
        run(log, "hangs", server=dead)
    with pytest.raises(EngineError, match="the run is over"):
        run(log, "hangs", going_on=over)
    assert time.monotonic() - began_s < 20

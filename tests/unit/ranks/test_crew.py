"""Leader and follower against each other, on a store in memory and a stand-in for the engine that is a real process."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from buildkite.ci_command.status import read
from dropgate.console import Narrator
from dropgate.engine import environment, process
from dropgate.engine.interpreter import EngineIdentity
from dropgate.engine.process import free_port
from dropgate.engine.server import Server
from dropgate.errors import EngineError
from dropgate.evidence_folder import EvidenceFolder
from dropgate.ranks import follower, leader
from dropgate.ranks.command import follow
from dropgate.ranks.follower import Follower
from dropgate.ranks.leader import Leader
from dropgate.ranks.place import LOOPBACK, Place
from dropgate.ranks.store import LostError, Store
from dropgate.scenario import Scenario, load_scenario
from dropgate.variants import variant

ENGINE = EngineIdentity(python="/usr/bin/env", version="0.32.0", knows_option=True)
ENGINE_STANDIN = """#!/bin/sh
echo "ERROR 12-01 10:00:00 [x.py:1] Worker proc died unexpectedly"
[ "$DROPGATE_STANDIN" = "dies late" ] && sleep 1 && exit 3
[ "$DROPGATE_STANDIN" = dies ] && exit 3
exec sleep 60
"""


class Memory:
    """A TCPStore without the network; ``cut`` makes it one whose other end is gone."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.cut = False

    def set(self, key: str, text: str) -> None:
        self._check()
        self.texts[key] = text.encode()

    def get(self, key: str) -> bytes:
        return self.texts[key]

    def check(self, keys: list[str]) -> bool:
        self._check()
        return all(key in self.texts for key in keys)

    def add(self, key: str, amount: int) -> int:
        self._check()
        self.texts[key] = str(int(self.texts.get(key, b"0")) + amount).encode()
        return int(self.texts[key])

    def _check(self) -> None:
        if self.cut:
            raise RuntimeError("Connection reset by peer")


class Stage:
    """Both sides, ready to be started."""

    def __init__(self, tmp_path: Path, memory: Memory, scenario: Scenario) -> None:
        self.memory = memory
        self.scenario = scenario
        self.tmp_path = tmp_path
        self.place = Place(0, 2, LOOPBACK, free_port(LOOPBACK), LOOPBACK)
        self.crew = Leader(scenario, self.place, ENGINE, lambda _: None)
        self.result: Any = None

    @contextmanager
    def following(self, lacking: str | None = None, **engine: object) -> Iterator[None]:
        place = Place(1, 2, LOOPBACK, self.place.port, LOOPBACK)
        folder = EvidenceFolder(self.tmp_path / "rank1")
        one = Follower(self.scenario, place, ENGINE.model_copy(update=engine), folder, lambda _: None)

        def run() -> None:
            try:
                self.result = one.follow(lacking)
            except EngineError as error:
                self.result = str(error)

        thread = threading.Thread(target=run)
        thread.start()
        yield
        thread.join(30)
        assert not thread.is_alive()

    def server(self) -> Server:
        log = self.tmp_path / "engine.log"
        return Server(self.scenario, variant(self.scenario, "baseline"), ENGINE.python, log, self.crew.master())


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    memory = Memory()
    standin = tmp_path / "engine"
    standin.write_text(ENGINE_STANDIN)
    standin.chmod(0o755)
    monkeypatch.setattr(process, "LAUNCHER", standin)
    monkeypatch.setattr(leader, "open_store", lambda *_: Store(memory, 5))
    monkeypatch.setattr(follower, "join_store", lambda *_: Store(memory, 5))
    monkeypatch.setattr(leader, "CONSEQUENCE_S", 3.0)
    limits = ("deadlines.join=5", "deadlines.lost=2", "deadlines.stop=2")
    return Stage(tmp_path, memory, load_scenario("tiny_eagle3_cpu_2node", limits))


def wait_for(condition, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_follower_starts_stops_and_ends_as_rank_0_ends(stage: Stage) -> None:
    with stage.following(), stage.crew as crew:
        crew.gather()
        with stage.server() as one:
            with crew.beside([one]):
                wait_for(lambda: crew.nodes()[0].servers)
            crew.require_stopped()
        (node,) = crew.nodes()
        crew.finish(1, {"verdict": "fail"})
    assert stage.result == (1, {"verdict": "fail"})
    started = node.servers["baseline"].command
    assert [part for part in started if part not in one.command] == ["1", "--headless"]


def test_a_worker_that_dies_ends_rank_0s_engine_and_is_named(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    starting = follower.Follower._start

    def start_dying(self: Follower, *order: Any) -> None:
        monkeypatch.setitem(environment.ALWAYS, "DROPGATE_STANDIN", "dies")
        starting(self, *order)

    monkeypatch.setattr(follower.Follower, "_start", start_dying)
    with stage.following(), stage.crew as crew:
        crew.gather()
        with stage.server() as one, crew.beside([one]):
            wait_for(lambda: one.process.exit_code() is not None)
            assert crew.faults() == ["rank 1: its baseline worker ended with code 3: Worker proc died unexpectedly"]
            with pytest.raises(EngineError, match="rank 1: its baseline worker"), crew.beside([one]):
                pass
    assert stage.result == (75, None)


def test_what_rank_0s_engine_died_of_is_heard_although_it_died_first(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    starting = follower.Follower._start

    def start_dying_late(self: Follower, *order: Any) -> None:
        monkeypatch.setitem(environment.ALWAYS, "DROPGATE_STANDIN", "dies late")
        starting(self, *order)

    def die_first(crew: Leader, one: Server) -> None:
        with crew.beside([one]):
            wait_for(lambda: crew.nodes()[0].servers)
            raise EngineError("baseline: /metrics: ConnectionError")

    monkeypatch.setattr(follower.Follower, "_start", start_dying_late)
    with stage.following(), stage.crew as crew:
        crew.gather()
        with stage.server() as one, pytest.raises(EngineError, match="ConnectionError"):
            die_first(crew, one)
        assert crew.faults() == ["rank 1: its baseline worker ended with code 3: Worker proc died unexpectedly"]


def test_a_follower_that_falls_silent_is_lost(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "BEAT_S", 60.0)
    with stage.following(), stage.crew as crew:
        crew.gather()
        wait_for(lambda: crew._faults)
        assert crew.faults() == ["rank 1: nothing heard for 2 s: its node or the link to it is gone"]
        began_s = time.monotonic()
    assert time.monotonic() - began_s < leader.END_S


def test_a_leader_that_is_gone_ends_the_follower(stage: Stage) -> None:
    with stage.following():
        stage.crew.gather()
        stage.memory.cut = True
    assert stage.result == "rank 0 is lost: Connection reset by peer"


def test_a_follower_that_lacks_something_says_so_at_once(stage: Stage) -> None:
    lacking = "needs 4 x GB300; this machine has none"
    with stage.following(lacking), stage.crew as crew, pytest.raises(EngineError, match=f"rank 1: {lacking}"):
        crew.gather()
    assert stage.result == (75, None)


def test_a_rank_that_comes_twice_is_turned_away(stage: Stage) -> None:
    stage.memory.add("claim/1", 1)
    with stage.following():
        pass
    assert stage.result == "another rank 1 has come to this run already"


def test_nobody_goes_on_with_another_engine(stage: Stage) -> None:
    other = r"rank 1 has vLLM 0\.31\.0, rank 0 has 0\.32\.0"
    with stage.following(version="0.31.0"), stage.crew as crew, pytest.raises(EngineError, match=other):
        crew.gather()
    assert stage.result == (75, None)


def test_another_dropgate_is_told_from_the_form_of_its_hello(stage: Stage) -> None:
    stage.memory.set("hello/1", '{"rank": 1, "dropgate": "9"}')
    with stage.crew as crew, pytest.raises(EngineError, match="rank 1 says hello in another form"):
        crew.gather()


def test_an_interrupted_leader_ends_the_follower_as_interrupted(stage: Stage) -> None:
    def interrupted() -> None:
        with stage.crew as crew:
            crew.gather()
            raise KeyboardInterrupt

    with stage.following(), pytest.raises(KeyboardInterrupt):
        interrupted()
    assert stage.result == (130, None)


def test_a_follower_leaves_a_verdict_that_ci_can_read(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(1, 2, LOOPBACK, stage.place.port, LOOPBACK)

    def never(*_: object) -> Store:
        raise LostError("rank 0 did not come")

    monkeypatch.setattr(follower, "join_store", never)
    folder = EvidenceFolder(stage.tmp_path / "out")
    code, document = follow(stage.scenario, place, lambda *_: ENGINE, folder, Narrator(quiet=True))
    verdict, reason = read("verdict.json", json.dumps(document).encode())
    assert (code, verdict.value) == (75, "invalid")
    assert "rank 0 did not come" in reason

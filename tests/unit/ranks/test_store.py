"""The rendezvous on the real TCPStore: it listens where it was told, and no wait is longer than its deadline."""

import subprocess
import sys
import threading
import time

import psutil
import pytest

from dropgate.engine.process import free_port
from dropgate.errors import EngineError
from dropgate.ranks.place import LOOPBACK, Place
from dropgate.ranks.store import LostError, Store, join_store, open_store, within

BOTH = """
import sys
from dropgate.ranks.place import Place
from dropgate.ranks.store import join_store
store = join_store(Place(1, 2, "127.0.0.1", int(sys.argv[1]), "127.0.0.1"), 30, 5)
store.put("from/1", "there")
while not store.find("to/1"):
    pass
"""


def test_two_processes_meet_on_one_address_alone() -> None:
    place = Place(0, 2, LOOPBACK, free_port(LOOPBACK), LOOPBACK)
    store = open_store(place, 5)
    listening = [c.laddr for c in psutil.Process().net_connections("inet") if c.status == "LISTEN"]
    assert [laddr.ip for laddr in listening if laddr.port == place.port] == [LOOPBACK]
    assert store.find("from/1") is None
    with subprocess.Popen([sys.executable, "-c", BOTH, str(place.port)]) as other:
        deadline = time.monotonic() + 60
        while not (found := store.find("from/1")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        store.put("to/1", "bye")
        assert (found, other.wait(30)) == ("there", 0)


def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(EngineError, match=r"rank 0: cannot listen on 192\.0\.2\.1:29517: "):
        open_store(Place(0, 2, "192.0.2.1", 29517, "192.0.2.1"), 1)


def test_rank_0_that_does_not_come_is_not_waited_for_longer_than_said() -> None:
    began_s = time.monotonic()
    port = free_port(LOOPBACK)
    with pytest.raises(LostError, match=f"rank 0 did not come to {LOOPBACK}:{port} within 1 s: Connection refused"):
        join_store(Place(1, 2, LOOPBACK, port, LOOPBACK), 1, 1)
    assert time.monotonic() - began_s < 10


class Stuck:
    """A store behind a link that drops packets: nothing returns."""

    def __init__(self) -> None:
        self.end = threading.Event()

    def check(self, _: list[str]) -> bool:
        self.end.wait(30)
        return False

    set = get = check


def test_a_wait_that_does_not_return_is_given_up() -> None:
    stuck = Stuck()
    began_s = time.monotonic()
    with pytest.raises(LostError, match=r"no answer within 0\.2 s"):
        Store(stuck, 0.2).find("key")
    assert time.monotonic() - began_s < 5
    stuck.end.set()


def test_a_broken_connection_is_lost_with_its_own_first_line() -> None:
    def broken() -> None:
        raise RuntimeError("Connection reset by peer\nframe #0")

    with pytest.raises(LostError, match=r"^Connection reset by peer$"):
        within(5, broken)

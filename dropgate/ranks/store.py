"""The rendezvous: torch's TCPStore, which vLLM's own ranks meet by as well, with a deadline on every wait.

Only short texts pass through it, never pickles. Its client's waits end only when the server answers, so each runs in a
thread of its own that is given up once the deadline is over: a link that drops packets may not hold anyone.
"""

from __future__ import annotations

import datetime
import importlib
import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from dropgate.errors import EngineError, UnmetNeedError
from dropgate.ranks.place import Place

Value = TypeVar("Value")
POLL_S = 0.3


class Backend(Protocol):
    """What is used of a TCPStore."""

    def set(self, key: str, value: str) -> object:
        """Set a key."""

    def get(self, key: str) -> bytes:
        """Return a key, once it is set."""

    def check(self, keys: list[str]) -> bool:
        """Tell whether all are set."""

    def add(self, key: str, amount: int) -> int:
        """Add to a number and return the sum."""


class LostError(EngineError):
    """The other side of the rendezvous does not answer any more."""


class Store:
    """Texts by key, seen by every rank."""

    def __init__(self, backend: Backend, deadline_s: float) -> None:
        """Wrap a store that is connected; no call takes longer than the deadline, in seconds."""
        self._backend = backend
        self._deadline_s = deadline_s

    def put(self, key: str, text: str) -> None:
        """Set a key, over what it was.

        Raises:
            LostError: the store does not answer.

        """
        self._call(self._backend.set, key, text)

    def find(self, key: str) -> str | None:
        """Return a key's text, or ``None`` where it is not set; does not wait for it.

        Raises:
            LostError: the store does not answer.

        """
        if not self._call(self._backend.check, [key]):
            return None
        return self._call(self._backend.get, key).decode()

    def claim(self, key: str) -> bool:
        """Tell whether this is the first to claim the key.

        Raises:
            LostError: the store does not answer.

        """
        return self._call(self._backend.add, key, 1) == 1

    def _call(self, call: Callable[..., Value], *arguments: object) -> Value:
        return within(self._deadline_s, call, *arguments)


def within(seconds: float, call: Callable[..., Value], *arguments: object) -> Value:
    """Call, and give up after ``seconds``; the thread that is still at it does not keep the process from ending.

    Raises:
        LostError: no answer in time, or the connection broke.

    """
    answer: queue.SimpleQueue[tuple[Value | None, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put((call(*arguments), None))
        except Exception as error:  # handed to the caller, whatever it is
            answer.put((None, error))

    threading.Thread(target=run, name="rendezvous", daemon=True).start()
    try:
        value, error = answer.get(timeout=seconds)
    except queue.Empty:
        raise LostError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise LostError(str(error).partition("\n")[0][:200] or type(error).__name__)
    return value  # type: ignore[return-value]  # a call that did not raise has returned its own type


def open_store(place: Place, deadline_s: float) -> Store:
    """Open the rendezvous as rank 0, on ``place.listen`` alone.

    Raises:
        EngineError: the address or the port cannot be used.
        UnmetNeedError: there is no torch.

    """
    factory = _tcp_store()
    family = socket.AF_INET6 if ":" in place.listen else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((place.listen, place.port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise EngineError(f"rank 0: cannot listen on {place.listen}:{place.port}: {error.strerror or error}") from None
    limit = datetime.timedelta(seconds=deadline_s)
    # Left to itself the store would listen on every address of the machine.
    return Store(
        factory(
            place.address,
            place.port,
            is_master=True,
            wait_for_workers=False,
            timeout=limit,
            master_listen_fd=listening.detach(),
        ),
        deadline_s,
    )


def join_store(place: Place, join_s: float, deadline_s: float) -> Store:
    """Wait up to ``join_s`` seconds for rank 0's rendezvous and connect to it.

    Raises:
        LostError: it did not come.
        UnmetNeedError: there is no torch.

    """
    factory, limit = _tcp_store(), datetime.timedelta(seconds=deadline_s)

    def connect() -> Backend:
        return factory(place.address, place.port, is_master=False, wait_for_workers=False, timeout=limit)

    end = time.monotonic() + join_s
    problem = "no try"
    while (left := end - time.monotonic()) > 0:
        try:
            # A try of the store's own takes seconds and cannot be cut short.
            socket.create_connection((place.address, place.port), timeout=min(5.0, left)).close()
            return Store(within(left, connect), deadline_s)
        except OSError as error:
            problem = error.strerror or str(error)
            time.sleep(POLL_S)
    raise LostError(f"rank 0 did not come to {place.address}:{place.port} within {join_s:g} s: {problem}")


def _tcp_store() -> Callable[..., Backend]:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # else every refused connection prints a C++ stack
    try:
        found: Callable[..., Backend] = importlib.import_module("torch.distributed").TCPStore
    except ImportError:
        raise UnmetNeedError(
            "a run over several nodes meets by torch's TCPStore, and this interpreter has no torch; "
            "install one of the extras, dropgate[cpu] or dropgate[gpu]"
        ) from None
    return found

"""Rank 0: gathers the others, tells them what to start and stop, and ends the run when one of them is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from dropgate import __version__
from dropgate.engine.interpreter import EngineIdentity
from dropgate.engine.process import free_port
from dropgate.engine.server import Server
from dropgate.errors import EXIT_INTERRUPTED, EXIT_INVALID, EngineError
from dropgate.evidence import NodeFacts, ServerFacts
from dropgate.ranks.local import LocalFollowers
from dropgate.ranks.messages import Hello, Order, State, differences, say_hello
from dropgate.ranks.place import Place
from dropgate.ranks.store import LostError, Store, open_store
from dropgate.scenario import Deadlines, Scenario
from dropgate.variants import Master, server_names

POLL_S = 0.3
CONSEQUENCE_S = 10.0
"""How long a fault of another rank may take to be told, once rank 0's own engine has died of it."""
END_S = 10.0
"""How long rank 0 waits for the others to have read its verdict."""


class Follower:
    """What rank 0 knows of another rank."""

    def __init__(self, rank: int) -> None:
        self.rank = rank
        self.hello: Hello | None = None
        self.state = State(order=0)
        self.beat: str | None = None
        self.heard_s = time.monotonic()
        self.lost = False


class Leader:
    """Rank 0's side of a run: ``with Leader(...) as crew``. Every other rank ends when this context does."""

    def __init__(
        self,
        scenario: Scenario,
        place: Place,
        identity: EngineIdentity,
        say: Callable[[str], None],
        local: LocalFollowers | None = None,
    ) -> None:
        """Prepare; ``gather`` opens the rendezvous. ``local`` are the ranks that rank 0 starts itself."""
        self._scenario = scenario
        self._deadlines: Deadlines = scenario.deadlines
        self._place = place
        self._identity = identity
        self._say = say
        self._local = local
        self._store: Store | None = None
        self._followers = [Follower(rank) for rank in range(1, place.ranks)]
        self._orders = 0
        self._faults: list[str] = []
        self._servers: Sequence[Server] = ()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="ranks", daemon=True)

    def __enter__(self) -> Leader:
        """Do nothing yet."""
        return self

    def __exit__(self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None) -> None:
        """End every other rank, with what this one ends with unless ``finish`` has said it."""
        try:
            self.finish(EXIT_INTERRUPTED if isinstance(error, KeyboardInterrupt) else EXIT_INVALID, None)
        finally:
            if self._local:
                self._local.end()

    def gather(self) -> None:
        """Wait for every rank and refuse to go on unless all have and would start the same.

        Raises:
            EngineError: a rank did not come, cannot take part, or differs; ranks and differences are named.

        """
        self._store = open_store(self._place, self._deadlines.lost)
        if self._local:
            self._local.start()
        self._say(f"waiting for {self._place.ranks - 1} more rank(s) at {self._place.address}:{self._place.port}")
        end = time.monotonic() + self._deadlines.join
        while missing := [one for one in self._followers if not self._greeted(one)]:
            self._require_well()
            self._require_local_alive(missing)
            if time.monotonic() > end:
                names = ", ".join(f"rank {one.rank}" for one in missing)
                self._fail(
                    f"{names} did not come to {self._place.address}:{self._place.port} within "
                    f"{self._deadlines.join:g} s"
                )
            time.sleep(POLL_S)
        for one in self._followers:
            expected = say_hello(self._scenario, self._identity, one.rank, {})
            if one.hello and (odd := differences(expected, one.hello)):
                self._fail("; ".join(odd))
        self._require_well()
        self._watcher.start()

    def _greeted(self, one: Follower) -> bool:
        if one.hello is None and (text := self._find(f"hello/{one.rank}")):
            try:
                one.hello = Hello.model_validate_json(text)
            except ValidationError:
                self._fail(f"rank {one.rank} says hello in another form: it has another dropgate than {__version__}")
            one.heard_s = time.monotonic()
        self._look_at(one)
        return one.hello is not None

    def _require_local_alive(self, missing: Sequence[Follower]) -> None:
        for one in missing:
            code = self._local.exit_code(one.rank) if self._local else None
            if code is not None and not self._greeted(one):
                self._fail(f"rank {one.rank} ended with code {code} before it came")

    def master(self) -> Master:
        """Return where the ranks of the next server meet: a port that is free now, since an earlier one may linger."""
        return Master(self._place.address, free_port(self._place.address), self._place.environment)

    @contextmanager
    def beside(self, servers: Sequence[Server]) -> Iterator[None]:
        """Have every other rank start its workers of these servers; on the way out, have it stop them.

        Raises:
            EngineError: a rank was lost before.

        """
        self._require_well()
        self._servers = servers
        for server in servers:
            master, address = server.master, server.address
            self._order(
                Order(
                    do="start",
                    variant=server.variant.name,
                    host=address.host,
                    port=address.port,
                    served_name=address.served_name,
                    master_port=master.port if master else 0,
                )
            )
        try:
            yield
        except EngineError:
            self.faults()  # once told to stop, a rank has no fault to tell any more
            raise
        finally:
            self._servers = ()
            self._order(Order(do="stop"))

    def require_stopped(self) -> None:
        """Wait until every other rank has carried out all orders: its workers have ended, its GPUs are free.

        Raises:
            EngineError: a rank was lost, or did not get there in time.

        """
        limit = 2 * self._deadlines.stop + self._deadlines.release
        end = time.monotonic() + limit
        while late := [one for one in self._followers if one.state.order < self._orders]:
            self._require_well()
            if time.monotonic() > end:
                names = ", ".join(f"rank {one.rank}" for one in late)
                raise EngineError(f"{names}: its workers did not end within {limit:g} s")
            time.sleep(POLL_S)

    def faults(self) -> list[str]:
        """Return what befell other ranks, in order; waits a moment, since rank 0's engine may have died of it first."""
        end = time.monotonic() + CONSEQUENCE_S
        while self._watcher.is_alive() and not self._faults and time.monotonic() < end:
            time.sleep(POLL_S)
        return list(self._faults)

    def finish(self, code: int, document: dict[str, Any] | None) -> None:
        """Tell the other ranks how the run ended, and give them a moment to read it; only the first call does."""
        if self._store is None or self._over.is_set():
            return
        self._over.set()
        if self._watcher.is_alive():
            self._watcher.join()
        try:
            self._order(Order(do="end", code=code, document=document))
            end = time.monotonic() + END_S
            while time.monotonic() < end and not all(self._has_ended(one) for one in self._followers):
                time.sleep(POLL_S)
        except LostError as error:
            self._say(f"the other ranks were not told the verdict: {error}")

    def _has_ended(self, one: Follower) -> bool:
        self._look_at(one)
        return one.state.ended or one.lost or one.hello is None

    def nodes(self) -> list[NodeFacts]:
        """Return what each other rank said of itself and of what it started."""
        facts = []
        for one in self._followers:
            if one.hello:
                found = {name: self._find(f"server/{one.rank}/{name}") for name in server_names(self._scenario)}
                servers = {name: ServerFacts.model_validate_json(text) for name, text in found.items() if text}
                hello = one.hello
                facts.append(NodeFacts(rank=one.rank, host=hello.host, engine=hello.engine, servers=servers))
        return facts

    def _find(self, key: str) -> str | None:
        assert self._store is not None, "gather() comes first"  # noqa: S101
        return self._store.find(key)

    def _order(self, order: Order) -> None:
        assert self._store is not None, "gather() comes first"  # noqa: S101
        with self._lock:
            self._orders += 1
            self._store.put(f"order/{self._orders}", order.model_dump_json())

    def _watch(self) -> None:
        """Look after the others until the end; the first fault ends rank 0's engines, so that nobody waits on them."""
        while not self._over.wait(POLL_S) and not self._faults:
            for one in self._followers:
                try:
                    self._look_at(one)
                except LostError as error:
                    self._note(f"rank 0: its own rendezvous does not answer: {error}")
        for server in self._servers if self._faults else ():
            server.process.ask_to_stop()

    def _look_at(self, one: Follower) -> None:
        now_s = time.monotonic()
        if (beat := self._find(f"beat/{one.rank}")) != one.beat:
            one.beat, one.heard_s = beat, now_s
        if text := self._find(f"state/{one.rank}"):
            one.state = State.model_validate_json(text)
        if one.state.fault:
            self._note(f"rank {one.rank}: {one.state.fault}")
        elif one.hello and now_s - one.heard_s > self._deadlines.lost and not one.state.ended:
            one.lost = True
            silent_s = self._deadlines.lost
            self._note(f"rank {one.rank}: nothing heard for {silent_s:g} s: its node or the link to it is gone")

    def _note(self, fault: str) -> None:
        if fault not in self._faults and not self._over.is_set():
            self._faults.append(fault)

    def _fail(self, fault: str) -> None:
        self._note(fault)
        self._require_well()

    def _require_well(self) -> None:
        if self._faults:
            raise EngineError(self._faults[0])

"""Every rank but 0: starts the engine's workers when told, says when one dies, stops when told, ends as rank 0 ends."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

from dropgate.engine.interpreter import EngineIdentity
from dropgate.engine.log import first_error
from dropgate.engine.server import Server
from dropgate.errors import EngineError
from dropgate.evidence import ServerFacts
from dropgate.evidence_folder import EvidenceFolder
from dropgate.gpus import used_gib, wait_released
from dropgate.host import host_facts
from dropgate.law import ServerName
from dropgate.ranks.messages import Order, State, say_hello
from dropgate.ranks.place import Place
from dropgate.ranks.store import POLL_S, LostError, Store, join_store
from dropgate.scenario import Scenario
from dropgate.variants import Address, Master, variant

BEAT_S = 1.0


class EndedError(Exception):
    """Rank 0 has ended the run."""

    def __init__(self, code: int, document: dict[str, Any] | None) -> None:
        super().__init__(f"code {code}")
        self.code = code
        self.document = document


class Follower:
    """One rank's part in a run: ``Follower(...).follow()``."""

    def __init__(
        self,
        scenario: Scenario,
        place: Place,
        identity: EngineIdentity,
        folder: EvidenceFolder,
        say: Callable[[str], None],
    ) -> None:
        """Prepare; nothing is started and nobody is met yet."""
        self._scenario = scenario
        self._place = place
        self._identity = identity
        self._folder = folder
        self._say = say
        self._store: Store | None = None
        self._servers: dict[ServerName, Server] = {}
        self._state = State(order=0)
        self._lost: str | None = None
        self._over = threading.Event()
        self._gpus_before_gib = used_gib()

    def follow(self, lacking: str | None = None) -> tuple[int, dict[str, Any] | None]:
        """Take part until rank 0 ends the run; return its exit code and its verdict, if there is one.

        ``lacking`` is what keeps this machine from taking part: it is told, and nothing is started.

        Raises:
            EngineError: rank 0 did not come, or was lost on the way. All that was started here has ended.

        """
        self._join(lacking)
        try:
            while True:
                self._step()
                time.sleep(POLL_S)
        except EndedError as ended:
            self._stop()
            with contextlib.suppress(LostError):  # it has said all, and may be gone
                self._tell(ended=True)
            return ended.code, ended.document
        except LostError as error:
            raise EngineError(f"rank 0 is lost: {self._lost or error}") from None
        except KeyboardInterrupt:
            with contextlib.suppress(LostError):
                self._tell(fault="interrupted")
            raise
        finally:
            self._over.set()
            self._stop()

    def _join(self, lacking: str | None) -> None:
        deadlines, rank = self._scenario.deadlines, self._place.rank
        self._say(f"rank {rank}: waiting for rank 0 at {self._place.address}:{self._place.port}")
        self._store = join_store(self._place, deadlines.join, deadlines.lost)
        if not self._store.claim(f"claim/{rank}"):
            raise EngineError(f"another rank {rank} has come to this run already")
        if lacking:
            self._tell(fault=lacking)
        self._put("hello", say_hello(self._scenario, self._identity, rank, host_facts()).model_dump_json())
        threading.Thread(target=self._beat, name="beat", daemon=True).start()

    def _step(self) -> None:
        if self._lost:
            raise LostError(self._lost)
        dead = [server for server in self._servers.values() if server.process.exit_code() is not None]
        if text := self._find(f"order/{self._state.order + 1}"):
            fault = self._obey(Order.model_validate_json(text))
            self._tell(order=self._state.order + 1, fault=fault or self._state.fault)
        elif dead and not self._state.fault:  # not told to stop before it died
            said = first_error(dead[0].process.log)
            code = dead[0].process.exit_code()
            self._tell(fault=f"its {dead[0].variant.name} worker ended with code {code}: {said}")

    def _obey(self, order: Order) -> str | None:
        """Carry out an order; return what kept it from being carried out, if anything did."""
        if order.do == "end":
            raise EndedError(order.code, order.document)
        if order.do == "start" and order.variant:
            self._start(order, order.variant)
            return None
        self._say(f"rank {self._place.rank}: stopping")
        self._stop()
        try:
            wait_released(self._gpus_before_gib, self._scenario.deadlines.release)
        except EngineError as error:
            return str(error)
        return None

    def _start(self, order: Order, name: ServerName) -> None:
        self._say(f"rank {self._place.rank}: starting the {name} worker")
        server = Server(
            self._scenario,
            variant(self._scenario, name, self._place.rank),
            self._identity.python,
            self._folder.log_path(name),
            Master(self._place.address, order.master_port, self._place.environment),
            Address(order.host, order.port, order.served_name),
        )
        self._servers[name] = server
        server.__enter__()
        facts = ServerFacts(
            command=server.command,
            environment=server.recorded_environment(),
            served_name=server.address.served_name,
        )
        self._put("server", facts.model_dump_json(), f"/{name}")

    def _stop(self) -> None:
        for server in self._servers.values():
            server.process.ask_to_stop()
        for server in self._servers.values():
            server.process.stop()
        self._servers.clear()

    def _beat(self) -> None:
        """Be heard, and hear, even while the engine is being stopped."""
        count = 0
        while not self._over.wait(BEAT_S):
            count += 1
            try:
                self._put("beat", str(count))
            except LostError as error:
                self._lost = str(error)
                return

    def _tell(self, **changes: object) -> None:
        self._state = self._state.model_copy(update=changes)
        self._put("state", self._state.model_dump_json())

    def _put(self, kind: str, text: str, behind: str = "") -> None:
        assert self._store is not None, "follow() comes first"  # noqa: S101
        self._store.put(f"{kind}/{self._place.rank}{behind}", text)

    def _find(self, key: str) -> str | None:
        assert self._store is not None, "follow() comes first"  # noqa: S101
        return self._store.find(key)

"""A vLLM server as the gate sees it: boot until proven ready, counters, cache reset, end."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path

import requests

from dropgate.engine.environment import engine_environment, recorded_environment
from dropgate.engine.log import Step, first_error, steps_in
from dropgate.engine.process import EngineProcess, free_port
from dropgate.errors import EngineError
from dropgate.scenario import Deadlines, Scenario
from dropgate.variants import Address, Master, Variant, api_host, launch_arguments

POLL_S = 0.2
SAY_EVERY_S = 20.0
LOGS_STEPS = "--enable-logging-iteration-details"
PROBE_PROMPT = [17, 18, 19]
"""Shorter than any unit, so that readiness leaves nothing in the prefix cache."""


class Api:
    """What a server answers, wherever it runs."""

    variant: Variant
    address: Address
    deadlines: Deadlines
    boot_s: tuple[float, float] | None = None
    """Monotonic seconds at the start and at readiness, where it was started here."""
    reported_version: str | None = None
    command: list[str]

    @property
    def url(self) -> str:
        """Base URL of the API."""
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"http://{host}:{self.address.port}"

    def require_alive(self, when: str) -> None:
        """Check that the server runs.

        Raises:
            EngineError: it does not.

        """
        raise NotImplementedError

    def recorded_environment(self) -> dict[str, str]:
        """Return the environment that it was started with, as it may be saved."""
        raise NotImplementedError

    def metrics_text(self) -> str:
        """Return the text of /metrics.

        Raises:
            EngineError: the server did not answer.

        """
        return self._get("/metrics").text

    def log_size(self) -> int:
        """Return how long the server's log is, in bytes; 0 where it is somewhere else."""
        return 0

    def steps_since(self, _position: int) -> list[Step] | None:
        """Return the steps that the log has behind a position; ``None`` where the engine does not tell."""
        return None

    def reset_prefix_cache(self) -> bool:
        """Ask for an empty prefix cache; the next request's own count is the proof.

        Raises:
            EngineError: the server did not answer.

        """
        try:
            return requests.post(f"{self.url}/reset_prefix_cache", timeout=60).status_code == 200
        except requests.RequestException as error:
            self.require_alive("at the cache reset")
            raise EngineError(f"{self.variant.name}: /reset_prefix_cache: {type(error).__name__}") from None

    @cached_property
    def _session(self) -> requests.Session:
        """A thousand texts are tokenised over one connection, and over no proxy."""
        session = requests.Session()
        session.trust_env = False
        return session

    def tokenize(self, text: str, add_special_tokens: bool) -> list[int]:
        """Return a text's token ids by the engine's own tokenizer.

        Raises:
            EngineError: the server did not answer with any.

        """
        body = {"model": self.address.served_name, "prompt": text, "add_special_tokens": add_special_tokens}
        try:
            answer = self._session.post(f"{self.url}/tokenize", json=body, timeout=60)
            answer.raise_for_status()
            return [int(token) for token in answer.json()["tokens"]]
        except (requests.RequestException, ValueError, KeyError, OverflowError, TypeError) as error:
            self.require_alive("when asked for /tokenize")
            raise EngineError(f"{self.variant.name}: /tokenize: {type(error).__name__}: {error}"[:300]) from None

    def _get(self, path: str) -> requests.Response:
        try:
            answer = requests.get(f"{self.url}{path}", timeout=60)
            answer.raise_for_status()
        except requests.RequestException as error:
            self.require_alive(f"when asked for {path}")
            raise EngineError(f"{self.variant.name}: {path}: {type(error).__name__}") from None
        return answer


class Server(Api):
    """One variant's server: ``with Server(...) as server: wait_ready([server])``."""

    def __init__(
        self,
        scenario: Scenario,
        variant: Variant,
        python: str,
        log: Path,
        master: Master | None = None,
        address: Address | None = None,
    ) -> None:
        """Prepare the command; entering the context starts it.

        ``master`` is where the ranks of a server over several nodes meet; ``address`` is one that was chosen already.
        """
        self.variant = variant
        self.deadlines = scenario.deadlines
        self.master = master
        self.address = address or _new_address(scenario, master)
        arguments = launch_arguments(scenario, variant, self.address, master)
        self.command = [python, "vllm", *arguments]
        self.process = EngineProcess(python, arguments, log, self.deadlines.stop / 2)
        caller = {**(master.environment if master else {}), **os.environ}
        self.environment = engine_environment(caller, variant.environment, self.process.scratch)

    def __enter__(self) -> Server:
        """Start the engine; ``wait_ready`` awaits several, so that they can boot side by side."""
        self._started_s = time.monotonic()
        self.process.start(self.environment)
        return self

    def __exit__(self, *_: object) -> None:
        """End the engine whatever happened."""
        self.process.stop()
        self._session.close()

    def log_size(self) -> int:
        """Return how long the server's log is, in bytes."""
        return self.process.log.stat().st_size

    def steps_since(self, position: int) -> list[Step] | None:
        """Return the steps that the log has behind a position; ``None`` where they are not logged."""
        return steps_in(self.process.log, position) if LOGS_STEPS in self.command else None

    def recorded_environment(self) -> dict[str, str]:
        """Return the engine's environment as it may be saved."""
        return recorded_environment(self.environment)

    def is_ready(self) -> bool:
        """Tell whether the server is healthy AND has answered one token under this run's served name.

        Raises:
            EngineError: it died (its own first error line is quoted), or the boot deadline has passed.

        """
        if self.boot_s is None and self._healthy():
            self._probe()
            self.reported_version = self._version()
            self.boot_s = (self._started_s, time.monotonic())
        if self.boot_s is None:
            self.require_alive("while booting")
            if time.monotonic() - self._started_s > self.deadlines.boot:
                said = first_error(self.process.log)
                raise EngineError(f"{self.variant.name}: not ready after {self.deadlines.boot:g} s; log: {said}")
        return self.boot_s is not None

    def require_alive(self, when: str) -> None:
        """Check that the engine's process runs.

        Raises:
            EngineError: it has ended; the message has its exit code and its log's first error line.

        """
        code = self.process.exit_code()
        if code is not None:
            said = first_error(self.process.log)
            raise EngineError(f"{self.variant.name}: the engine ended with code {code} {when}: {said}")

    def _healthy(self) -> bool:
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"{self.url}/health", timeout=5).status_code == 200
        return False

    def _version(self) -> str:
        try:
            return str(self._get("/version").json()["version"])
        except (ValueError, KeyError, TypeError) as error:
            raise EngineError(f"{self.variant.name}: /version: {type(error).__name__}: {error}"[:300]) from None

    def _probe(self) -> None:
        body = {"model": self.address.served_name, "prompt": PROBE_PROMPT, "max_tokens": 1, "temperature": 0}
        try:
            answer = requests.post(f"{self.url}/v1/completions", json=body, timeout=self.deadlines.probe)
            tokens = answer.json()["usage"]["completion_tokens"] if answer.ok else 0
        except (requests.RequestException, ValueError, KeyError, TypeError) as error:
            self._give_time_to_die()
            self.require_alive("at its first request")
            raise EngineError(
                f"{self.variant.name}: healthy, but no token within {self.deadlines.probe:g} s: {type(error).__name__}"
            ) from None
        if tokens != 1:
            self._give_time_to_die()
            self.require_alive("at its first request")
            raise EngineError(
                f"{self.variant.name}: healthy, but the first request answered HTTP "
                f"{answer.status_code}: {answer.text[:200]}"
            )

    def _give_time_to_die(self) -> None:
        """Wait a moment: a dying engine drops its connections before its process ends, and its own error says more."""
        deadline = time.monotonic() + 5
        while self.process.exit_code() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)


def _new_address(scenario: Scenario, master: Master | None) -> Address:
    host = api_host(scenario, master.address if master else None)
    return Address(host, scenario.engine.port or free_port(host), f"dropgate-{uuid.uuid4().hex[:12]}")


def wait_ready(servers: Sequence[Server], say: Callable[[str], None] = lambda _: None) -> None:
    """Wait until all are proven ready; ``say`` is told now and then what is still awaited.

    Raises:
        EngineError: one of them will not be; the others are not waited for.

    """
    began_s = said_s = time.monotonic()
    while waiting := [server.variant.name for server in servers if not server.is_ready()]:
        now_s = time.monotonic()
        if now_s - said_s >= SAY_EVERY_S:
            said_s = now_s
            say(f"still booting after {now_s - began_s:.0f} s: {' and '.join(waiting)}")
        time.sleep(POLL_S)


def stop_together(servers: Sequence[Server]) -> None:
    """Ask all to end at once, so that their grace periods overlap."""
    for server in servers:
        server.process.ask_to_stop()
    for server in servers:
        server.process.stop()

"""A process tree that is ours, an engine's first of all: started under a supervisor, ended for certain."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from dropgate.engine.interpreter import LAUNCHER
from dropgate.engine.log import OWN_LINE
from dropgate.errors import EngineError, InputError

SUPERVISOR = Path(__file__).with_name("supervisor.py")
CERTAIN_END_S = 10.0
"""Beyond the grace: the supervisor's own sweep."""


class OwnedProcess:
    """A command and everything that it starts. The supervisor ends it all when this process is gone."""

    def __init__(self, log: Path, stop_grace_s: float) -> None:
        """Prepare a scratch folder that goes when the command does; the grace is in seconds."""
        self.log = log
        self.scratch = tempfile.mkdtemp(prefix="dropgate-")
        self._grace_s = stop_grace_s
        self._supervisor: subprocess.Popen[bytes] | None = None

    def launch(self, command: list[str], environment: dict[str, str]) -> None:
        """Start the command under its supervisor.

        Raises:
            EngineError: its log cannot be written, so that nothing of what it says would be kept.

        """
        with contextlib.ExitStack() as stack:
            try:
                log_file = stack.enter_context(self.log.open("ab", buffering=0))
                log_file.write(f"{OWN_LINE}starts {command[0]}\n".encode())
            except OSError as error:
                shutil.rmtree(self.scratch, ignore_errors=True)
                raise EngineError(f"{self.log}: the log cannot be written: {error.strerror}") from None
            self._supervisor = subprocess.Popen(
                [sys.executable, str(SUPERVISOR), self.scratch, *command],
                stdin=subprocess.PIPE,
                stdout=log_file,
                stderr=log_file,
                env={**environment, "DROPGATE_STOP_GRACE_S": str(self._grace_s)},
                start_new_session=True,  # a Ctrl-C on the terminal is the harness's to handle
            )

    @property
    def pid(self) -> int:
        """Process id of the supervisor: the root of the tree."""
        assert self._supervisor is not None, "launch() comes first"  # noqa: S101
        return self._supervisor.pid

    def exit_code(self) -> int | None:
        """Return how the command ended, 128 + signal for a signal; ``None`` while it runs."""
        return self._supervisor.poll() if self._supervisor else None

    def run(self, command: list[str], environment: dict[str, str], deadline_s: float) -> int | None:
        """Run a command to its end and return its exit code; ``None`` when it had not ended by its deadline."""
        self.launch(command, environment)
        self._wait(deadline_s)
        return self.exit_code()

    def ask_to_stop(self) -> None:
        """Ask for a gentle end without waiting for it."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.terminate()

    def stop(self) -> None:
        """End the command and all that it started: gently within the grace, then for certain. May be repeated."""
        supervisor = self._supervisor
        if supervisor is not None and supervisor.poll() is None:
            self.ask_to_stop()
            self._wait(self._grace_s + CERTAIN_END_S)
        if supervisor is not None and supervisor.stdin:
            with contextlib.suppress(OSError):
                supervisor.stdin.close()
            self._wait(CERTAIN_END_S)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _wait(self, seconds: float) -> None:
        assert self._supervisor is not None  # noqa: S101
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(seconds)


class EngineProcess(OwnedProcess):
    """An engine and everything that it starts."""

    def __init__(self, python: str, arguments: list[str], log: Path, stop_grace_s: float) -> None:
        """Prepare; ``start`` starts it. ``arguments`` follow ``vllm``."""
        super().__init__(log, stop_grace_s)
        self._command = [python, str(LAUNCHER), *arguments]

    def start(self, environment: dict[str, str]) -> None:
        """Start the engine."""
        self.launch(self._command, environment)


def free_port(host: str) -> int:
    """Take a port that is free now; that it is still ours later is what the served name's nonce proves."""
    with socket.create_server((host, 0)) as server:
        port: int = server.getsockname()[1]
        return port


def require_free(scenario: str, host: str, port: int) -> None:
    """Refuse a fixed port on which something listens already.

    Raises:
        InputError: the port is in use.

    """
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            reason = os.strerror(error.errno or 0)
            raise InputError(f"{scenario}: 'engine.port': {host}:{port} cannot be used: {reason}") from None

"""Another of ``vllm``'s commands, run to its end beside a server, with the same certain end as an engine."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from dropgate.engine.environment import engine_environment
from dropgate.engine.log import first_error
from dropgate.engine.process import EngineProcess
from dropgate.engine.server import POLL_S, Api
from dropgate.errors import EngineError


def run_tool(
    server: Api,
    python: str,
    arguments: list[str],
    log: Path,
    deadline_s: float,
    require_going_on: Callable[[], None] = lambda: None,
) -> None:
    """Run ``vllm ARGUMENTS`` to its end; what it prints goes to ``log``. ``require_going_on`` is asked now and then.

    Raises:
        EngineError: it ended with another code than 0, not within ``deadline_s`` seconds, or the server died first.

    """
    what = f"{server.variant.name}: vllm {' '.join(arguments[:2])}"
    process = EngineProcess(python, arguments, log, server.deadlines.stop / 2)
    # A proxy between the tool and the server would be measured too.
    direct = {"NO_PROXY": server.address.host, "no_proxy": server.address.host}
    environment = engine_environment(os.environ, {**server.variant.environment, **direct}, process.scratch)
    end = time.monotonic() + deadline_s
    try:
        process.start(environment)
        while (code := process.exit_code()) is None:
            require_going_on()
            server.require_alive(f"during vllm {' '.join(arguments[:2])}")
            if time.monotonic() > end:
                raise EngineError(f"{what} did not end within {deadline_s:g} s; log: {first_error(log)}")
            time.sleep(POLL_S)
    finally:
        process.stop()
    if code != 0:
        server.require_alive(f"during vllm {' '.join(arguments[:2])}")
        raise EngineError(f"{what} ended with code {code}: {first_error(log)}")

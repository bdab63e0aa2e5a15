"""Faults of the engine as a process: slow, hung, dead."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from dropgate.faults.catalog import Call, fault

STEP = "vllm.v1.engine.core:EngineCore.step"
ADMIT = "vllm.v1.core.sched.scheduler:Scheduler.add_request"
DIES_AT = 80
HANGS_AT = 8
HUNG_FOR_S = 600.0


def _slower(share: float) -> Callable[[Call, Any], Any]:
    def step(call: Call, core: Any) -> Any:
        began = time.perf_counter()
        outputs = call.original(core)
        time.sleep((time.perf_counter() - began) * share)
        call.fire()
        return outputs

    step.__doc__ = f"Every step of the engine takes {share:.0%} longer."
    return step


slower_by_5_percent = fault(STEP, "engine core", "slower_by_5_percent")(_slower(0.05))
slower_by_20_percent = fault(STEP, "engine core", "slower_by_20_percent")(_slower(0.20))
twice_as_slow = fault(STEP, "engine core", "twice_as_slow")(_slower(1.0))


@fault("vllm.v1.core.sched.scheduler:Scheduler.__init__", "engine core")
def dies_at_boot(call: Call, *_arguments: Any, **_named: Any) -> None:
    """The engine dies while it boots."""
    call.fire()
    raise RuntimeError("dropgate's fault: the engine dies at boot")


def _end() -> None:
    """End the engine core and the API server above it, as a machine that runs out of memory would."""
    os.kill(os.getppid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


@fault(ADMIT, "engine core")
def dies_in_the_populating_request(call: Call, scheduler: Any, request: Any) -> None:
    """The engine is killed when the first request after the activation arrives."""
    call.original(scheduler, request)
    call.fire()
    _end()


@fault(ADMIT, "engine core")
def dies_at_request_80(call: Call, scheduler: Any, request: Any) -> None:
    """The engine is killed when the 80th request arrives."""
    call.original(scheduler, request)
    if call.nth(DIES_AT, request.request_id):
        call.fire()
        _end()


@fault(ADMIT, "engine core")
def hangs_while_healthy(call: Call, scheduler: Any, request: Any) -> None:
    """The engine does nothing more, and /health answers 200, until the fault is switched off."""
    call.original(scheduler, request)
    if call.nth(HANGS_AT, request.request_id):
        call.fire()
        call.state["hung"] = True


@fault(STEP, "engine core", "hangs_while_healthy")
def _hang(call: Call, core: Any) -> Any:
    """Wait until the switch is turned; the step that was due is taken then."""
    from dropgate.faults.install import active

    deadline = time.monotonic() + HUNG_FOR_S
    while call.state.get("hung") and active() == "hangs_while_healthy" and time.monotonic() < deadline:
        time.sleep(0.05)
    return call.original(core)

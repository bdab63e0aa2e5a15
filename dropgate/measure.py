"""One phase on one server that is ready: who sends it, and what is kept of the server itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from dropgate.engine.log import first_error
from dropgate.engine.server import Api
from dropgate.engine.tool import run_tool
from dropgate.errors import EngineError
from dropgate.evidence import PhaseEvidence, ServerFacts
from dropgate.scenario import Scenario
from dropgate.workload.bench import BenchPlan, Finished, run_bench
from dropgate.workload.client import Target
from dropgate.workload.protocol import Plan, run_phase

Clock = Callable[[], float]


def target_of(server: Api, clock: Clock) -> Target:
    """Return where a server's requests go."""
    return Target(server.url, server.address.served_name, server.deadlines.request, clock)


def measure_phase(
    server: Api, scenario: Scenario, plan: Plan, clock: Clock, on_done: Callable[[], None] = lambda: None
) -> PhaseEvidence:
    """Run one phase with the gate's own client."""
    return run_phase(server, target_of(server, clock), plan, scenario.deadlines.settle, on_done)


def measure_by_bench(
    server: Api,
    scenario: Scenario,
    plan: BenchPlan,
    clock: Clock,
    python: str,
    folder: Path,
    require_going_on: Callable[[], None] = lambda: None,
) -> PhaseEvidence:
    """Run one phase with the engine's own bench as the client; its log and its JSON stay in ``folder``.

    Raises:
        EngineError: it did not end well within its deadline, the server died, or ``require_going_on`` raised it.

    """

    def execute(name: str, arguments: list[str]) -> Finished:
        log, result = folder / f"bench-{name}.log", folder / f"bench-{name}.json"
        told = [*arguments, "--result-dir", str(folder), "--result-filename", result.name]
        run_tool(server, python, told, log, scenario.deadlines.bench, require_going_on)
        if not result.is_file():
            raise EngineError(f"{server.variant.name}: vllm bench serve saved nothing: {first_error(log)}")
        return Finished(["vllm", *told], result.read_text(encoding="utf-8"), log.read_text(encoding="utf-8"))

    return run_bench(server, target_of(server, clock), scenario, plan, execute)


def server_facts(server: Api, offset_s: float) -> ServerFacts:
    """Say how a server was started; ``offset_s`` turns monotonic seconds into the run's own."""
    boot = server.boot_s and (server.boot_s[0] + offset_s, server.boot_s[1] + offset_s)
    return ServerFacts(
        command=server.command,
        environment=server.recorded_environment(),
        served_name=server.address.served_name,
        reported_version=server.reported_version,
        boot_s=boot,
    )

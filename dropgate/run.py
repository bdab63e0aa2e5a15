"""The one file that joins the stages: scenario -> variants -> engine -> workload -> evidence."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from dropgate import __version__
from dropgate.console import Narrator
from dropgate.engine.interpreter import EngineIdentity, asked_commit, describe_engine, require_option
from dropgate.engine.log import first_error
from dropgate.engine.process import require_free
from dropgate.engine.server import Api, Server, wait_ready
from dropgate.engine.tool import run_tool
from dropgate.errors import EngineError, UnmetNeedError
from dropgate.evidence import (
    TIMING,
    ChangeFacts,
    Costs,
    EngineFacts,
    Evidence,
    EvidenceFolder,
    PhaseEvidence,
    ServerFacts,
    VariantEvidence,
)
from dropgate.gpus import used_gib, wait_released
from dropgate.host import MemoryWatch, change_under_test, host_facts, unmet_need
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.ranks.crew import ALONE, Crew
from dropgate.ranks.place import Place
from dropgate.scenario import Scenario
from dropgate.variants import api_host, variant
from dropgate.workload.bench import Finished, run_bench
from dropgate.workload.client import Target
from dropgate.workload.protocol import run_prefix

Clock = Callable[[], float]


def preflight(scenario: Scenario, place: Place | None = None) -> EngineIdentity:
    """Look at everything that can be known before anything is started, on one node.

    Raises:
        UnmetNeedError: this machine lacks what the scenario needs.
        InputError: the engine or the port cannot be used.

    """
    if lacking := unmet_need(scenario.needs):
        raise UnmetNeedError(f"{scenario.name}: {lacking}")
    identity = require_option(describe_engine())
    if scenario.engine.port is not None and (place is None or place.rank == 0):
        require_free(scenario.name, api_host(scenario, place.address if place else None), scenario.engine.port)
    return identity


def run(
    scenario: Scenario,
    identity: EngineIdentity,
    folder: EvidenceFolder,
    narrator: Narrator,
    began_s: float | None = None,
    crew: Crew = ALONE,
    attached: Mapping[VariantName, Api] | None = None,
) -> Evidence:
    """Run a scenario that passed ``preflight`` and save its evidence, whole, before anything is judged.

    ``began_s`` is the monotonic time at which the run's clock began; now, if not given. ``crew`` are the other ranks.
    ``attached`` are servers that run already: nothing is booted or stopped then. What goes wrong on the way is
    evidence too. A KeyboardInterrupt is raised again once the engines have ended and the evidence is saved.
    """
    began_s = time.monotonic() if began_s is None else began_s
    one = _Run(scenario, identity, folder, narrator, lambda: time.monotonic() - began_s, crew, attached or {})
    interrupted = False
    with MemoryWatch() as memory:
        try:
            one.measure_attached() if attached else one.measure()
        except EngineError as error:
            one.errors += dict.fromkeys([*crew.faults(), str(error)])
        except KeyboardInterrupt:
            interrupted = True
            one.errors.append("interrupted")
    evidence = one.evidence(memory.peak_gib)
    folder.close(evidence)
    if interrupted:
        raise KeyboardInterrupt
    return evidence


class _Run:
    """A run under way: what has been seen so far."""

    def __init__(
        self,
        scenario: Scenario,
        identity: EngineIdentity,
        folder: EvidenceFolder,
        narrator: Narrator,
        clock: Clock,
        crew: Crew,
        attached: Mapping[VariantName, Api],
    ) -> None:
        self.scenario = scenario
        self.identity = identity
        self.folder = folder
        self.narrator = narrator
        self.clock = clock
        self.crew = crew
        self.gpus_before_gib = used_gib()
        self.created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.attached = bool(attached)
        self.servers: dict[VariantName, Api] = dict(attached)
        self.phases: dict[VariantName, dict[str, PhaseEvidence]] = {}
        self.errors: list[str] = []

    def measure(self) -> None:
        """Boot the variants as the scenario says and send both the same work."""
        together: Sequence[Sequence[VariantName]] = [VARIANT_NAMES]
        if self.scenario.engine.boot == "one_by_one":
            together = [[name] for name in VARIANT_NAMES]
        self.crew.gather()
        for names in together:
            with ExitStack() as stack:
                servers = [stack.enter_context(self._server(name)) for name in names]
                with self.crew.beside(servers):
                    self.narrator.say(f"booting {' and '.join(names)}: vLLM {self.identity.version}")
                    wait_ready(servers, self.narrator.say)
                    for server in servers:
                        self._work(server)
                    self._time(servers)
                    self.narrator.say("stopping " + " and ".join(names))
                stop_together(servers)
                self.crew.require_stopped()
                wait_released(self.gpus_before_gib, self.scenario.deadlines.release)

    def measure_attached(self) -> None:
        """Send both servers the same work, as they are."""
        servers = list(self.servers.values())
        for server in servers:
            self._work(server)
        self._time(servers)

    def _server(self, name: VariantName) -> Server:
        log = self.folder.log_path(name)
        chosen = variant(self.scenario, name)
        server = self.servers[name] = Server(self.scenario, chosen, self.identity.python, log, self.crew.master())
        return server

    def _work(self, server: Api) -> None:
        name, total = server.variant.name, self.scenario.workloads.prefix.requests
        with self.narrator.counting(f"{name}: {total} requests", total) as done:
            if self.scenario.workloads.prefix.driver == "bench":
                phase = self._bench(server)
            else:
                phase = measure_prefix(server, self.scenario, self.clock, done)
        self.phases[name] = {"prefix": phase}
        self.folder.save_phase(name, "prefix", phase)
        server.require_alive("during the requests")

    def _time(self, servers: Sequence[Api]) -> None:
        """Run the blocks whose times are compared, in the order ABBA over the servers that are up."""
        if not (timing := self.scenario.workloads.timing):
            return
        short = self.scenario.workloads.prefix.model_copy(update={"requests": timing.requests})
        for block in range(timing.blocks):
            for server in servers if block % 2 == 0 else servers[::-1]:
                name = server.variant.name
                self.narrator.say(f"{name}: block {block + 1} of {timing.blocks}")
                target = Target(server.url, server.address.served_name, self.scenario.deadlines.request, self.clock)
                phase = run_prefix(server, target, short, self.scenario.deadlines.settle)
                self.phases[name][f"{TIMING}{block}"] = phase
                self.folder.save_phase(name, f"{TIMING}{block}", phase)
                server.require_alive("during the timed blocks")

    def _bench(self, server: Api) -> PhaseEvidence:
        """Run the prefix workload with the engine's own bench as the client, and keep what it printed."""
        folder = self.folder.path / server.variant.name
        execute = partial(execute_bench, server, self.identity.python, folder, self.scenario.deadlines.bench)
        target = Target(server.url, server.address.served_name, self.scenario.deadlines.request, self.clock)
        return run_bench(server, target, self.scenario, execute)

    def evidence(self, peak_memory_gib: float) -> Evidence:
        """Put together all that was seen."""
        offset_s = self.clock() - time.monotonic()
        identity = self.identity.model_dump(include={"version", "python", "packages", "commit"})
        change = change_under_test()
        variants = {
            name: VariantEvidence(server=server_facts(server, offset_s), phases=self.phases.get(name, {}))
            for name, server in self.servers.items()
        }
        busy = union_length(_busy_intervals(variants))
        costs = Costs(wall_s=self.clock(), engine_s=busy, peak_memory_gib=peak_memory_gib) if busy else None
        return Evidence(
            dropgate=__version__,
            scenario=self.scenario,
            created=self.created,
            host=host_facts(),
            engine=EngineFacts(**identity, asked_commit=asked_commit()),
            change=ChangeFacts.model_validate(change) if change else None,
            variants=variants,
            nodes=self.crew.nodes(),
            attached=self.attached,
            errors=self.errors,
            costs=costs,
        )


def measure_prefix(
    server: Api, scenario: Scenario, clock: Clock, on_done: Callable[[], None] = lambda: None
) -> PhaseEvidence:
    """Run the scenario's prefix workload on one server that is ready; the baseline answers the control too."""
    target = Target(server.url, server.address.served_name, scenario.deadlines.request, clock)
    work, deadlines = scenario.workloads.prefix, scenario.deadlines
    control = work.control if server.variant.name == "baseline" else 0
    return run_prefix(server, target, work, deadlines.settle, control, on_done)


def execute_bench(
    server: Api, python: str, folder: Path, deadline_s: float, name: str, arguments: list[str]
) -> Finished:
    """Run ``vllm bench serve`` against a server, as this run's own process; its log and its JSON stay in ``folder``.

    Raises:
        EngineError: it did not end well within ``deadline_s`` seconds, or the server died.

    """
    log, result = folder / f"bench-{name}.log", folder / f"bench-{name}.json"
    told = [*arguments, "--result-dir", str(folder), "--result-filename", result.name]
    run_tool(server, python, told, log, deadline_s)
    if not result.is_file():
        raise EngineError(f"{server.variant.name}: vllm bench serve saved nothing: {first_error(log)}")
    return Finished(["vllm", *told], result.read_text(encoding="utf-8"), log.read_text(encoding="utf-8"))


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


def stop_together(servers: Sequence[Server]) -> None:
    """Ask all to end at once, so that their grace periods overlap."""
    for server in servers:
        server.process.ask_to_stop()
    for server in servers:
        server.process.stop()


def _busy_intervals(variants: dict[VariantName, VariantEvidence]) -> list[tuple[float, float]]:
    intervals = [seen.server.boot_s for seen in variants.values() if seen.server.boot_s]
    for seen in variants.values():
        for phase in seen.phases.values():
            intervals.append((phase.started_s, phase.finished_s))
            untimed = [*phase.populate, *phase.control]
            intervals += [(record.sent_s, record.finished_s or record.sent_s) for record in untimed]
    return intervals


def union_length(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the length of the union of closed intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total

"""The one file that joins the stages: scenario -> variants -> engine -> workload -> evidence."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from dropgate import __version__
from dropgate.console import Narrator
from dropgate.engine.interpreter import EngineIdentity, asked_commit, describe_engine, require_option
from dropgate.engine.process import OwnedProcess, require_free
from dropgate.engine.server import Server, wait_ready
from dropgate.errors import EngineError, UnmetNeedError
from dropgate.evidence import (
    AccuracyEvidence,
    ChangeFacts,
    Costs,
    EngineFacts,
    Evidence,
    PhaseEvidence,
    QuestionSet,
    ReferenceRates,
    ServerFacts,
    VariantEvidence,
)
from dropgate.evidence_folder import EvidenceFolder
from dropgate.host import MemoryWatch, change_under_test, host_facts, unmet_need
from dropgate.law import ServerName
from dropgate.rates import known_rates
from dropgate.scenario import Scenario
from dropgate.variants import server_names, variant
from dropgate.workload.accuracy import measure_accuracy, require_lm_eval, require_rows
from dropgate.workload.client import Target
from dropgate.workload.gsm8k import asked, gsm8k_plans, question_set
from dropgate.workload.protocol import Plan, prefix_plan, run_phase
from dropgate.workload.questions import Questions, load_questions

Clock = Callable[[], float]


@dataclass(frozen=True)
class Prepared:
    """What is known before anything is started."""

    identity: EngineIdentity
    questions: Questions | None = None
    """What scenario B asks."""
    scored: Questions | None = None
    """What lm-eval scores."""


def preflight(scenario: Scenario, gsm8k: Path | None = None, say: Callable[[str], None] = lambda _: None) -> Prepared:
    """Look at everything that can be known before anything is started; ``gsm8k`` is a file of questions.

    Raises:
        UnmetNeedError: this machine, or the data, lacks what the scenario needs.
        InputError: the engine, the port or the data cannot be used.

    """
    if lacking := unmet_need(scenario.needs):
        raise UnmetNeedError(f"{scenario.name}: {lacking}")
    identity = require_option(describe_engine())
    if scenario.engine.port is not None:
        require_free(scenario.name, scenario.engine.host, scenario.engine.port)
    if not (work := scenario.workloads.gsm8k):
        return Prepared(identity)
    questions = load_questions(gsm8k, say)
    asked(questions, work)
    if not work.accuracy:
        return Prepared(identity, questions)
    require_lm_eval()
    return Prepared(identity, questions, require_rows(questions, work.accuracy))


def run(
    scenario: Scenario,
    prepared: Prepared,
    folder: EvidenceFolder,
    narrator: Narrator,
    began_s: float | None = None,
) -> Evidence:
    """Run a scenario that passed ``preflight`` and save its evidence, whole, before anything is judged.

    ``began_s`` is the monotonic time at which the run's clock began; now, if not given. What goes wrong on the way is
    evidence too. A KeyboardInterrupt is raised again once the engines have ended and the evidence is saved.
    """
    began_s = time.monotonic() if began_s is None else began_s
    one = _Run(scenario, prepared, folder, narrator, lambda: time.monotonic() - began_s)
    interrupted = False
    with MemoryWatch() as memory:
        try:
            one.measure()
        except EngineError as error:
            one.errors.append(str(error))
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
        prepared: Prepared,
        folder: EvidenceFolder,
        narrator: Narrator,
        clock: Clock,
    ) -> None:
        self.scenario = scenario
        self.prepared = prepared
        self.identity = prepared.identity
        self.folder = folder
        self.narrator = narrator
        self.clock = clock
        self.created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.servers: dict[ServerName, Server] = {}
        self.phases: dict[ServerName, dict[str, PhaseEvidence]] = {}
        self.accuracy: dict[ServerName, AccuracyEvidence] = {}
        self.questions: QuestionSet | None = None
        self.rates: ReferenceRates | None = None
        self.errors: list[str] = []

    def measure(self) -> None:
        """Boot the servers as the scenario says and send all the same work."""
        names = server_names(self.scenario)
        together: Sequence[Sequence[ServerName]] = [names]
        if self.scenario.engine.boot == "one_by_one":
            together = [[name] for name in names]
        for group in together:
            with ExitStack() as stack:
                # Entered first and so left last: its threads end once their servers have.
                pool = stack.enter_context(ThreadPoolExecutor(len(group), thread_name_prefix="server"))
                servers = [stack.enter_context(self._server(name)) for name in group]
                self.narrator.say(f"booting {' and '.join(group)}: vLLM {self.identity.version}")
                wait_ready(servers, self.narrator.say)
                for server in servers:
                    self._work_timed(server)
                self._work_together(servers, pool, stack)
                self.narrator.say("stopping " + " and ".join(group))
                stop_together(servers)

    def _server(self, name: ServerName) -> Server:
        log = self.folder.log_path(name)
        self.servers[name] = Server(self.scenario, variant(self.scenario, name), self.identity.python, log)
        return self.servers[name]

    def _work_timed(self, server: Server) -> None:
        """Run scenario A, whose times are compared: on one server after the other."""
        name, work = server.variant.name, self.scenario.workloads.prefix
        if work is None or name == "oracle":
            return
        plan = prefix_plan(work, control=name == "baseline")
        with self.narrator.counting(f"{name}: {plan.requests} requests", plan.requests) as done:
            self._run_phase(server, "prefix", plan, done)

    def _work_together(self, servers: Sequence[Server], pool: ThreadPoolExecutor, stack: ExitStack) -> None:
        """Run scenario B, of which only counts and answers are compared: on all servers at once."""
        work = self.scenario.workloads.gsm8k
        if work is None or self.prepared.questions is None:
            return
        if self.questions is None:
            self.questions = question_set(self.prepared.questions, work, servers[0].tokenize)
            self.rates = known_rates(self.scenario, self.questions.sha256, len(self.questions.token_ids))
            self.folder.save_questions(self.questions)
        plans = {server.variant.name: gsm8k_plans(work, self.questions, server.variant.name) for server in servers}
        total = sum(plan.requests for phases in plans.values() for plan in phases.values())
        scorers = {name: self._scorer(name, stack) for name in plans if self.prepared.scored and name != "oracle"}
        with self.narrator.counting(f"GSM8K, {' and '.join(plans)}: {total} requests", total) as done:

            def ask(server: Server) -> None:
                name = server.variant.name
                for workload, plan in plans[name].items():
                    self._run_phase(server, workload, plan, done)
                if name in scorers:
                    self._score(server, scorers[name])

            for finished in as_completed([pool.submit(ask, server) for server in servers]):
                finished.result()

    def _run_phase(self, server: Server, workload: str, plan: Plan, done: Callable[[], None]) -> None:
        name = server.variant.name
        phase = measure_phase(server, self.scenario, plan, self.clock, done)
        self.phases.setdefault(name, {})[workload] = phase
        self.folder.save_phase(name, workload, phase)
        server.require_alive("during the requests")

    def _scorer(self, name: ServerName, stack: ExitStack) -> OwnedProcess:
        owned = OwnedProcess(self.folder.path / name / "lm_eval.log", stop_grace_s=1)
        stack.callback(owned.stop)
        return owned

    def _score(self, server: Server, owned: OwnedProcess) -> None:
        """Let lm-eval score one server, with an empty cache."""
        work, scored = self.scenario.workloads.gsm8k, self.prepared.scored
        assert work is not None  # noqa: S101
        assert scored is not None  # noqa: S101
        deadlines, name = self.scenario.deadlines, server.variant.name
        server.reset_prefix_cache()
        target = Target(server.url, server.address.served_name, deadlines.request, self.clock)
        self.accuracy[name] = measure_accuracy(target, work, scored, owned, deadlines.accuracy)
        self.folder.save_accuracy(name, self.accuracy[name])
        server.require_alive("during lm-eval")

    def evidence(self, peak_memory_gib: float) -> Evidence:
        """Put together all that was seen."""
        offset_s = self.clock() - time.monotonic()
        identity = self.identity.model_dump(include={"version", "python", "packages", "commit"})
        change = change_under_test()
        variants = {
            name: VariantEvidence(
                server=server_facts(server, offset_s),
                phases=self.phases.get(name, {}),
                accuracy=self.accuracy.get(name),
            )
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
            questions=self.questions,
            reference_rates=self.rates,
            errors=self.errors,
            costs=costs,
        )


def measure_phase(
    server: Server, scenario: Scenario, plan: Plan, clock: Clock, on_done: Callable[[], None] = lambda: None
) -> PhaseEvidence:
    """Run one phase on a server that is ready."""
    target = Target(server.url, server.address.served_name, scenario.deadlines.request, clock)
    return run_phase(server, target, plan, scenario.deadlines.settle, on_done)


def server_facts(server: Server, offset_s: float) -> ServerFacts:
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


def _busy_intervals(variants: dict[ServerName, VariantEvidence]) -> list[tuple[float, float]]:
    intervals = [seen.server.boot_s for seen in variants.values() if seen.server.boot_s]
    for seen in variants.values():
        for phase in seen.phases.values():
            intervals.append((phase.started_s, phase.finished_s))
            untimed = [*phase.populate, *phase.control, *phase.warm_control]
            intervals += [(record.sent_s, record.finished_s or record.sent_s) for record in untimed]
        if seen.accuracy:
            intervals.append((seen.accuracy.started_s, seen.accuracy.finished_s))
    return intervals


def union_length(intervals: Sequence[tuple[float, float]]) -> float:
    """Return the length of the union of closed intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total

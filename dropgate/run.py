"""The one file that joins the stages: scenario -> variants -> engine -> workload -> evidence."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack

from dropgate import __version__
from dropgate.console import Narrator
from dropgate.engine.interpreter import asked_commit
from dropgate.engine.process import OwnedProcess
from dropgate.engine.server import Api, Server, stop_together, wait_ready
from dropgate.errors import EngineError
from dropgate.evidence import (
    COLD_PHASE,
    TIMING,
    AccuracyEvidence,
    ChangeFacts,
    EngineFacts,
    Evidence,
    PhaseEvidence,
    QuestionSet,
    ReferenceRates,
    VariantEvidence,
    costs_of,
)
from dropgate.evidence_folder import EvidenceFolder
from dropgate.gpus import used_gib, wait_released
from dropgate.host import MemoryWatch, change_under_test, host_facts
from dropgate.law import ServerName, VariantName
from dropgate.measure import Clock, measure_by_bench, measure_phase, server_facts, target_of
from dropgate.preflight import Prepared
from dropgate.ranks.crew import ALONE, Crew
from dropgate.rates import known_rates
from dropgate.scenario import Scenario
from dropgate.scenario.workloads import Gsm8k
from dropgate.variants import server_names, variant
from dropgate.workload.accuracy import measure_accuracy
from dropgate.workload.bench import DATASET, BenchPlan, gsm8k_bench, prefix_bench
from dropgate.workload.gsm8k import gsm8k_plans, question_set
from dropgate.workload.protocol import Plan, prefix_plan
from dropgate.workload.questions import sharegpt


def run(
    scenario: Scenario,
    prepared: Prepared,
    folder: EvidenceFolder,
    narrator: Narrator,
    began_s: float | None = None,
    crew: Crew = ALONE,
    attached: Mapping[VariantName, Api] | None = None,
) -> Evidence:
    """Run a scenario that is prepared and save its evidence, whole, before anything is judged.

    ``began_s`` is the monotonic time at which the run's clock began; now, if not given. ``crew`` are the other ranks.
    ``attached`` are servers that run already: nothing is booted or stopped then. What goes wrong on the way is
    evidence too. A KeyboardInterrupt is raised again once the engines have ended and the evidence is saved.
    """
    began_s = time.monotonic() if began_s is None else began_s
    one = _Run(scenario, prepared, folder, narrator, lambda: time.monotonic() - began_s, crew)
    interrupted = False
    with MemoryWatch() as memory:
        try:
            one.measure_attached(attached) if attached else one.measure()
        except EngineError as error:
            one.errors += dict.fromkeys([*crew.faults(), str(error)])
        except KeyboardInterrupt:
            interrupted = True
            one.errors.append("interrupted")
    evidence = one.evidence(memory.peak_gib, bool(attached))
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
        crew: Crew,
    ) -> None:
        self.scenario = scenario
        self.prepared = prepared
        self.identity = prepared.identity
        self.folder = folder
        self.narrator = narrator
        self.clock = clock
        self.crew = crew
        self.gpus_before_gib = used_gib()
        self.created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        self.servers: dict[ServerName, Api] = {}
        self.phases: dict[ServerName, dict[str, PhaseEvidence]] = {}
        self.accuracy: dict[ServerName, AccuracyEvidence] = {}
        self.questions: QuestionSet | None = None
        self.rates: ReferenceRates | None = None
        self.errors: list[str] = []
        self.over = threading.Event()

    def measure(self) -> None:
        """Boot the servers as the scenario says and send all the same work."""
        names = server_names(self.scenario)
        together: Sequence[Sequence[ServerName]] = [names]
        if self.scenario.engine.boot == "one_by_one":
            together = [[name] for name in names]
        self.crew.gather()
        for group in together:
            with ExitStack() as stack:
                pool = self._pool(stack, len(group))
                servers = [stack.enter_context(self._server(name)) for name in group]
                with self.crew.beside(servers):
                    self.narrator.say(f"booting {' and '.join(group)}: vLLM {self.identity.version}")
                    wait_ready(servers, self.narrator.say)
                    self._work(servers, pool, stack)
                    self.narrator.say("stopping " + " and ".join(group))
                stop_together(servers)
                self.crew.require_stopped()
                wait_released(self.gpus_before_gib, self.scenario.deadlines.release)

    def measure_attached(self, attached: Mapping[VariantName, Api]) -> None:
        """Send servers that run already the same work, as they are."""
        self.servers.update(attached.items())
        with ExitStack() as stack:
            self._work(list(attached.values()), self._pool(stack, len(attached)), stack)

    def _pool(self, stack: ExitStack, servers: int) -> ThreadPoolExecutor:
        """Return one thread a server; entered first and so left last, when their servers have ended or it is over."""
        pool = stack.enter_context(ThreadPoolExecutor(servers, thread_name_prefix="server"))
        self.over = threading.Event()
        stack.callback(self.over.set)
        return pool

    def _require_going_on(self) -> None:
        """Hold up what a thread still sends: a server that was attached does not end with the run."""
        if self.over.is_set():
            raise EngineError("the run is over")

    def _server(self, name: ServerName) -> Server:
        log, chosen = self.folder.log_path(name), variant(self.scenario, name)
        server = self.servers[name] = Server(self.scenario, chosen, self.identity.python, log, self.crew.master())
        return server

    def _work(self, servers: Sequence[Api], pool: ThreadPoolExecutor, stack: ExitStack) -> None:
        """Run scenario A on one server after the other, since its times are compared; then B on all at once."""
        variants = [server for server in servers if server.variant.name != "oracle"]
        for server in variants:
            self._work_timed(server)
        self._work_in_turns(variants)
        self._work_together(servers, pool, stack)

    def _work_timed(self, server: Api) -> None:
        name, work = server.variant.name, self.scenario.workloads.prefix
        if work is None:
            return
        plan = prefix_bench(work) if work.driver == "bench" else prefix_plan(work, control=name == "baseline")
        with self.narrator.counting(f"{name}: {plan.requests} requests", plan.requests) as done:
            self._run_phase(server, "prefix", plan, done)

    def _work_in_turns(self, servers: Sequence[Api]) -> None:
        """Run the blocks whose times are compared, in the order ABBA over the servers that are up."""
        work, timing = self.scenario.workloads.prefix, self.scenario.workloads.timing
        if work is None or timing is None or not servers:
            return
        plan = prefix_plan(work.model_copy(update={"requests": timing.requests}), control=False)
        total = timing.blocks * len(servers) * plan.requests
        names = " and ".join(server.variant.name for server in servers)
        with self.narrator.counting(f"timing, {names}: {timing.blocks} blocks each", total) as done:
            for block in range(timing.blocks):
                for server in servers if block % 2 == 0 else servers[::-1]:
                    self._run_phase(server, f"{TIMING}{block}", plan, done)

    def _work_together(self, servers: Sequence[Api], pool: ThreadPoolExecutor, stack: ExitStack) -> None:
        """Run scenario B, of which only counts and answers are compared."""
        work = self.scenario.workloads.gsm8k
        if work is None or self.prepared.questions is None:
            return
        questions = self.questions = self.questions or self._ask(work, servers[0])
        plans = {server.variant.name: self._gsm8k_plans(work, questions, server.variant.name) for server in servers}
        total = sum(plan.requests for phases in plans.values() for plan in phases.values())
        scorers = {name: self._scorer(name, stack) for name in plans if self.prepared.scored and name != "oracle"}
        with self.narrator.counting(f"GSM8K, {' and '.join(plans)}: {total} requests", total) as done:

            def count() -> None:
                self._require_going_on()
                done()

            def ask(server: Api) -> None:
                name = server.variant.name
                for workload, plan in plans[name].items():
                    self._run_phase(server, workload, plan, count)
                if name in scorers:
                    self._score(server, work, scorers[name])

            for finished in as_completed([pool.submit(ask, server) for server in servers]):
                finished.result()

    def _ask(self, work: Gsm8k, server: Api) -> QuestionSet:
        """Tokenise the questions, once for all servers, and keep what they are compared with."""
        assert self.prepared.questions is not None  # noqa: S101
        questions = question_set(self.prepared.questions, work, server.tokenize)
        self.rates = known_rates(self.scenario, questions.sha256, len(questions.token_ids))
        self.folder.save_questions(questions)
        if work.driver == "bench":
            self.folder.write(DATASET, sharegpt(self.prepared.questions, work.template))
        return questions

    def _gsm8k_plans(self, work: Gsm8k, questions: QuestionSet, name: ServerName) -> dict[str, Plan | BenchPlan]:
        """Return both paths' phases for one server; a bench sends the cold one, and nothing to the oracle."""
        plans: dict[str, Plan | BenchPlan] = {**gsm8k_plans(work, questions, name)}
        if work.driver == "bench":
            plans[COLD_PHASE] = gsm8k_bench(work, questions, (self.folder.path / DATASET).absolute())
            if name == "oracle":
                del plans[COLD_PHASE]
        return plans

    def _run_phase(self, server: Api, workload: str, plan: Plan | BenchPlan, done: Callable[[], None]) -> None:
        name = server.variant.name
        if isinstance(plan, BenchPlan):
            folder = self.folder.server_folder(name).absolute()
            python, going_on = self.identity.python, self._require_going_on
            phase = measure_by_bench(server, self.scenario, plan, self.clock, python, folder, going_on)
            for _ in range(plan.requests):
                done()
        else:
            phase = measure_phase(server, self.scenario, plan, self.clock, done)
        self.phases.setdefault(name, {})[workload] = phase
        self.folder.save_phase(name, workload, phase)
        server.require_alive("during the requests")

    def _scorer(self, name: ServerName, stack: ExitStack) -> OwnedProcess:
        owned = OwnedProcess(self.folder.server_folder(name) / "lm_eval.log", stop_grace_s=1)
        stack.callback(owned.stop)
        return owned

    def _score(self, server: Api, work: Gsm8k, owned: OwnedProcess) -> None:
        """Let lm-eval score one server, with an empty cache."""
        assert self.prepared.scored is not None  # noqa: S101
        name, target = server.variant.name, target_of(server, self.clock)
        server.reset_prefix_cache()
        deadline_s = self.scenario.deadlines.accuracy
        self.accuracy[name] = measure_accuracy(target, work, self.prepared.scored, owned, deadline_s)
        self.folder.save_accuracy(name, self.accuracy[name])
        server.require_alive("during lm-eval")

    def evidence(self, peak_memory_gib: float, attached: bool) -> Evidence:
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
        return Evidence(
            dropgate=__version__,
            scenario=self.scenario,
            created=self.created,
            host=host_facts(),
            engine=EngineFacts(**identity, asked_commit=asked_commit()),
            change=ChangeFacts.model_validate(change) if change else None,
            variants=variants,
            nodes=self.crew.nodes(),
            attached=attached,
            questions=self.questions,
            reference_rates=self.rates,
            errors=self.errors,
            costs=costs_of(variants, self.clock(), peak_memory_gib),
        )

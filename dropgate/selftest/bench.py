"""Engines that can be broken on purpose, and the workloads on them: clean, and with a fault in one variant or both."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from dropgate import __version__
from dropgate.engine.interpreter import EngineIdentity, describe_engine, require_option
from dropgate.engine.server import Server, stop_together, wait_ready
from dropgate.errors import DropgateError, EngineError
from dropgate.evidence import TIMING, EngineFacts, Evidence, PhaseEvidence, QuestionSet, ReferenceRates, VariantEvidence
from dropgate.evidence_folder import EvidenceFolder, load_evidence
from dropgate.faults import MARKER, VARIABLE
from dropgate.faults.switch import FaultSwitch
from dropgate.host import host_facts
from dropgate.judge import Check, Judgement, Verdict, judge
from dropgate.judge.trust import NO_FAULT
from dropgate.judge.verdict import combine
from dropgate.law import VARIANT_NAMES, ServerName, VariantName
from dropgate.measure import measure_phase, server_facts
from dropgate.metrics import parse_snapshot
from dropgate.rates import rates_of
from dropgate.scenario import Scenario
from dropgate.selftest.works import WorkName, work_scenario
from dropgate.variants import server_names, variant
from dropgate.workload.gsm8k import gsm8k_plans, question_set
from dropgate.workload.protocol import Plan, prefix_plan
from dropgate.workload.questions import GENERATED, load_questions

IDLE_WITHIN_S = 30.0
EQUAL = "equal"
Seen = dict[ServerName, VariantEvidence]


class NotCleanError(DropgateError):
    """Engines without a fault do not pass: nothing that a fault shows on them would prove anything."""


def clock() -> float:
    """Return seconds, of which only differences are used."""
    return time.monotonic()


class Bench:
    """Both variants, a second baseline and the oracle, booted once; all but the oracle can be broken."""

    def __init__(self, folder: Path) -> None:
        """Take a new folder, which all logs and evidence go to."""
        self.folder = folder
        self.python = identity().python
        self.servers: dict[str, Server] = {}
        self.switches: dict[str, FaultSwitch] = {}
        """Both by label: a variant, ``equal`` for the second baseline, or ``oracle``."""
        self._clean: dict[tuple[WorkName, tuple[str, ...]], Seen] = {}
        self._rates: ReferenceRates | None = None

    @contextmanager
    def booted(self, works: Container[WorkName]) -> Iterator[Bench]:
        """Boot the long-lived servers that some works need; end them afterwards."""
        scenario = work_scenario("answers")
        with ExitStack() as stack:
            for label in (*VARIANT_NAMES, EQUAL) if "times" in works else VARIANT_NAMES:
                server, self.switches[label] = self.armed(*self._of(label), label)
                self.servers[label] = stack.enter_context(server)
            if "answers" in works:
                alone = Server(scenario, variant(scenario, "oracle"), self.python, self.folder / "oracle.log")
                self.servers["oracle"] = stack.enter_context(alone)
            wait_ready(list(self.servers.values()))
            for label in self.switches:
                require_armed(self.servers[label])
            yield self
            stop_together(list(self.servers.values()))

    @staticmethod
    def _of(label: str) -> tuple[Scenario, VariantName]:
        """Return the scenario and the variant of it that a label stands for."""
        if label == EQUAL:
            return work_scenario("times"), "candidate"
        return work_scenario("answers"), "baseline" if label == "baseline" else "candidate"

    def armed(self, scenario: Scenario, name: VariantName, label: str) -> tuple[Server, FaultSwitch]:
        """Prepare one variant's server that can be broken, and its switch."""
        switch = FaultSwitch(self.folder / f"switch-{label}")
        switch.folder.mkdir(parents=True)
        chosen = variant(scenario, name)
        chosen = replace(chosen, environment={**chosen.environment, VARIABLE: str(switch.folder)})
        return Server(scenario, chosen, self.python, self.folder / f"{label}.log"), switch

    @cached_property
    def questions(self) -> QuestionSet:
        """The word problems, as the baseline tokenises them."""
        work = work_scenario("answers").workloads.gsm8k
        assert work is not None  # noqa: S101
        return question_set(load_questions(GENERATED), work, self.servers["baseline"].tokenize)

    def plans(self, scenario: Scenario, name: ServerName) -> dict[str, Plan]:
        """Return what one server is sent."""
        return plans_of(scenario, name, None if scenario.workloads.prefix else self.questions)

    def label(self, work: WorkName, name: ServerName) -> str:
        """Return which of the long-lived servers is a work's variant."""
        return EQUAL if work == "times" and name == "candidate" else name

    def _measured(self, work: WorkName, scenario: Scenario, names: Sequence[ServerName]) -> tuple[Seen, list[str]]:
        servers = {name: self.servers[self.label(work, name)] for name in names}
        return measure(servers, scenario, {name: self.plans(scenario, name) for name in names})

    def clean(self, work: WorkName, sets: tuple[str, ...] = (), again: bool = False) -> Seen:
        """Return what the servers show without a fault, measured once, or again.

        Raises:
            NotCleanError: it does not pass.

        """
        if again or (work, sets) not in self._clean:
            scenario = work_scenario(work, sets)
            seen, errors = self._measured(work, scenario, server_names(scenario))
            if work == "answers" and self._rates is None:
                rough = judge(self.evidence(scenario, seen, errors))
                self._rates = ReferenceRates(name="self_test", origin={"run": "this one, clean"}, rates=rates_of(rough))
            require_clean(self.evidence(scenario, seen, errors))
            self._clean[(work, sets)] = seen
        return self._clean[(work, sets)]

    def broken(self, work: WorkName, sets: tuple[str, ...], fault: str, where: Sequence[VariantName]) -> Evidence:
        """Measure the variants in which a fault is active; the others' word is that of the clean run.

        Where times are compared, all are measured: they are only comparable within one run.
        """
        clean, scenario = self.clean(work, sets), work_scenario(work, sets)
        for name in where:
            wait_idle(self.servers[self.label(work, name)])
            self.switches[self.label(work, name)].turn_to(fault)
        names = server_names(scenario) if scenario.workloads.timing else where
        seen, errors = self._measured(work, scenario, names)
        return self.evidence(scenario, {**clean, **seen}, errors)

    def mend(self) -> None:
        """Switch every fault off and wait until the engines have nothing left to do."""
        for label, switch in self.switches.items():
            switch.turn_to(None)
            wait_idle(self.servers[label])

    def fired(self, work: WorkName, where: Sequence[VariantName]) -> int:
        """Return how often the active fault did something, in that variant in which it did the least."""
        return min(self.switches[self.label(work, name)].fired() for name in where)

    def evidence(self, scenario: Scenario, seen: Seen, errors: Sequence[str] = ()) -> Evidence:
        """Put together what was seen, as ``dropgate run`` does."""
        asked = self.questions if scenario.workloads.gsm8k else None
        return put_together(scenario, seen, errors, asked, self._rates)


def put_together(
    scenario: Scenario,
    seen: Seen,
    errors: Sequence[str] = (),
    asked: QuestionSet | None = None,
    rates: ReferenceRates | None = None,
) -> Evidence:
    """Make evidence of what servers showed."""
    return Evidence(
        dropgate=__version__,
        scenario=scenario,
        created=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        host=host_facts(),
        engine=EngineFacts(**identity().model_dump(include={"version", "python", "packages", "commit"})),
        variants=seen,
        questions=asked,
        reference_rates=rates,
        errors=list(errors),
    )


@cache
def identity() -> EngineIdentity:
    """Return the engine under test, which is asked once.

    Raises:
        InputError: there is none, or it does not know the option.

    """
    return require_option(describe_engine())


def plans_of(scenario: Scenario, name: ServerName, asked: QuestionSet | None) -> dict[str, Plan]:
    """Return what one server is sent: scenario A's work, or scenario B's questions."""
    work = scenario.workloads
    if work.prefix:
        return {} if name == "oracle" else {"prefix": prefix_plan(work.prefix, control=name == "baseline")}
    assert work.gsm8k is not None  # noqa: S101
    assert asked is not None  # noqa: S101
    return gsm8k_plans(work.gsm8k, asked, name)


def measure(
    servers: Mapping[ServerName, Server],
    scenario: Scenario,
    plans: Mapping[ServerName, Mapping[str, Plan]],
    clock: Callable[[], float] = clock,
) -> tuple[Seen, list[str]]:
    """Run each server's phases as ``dropgate run`` does; what fails is an error, and that server is asked no more.

    Scenario A runs on one server after the other, then timed blocks in turns; scenario B on all at once.
    """
    phases: dict[ServerName, dict[str, PhaseEvidence]] = {name: {} for name in servers}
    errors: dict[ServerName, str] = {}

    def run(name: ServerName, due: Mapping[str, Plan]) -> None:
        server = servers[name]
        server.deadlines = scenario.deadlines
        try:
            for workload, plan in due.items() if name not in errors else ():
                phases[name][workload] = measure_phase(server, scenario, plan, clock)
                server.require_alive("during the requests")
        except EngineError as error:
            errors[name] = f"{name}: {error}"

    with ThreadPoolExecutor(len(servers) if scenario.workloads.gsm8k else 1) as pool:
        list(pool.map(lambda name: run(name, plans[name]), servers))
    for name, workload, plan in _in_turns(scenario, list(servers)):
        run(name, {workload: plan})
    facts = {name: server_facts(server, 0.0) for name, server in servers.items()}
    return {name: VariantEvidence(server=facts[name], phases=phases[name]) for name in servers}, list(errors.values())


def _in_turns(scenario: Scenario, names: Sequence[ServerName]) -> Iterator[tuple[ServerName, str, Plan]]:
    """Give the timed blocks in the order ABBA."""
    work, timing = scenario.workloads.prefix, scenario.workloads.timing
    if work is not None and timing is not None:
        plan = prefix_plan(work.model_copy(update={"requests": timing.requests}), control=False)
        for block in range(timing.blocks):
            yield from ((name, f"{TIMING}{block}", plan) for name in (names if block % 2 == 0 else names[::-1]))


def require_armed(server: Server) -> None:
    """Check that a server can be broken: a fault that nobody loads would look like one that nobody sees.

    Raises:
        EngineError: it cannot.

    """
    if f"{MARKER}_armed" not in server.metrics_text():
        raise EngineError(
            f"{server.variant.name}: the engine does not load the plugin dropgate_faults; see `make setup`"
        )


def wait_idle(server: Server) -> None:
    """Wait until no request is in the engine.

    Raises:
        EngineError: there is one even after half a minute.

    """
    deadline = time.monotonic() + IDLE_WITHIN_S
    while busy(server):
        if time.monotonic() > deadline:
            raise EngineError(f"{server.variant.name}: requests are still in the engine after {IDLE_WITHIN_S:g} s")
        time.sleep(0.1)


def busy(server: Server) -> bool:
    """Tell whether a request runs or waits."""
    series = parse_snapshot(server.metrics_text()).series
    return any(any(series.get(f"vllm:num_requests_{state}", {}).values()) for state in ("running", "waiting"))


def saved_and_loaded(evidence: Evidence, folder: Path) -> Evidence:
    """Take evidence through its folder, as every run's evidence goes before it is judged."""
    out = EvidenceFolder(folder)
    for name, seen in evidence.variants.items():
        for workload, phase in seen.phases.items():
            out.save_phase(name, workload, phase)
    if evidence.questions:
        out.save_questions(evidence.questions)
    out.close(evidence)
    return load_evidence(folder)


def odd_checks(judgement: Judgement) -> dict[str, Check]:
    """Return what did not pass, but for the mark of a breakable engine, which no self-test is without."""
    return {
        check.name: check for check in judgement.checks if check.verdict is not Verdict.PASS and check.name != NO_FAULT
    }


def verdict_of(judgement: Judgement) -> Verdict:
    """Return the verdict that the run would have without that mark."""
    return combine(check.verdict for check in judgement.checks if check.name != NO_FAULT)


def require_clean(evidence: Evidence) -> None:
    """Check that a run without a fault passes.

    Raises:
        NotCleanError: it does not; the first odd check is named.

    """
    judgement = judge(evidence)
    for check in odd_checks(judgement).values():
        raise NotCleanError(f"without a fault: {check.name}: expected {check.expected}, seen {check.seen}")
    if verdict_of(judgement) is not Verdict.PASS:
        raise NotCleanError("without a fault: nothing was judged")

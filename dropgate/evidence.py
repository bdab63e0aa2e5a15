"""What was seen: frozen values, complete enough to be judged years later. Secrets never enter them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from dropgate.law import ServerName
from dropgate.scenario import Scenario

COLD_PHASE, HIT_PHASE = ACCEPTANCE_PHASES = ("acceptance", "acceptance_hit_path")
"""Names of scenario B's phases."""
TIMING = "timing-"
"""Before the number of a block, the name of its phase."""

HostFacts = dict[str, str | int | float]


class Frozen(BaseModel):
    """A saved value: read back exactly, nothing unknown, no number that is not one."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class RequestRecord(Frozen):
    """One request, as sent and as answered. Nothing is dropped: a failed request has ``error`` set."""

    index: int
    prompt_sha256: str
    prompt_tokens_sent: int
    shared_tokens: int
    """Leading tokens that an earlier request has in common with this one (S in the law)."""
    http_status: int | None = None
    error: str | None = None
    prompt_tokens: int | None = None
    """As the engine counted them."""
    cached_tokens: int | None = None
    prompt_echo_matches: bool | None = None
    """Whether the engine returned the very token ids that were sent."""
    token_ids: list[int] = []
    top_logprobs: list[list[tuple[int, float]]] = []
    """Per output token, the two most likely ids with their log probabilities, best first."""
    finish_reason: str | None = None
    steps_accepted: list[int] | None = None
    """Per verify step, accepted draft tokens."""
    steps_drafted: list[int] | None = None
    sent_s: float
    """Seconds since the run began; so are the two below."""
    first_token_s: float | None = None
    finished_s: float | None = None

    @property
    def ok(self) -> bool:
        """Whether the engine gave a whole answer."""
        return self.error is None and self.http_status == 200 and self.finish_reason is not None


class BenchRun(Frozen):
    """One ``vllm bench serve``: what it was told and what it saved."""

    command: list[str]
    own_requests: int
    """Requests that it sent besides those it reports: to see whether the server is ready, and to warm it up."""
    result: dict[str, Any]
    """Its JSON, as it is."""

    @property
    def duration_s(self) -> float:
        """Seconds that its reported requests took together, as it says; 0 where it does not."""
        found = self.result.get("duration")
        return float(found) if isinstance(found, int | float) else 0.0


class BenchEvidence(Frozen):
    """What ``vllm bench serve`` said, where it was the client; there are no records of timed requests then."""

    timed: BenchRun
    populate: BenchRun | None = None
    """Where the untimed request was its own too, since nobody else has its prompts."""
    metrics_reset: str = ""
    """/metrics between the reset and that request."""


class EngineStep(Frozen):
    """What the scheduler put into one step of the engine, as the engine's log has it."""

    prefill_requests: int
    prefill_tokens: int
    decode_requests: int
    decode_tokens: int


class PhaseEvidence(Frozen):
    """One workload on one variant."""

    reset_ok: bool
    populate: list[RequestRecord]
    requests: list[RequestRecord]
    control: list[RequestRecord] = []
    """Timed prompts answered again, each alone and with a cold cache; ``index`` is the timed request's."""
    warm_control: list[RequestRecord] = []
    """The first timed prompts sent again as they were sent, with whatever the cache holds by then."""
    bench: BenchEvidence | None = None
    engine_steps: list[EngineStep] | None = None
    """Between the two captures of the counters; ``None`` where the engine does not tell."""
    metrics_before: str
    metrics_after: str
    started_s: float
    """When the first timed request was sent, in seconds since the run began."""
    finished_s: float


class QuestionSet(Frozen):
    """The questions that every server was asked, in order, as the baseline's engine tokenised them."""

    name: str
    """Where they come from: a file's name, ``openai/gsm8k test``, or the generated set."""
    rows: int
    """Questions that the source holds; the first of them were asked."""
    sha256: str
    """Checksum over all rows, whatever format they came in."""
    prefix_token_ids: list[int] = []
    """The few-shot prefix that all prompts of the hit path share."""
    warm_up_token_ids: list[int] = []
    """The untimed request: a problem that is not asked."""
    token_ids: list[list[int]]


class ReferenceRates(Frozen):
    """Acceptance rates that an earlier run of the same scenario had on the same data."""

    name: str
    origin: dict[str, str]
    """Engine, hardware, date and run: the birth certificate."""
    rates: dict[str, dict[str, float]]
    """Shares by phase and variant."""


class LmEvalSample(Frozen):
    """One question as lm-eval asked and scored it."""

    index: int
    prompt_sha256: str
    answer: str | None
    """What the server said; null text and empty answers are evidence, never a wrong answer."""
    strict: bool
    flexible: bool


class AccuracyEvidence(Frozen):
    """One run of lm-eval against one server."""

    data: str
    rows: int
    """Questions that were to be scored."""
    sha256: str
    model_args: dict[str, str | int]
    """Of lm-eval's ``local-completions``."""
    exit_code: int | None
    """``None``: it was ended at its deadline."""
    error: str | None = None
    samples: list[LmEvalSample] = []
    started_s: float
    finished_s: float


class ServerFacts(Frozen):
    """How a variant's server was started."""

    command: list[str]
    environment: dict[str, str]
    served_name: str
    reported_version: str | None = None
    """What the server itself says of its version."""
    boot_s: tuple[float, float] | None = None
    """Start and readiness, in seconds since the run began."""


class VariantEvidence(Frozen):
    """All that was seen of one variant, or of the oracle."""

    server: ServerFacts
    phases: dict[str, PhaseEvidence] = {}
    accuracy: AccuracyEvidence | None = None


class EngineFacts(Frozen):
    """The engine under test."""

    version: str
    python: str
    packages: dict[str, str | None] = {}
    commit: str | None = None
    """What the engine was built from, as far as it knows: at least 7 digits."""
    asked_commit: str | None = None
    """What it should have been built from, if that was said."""

    @property
    def title(self) -> str:
        """Version, and commit where it is known."""
        return f"vLLM {self.version}" + (f" of commit {self.commit}" if self.commit else "")


class NodeFacts(Frozen):
    """What another rank than 0 said of itself, and how it started its part of each server."""

    rank: int
    host: HostFacts
    engine: EngineFacts
    servers: dict[ServerName, ServerFacts] = {}


class ChangeFacts(Frozen):
    """The change that CI is judging: two that are each fine alone can break together."""

    head: str
    base: str | None = None
    pull_request: str | None = None


class Costs(Frozen):
    """What the run took: seconds, and GiB of proportional set size over all its processes."""

    wall_s: float
    engine_s: float
    """Union of the times in which an engine booted or had requests in flight."""
    peak_memory_gib: float

    @property
    def added_share(self) -> float:
        """The harness's own time as a share of the engines'."""
        return (self.wall_s - self.engine_s) / self.engine_s


def costs_of(variants: Mapping[ServerName, VariantEvidence], wall_s: float, peak_memory_gib: float) -> Costs | None:
    """Return what a run took, from when its engines booted or had requests in flight; ``None`` where none ever did."""
    busy = union_length(_busy_intervals(variants))
    return Costs(wall_s=wall_s, engine_s=busy, peak_memory_gib=peak_memory_gib) if busy else None


def _busy_intervals(variants: Mapping[ServerName, VariantEvidence]) -> list[tuple[float, float]]:
    intervals = [seen.server.boot_s for seen in variants.values() if seen.server.boot_s]
    for seen in variants.values():
        for phase in seen.phases.values():
            intervals.append((phase.started_s, phase.finished_s))
            untimed = [*phase.populate, *phase.control, *phase.warm_control]
            intervals += [(record.sent_s, record.finished_s or record.sent_s) for record in untimed]
        if seen.accuracy:
            intervals.append((seen.accuracy.started_s, seen.accuracy.finished_s))
    return intervals


def union_length(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of closed intervals."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


class Evidence(Frozen):
    """One run."""

    dropgate: str
    scenario: Scenario
    created: str
    host: HostFacts
    engine: EngineFacts
    change: ChangeFacts | None = None
    variants: dict[ServerName, VariantEvidence]
    """By server; the oracle is there when the scenario asks for one."""
    nodes: list[NodeFacts] = []
    """The other ranks of a run over several nodes."""
    attached: bool = False
    """Whether the servers ran already and were started by somebody else."""
    questions: QuestionSet | None = None
    reference_rates: ReferenceRates | None = None
    """As they were when the run was made; ``None`` where there were none for its data."""
    errors: list[str] = []
    """What kept the run from being whole, in the order it happened."""
    costs: Costs | None = None

    @property
    def machine(self) -> str:
        """What decides the run's times: accelerators, processor and cores."""
        parts = [str(self.host[name]) for name in ("gpus", "processor") if self.host.get(name)]
        return f"{', '.join(parts) or 'unknown'}, {self.host.get('cpus', '?')} cores"

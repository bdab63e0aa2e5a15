"""What was seen: frozen, saved whole before it is judged, loadable years later. Secrets never enter it."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dropgate.errors import InputError
from dropgate.law import VariantName
from dropgate.scenario import Scenario

SCHEMA = 1
MANIFEST = "evidence.json"
BENCH = "bench.json"
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
    """What ``vllm bench serve`` said, where it was the client; there are no records of single requests then."""

    metrics_reset: str
    """/metrics between the reset and the populating request."""
    populate: BenchRun | None
    timed: BenchRun


class PhaseEvidence(Frozen):
    """One workload on one variant."""

    reset_ok: bool
    populate: list[RequestRecord]
    requests: list[RequestRecord]
    control: list[RequestRecord] = []
    """Timed prompts answered again, each alone and with a cold cache; ``index`` is the timed request's."""
    bench: BenchEvidence | None = None
    metrics_before: str
    metrics_after: str
    started_s: float
    """When the first timed request was sent, in seconds since the run began."""
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
    """All that was seen of one variant."""

    server: ServerFacts
    phases: dict[str, PhaseEvidence] = {}


class EngineFacts(Frozen):
    """The engine under test."""

    version: str
    python: str
    packages: dict[str, str | None] = {}
    commit: str | None = None
    """What the engine was built from, as far as it knows: at least 7 digits."""
    asked_commit: str | None = None
    """What it should have been built from, if that was said."""


class NodeFacts(Frozen):
    """What another rank than 0 said of itself, and how it started its part of each variant's server."""

    rank: int
    host: HostFacts
    engine: EngineFacts
    servers: dict[VariantName, ServerFacts] = {}


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


class Evidence(Frozen):
    """One run."""

    dropgate: str
    scenario: Scenario
    created: str
    host: HostFacts
    engine: EngineFacts
    change: ChangeFacts | None = None
    variants: dict[VariantName, VariantEvidence]
    nodes: list[NodeFacts] = []
    """The other ranks of a run over several nodes."""
    attached: bool = False
    """Whether the servers ran already and were started by somebody else."""
    errors: list[str] = []
    """What kept the run from being whole, in the order it happened."""
    costs: Costs | None = None


class _FileMark(Frozen):
    sha256: str
    bytes: int


class _Manifest(Frozen):
    schema_version: Literal[1]
    dropgate: str
    scenario: dict[str, Any]
    created: str
    host: HostFacts
    engine: EngineFacts
    change: ChangeFacts | None = None
    servers: dict[VariantName, ServerFacts]
    nodes: list[NodeFacts] = []
    attached: bool = False
    phases: dict[str, dict[str, Any]]
    errors: list[str]
    costs: Costs | None
    files: dict[str, _FileMark]


class EvidenceFolder:
    """A new folder that evidence is written into as it comes; nothing in it is ever overwritten."""

    def __init__(self, path: Path) -> None:
        """Create the folder.

        Raises:
            InputError: it holds something already, or cannot be written.

        """
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise InputError(f"--out {path}: the folder is not empty; evidence is never overwritten")
            with tempfile.TemporaryFile(dir=path):
                pass
        except OSError as error:
            raise InputError(f"--out {path}: cannot be written: {error.strerror}") from None

    def log_path(self, variant: VariantName) -> Path:
        """Name the file for a variant's engine log, with its folder made."""
        (self.path / variant).mkdir(exist_ok=True)
        return self.path / variant / "engine.log"

    def write(self, name: str, text: str) -> None:
        """Save one file of this folder atomically.

        Raises:
            FileExistsError: it is there already.

        """
        write_new(self.path / name, text)

    def save_phase(self, variant: VariantName, workload: str, phase: PhaseEvidence) -> None:
        """Save one workload's evidence as soon as it was seen."""
        stem = f"{variant}/{workload}"
        self.write(f"{stem}/metrics-before.txt", phase.metrics_before)
        self.write(f"{stem}/metrics-after.txt", phase.metrics_after)
        self.write(f"{stem}/populate.jsonl", _lines(phase.populate))
        self.write(f"{stem}/requests.jsonl", _lines(phase.requests))
        self.write(f"{stem}/control.jsonl", _lines(phase.control))
        if phase.bench:
            self.write(f"{stem}/{BENCH}", phase.bench.model_dump_json(indent=1) + "\n")

    def close(self, evidence: Evidence) -> None:
        """Write the manifest last, with the checksum of every other file: from here on the evidence is whole."""
        files = {
            str(PurePosixPath(path.relative_to(self.path))): _mark(path)
            for path in sorted(self.path.rglob("*"))
            if path.is_file()
        }
        manifest = _Manifest(
            schema_version=SCHEMA,
            dropgate=evidence.dropgate,
            scenario=evidence.scenario.model_dump(by_alias=True, mode="json"),
            created=evidence.created,
            host=evidence.host,
            engine=evidence.engine,
            change=evidence.change,
            servers={name: seen.server for name, seen in evidence.variants.items()},
            nodes=evidence.nodes,
            attached=evidence.attached,
            phases={
                f"{name}/{workload}": phase.model_dump(include={"reset_ok", "started_s", "finished_s"})
                for name, seen in evidence.variants.items()
                for workload, phase in seen.phases.items()
            },
            errors=evidence.errors,
            costs=evidence.costs,
            files=files,
        )
        self.write(MANIFEST, manifest.model_dump_json(indent=1) + "\n")


def write_new(path: Path, text: str) -> None:
    """Write a file that must not exist yet, atomically: it is there whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o644)
        os.link(temporary, path)  # unlike a rename, this refuses to replace
    finally:
        Path(temporary).unlink()


def load_evidence(folder: Path) -> Evidence:
    """Read a folder that ``EvidenceFolder.close`` completed.

    Raises:
        InputError: a file is missing, cut short, changed since, or of a newer schema; file and key are named.

    """
    manifest = _load_manifest(folder / MANIFEST)
    for name, mark in manifest.files.items():
        _require_unchanged(folder, name, mark)
    try:
        scenario = Scenario.model_validate_json(json.dumps(manifest.scenario))
        phases = {name: _load_phase(folder, name, facts) for name, facts in manifest.phases.items()}
    except ValidationError as error:
        raise InputError(f"{folder / MANIFEST}: {_one_line(error)}") from None
    variants = {
        name: VariantEvidence(
            server=server,
            phases={key.split("/", 1)[1]: phase for key, phase in phases.items() if key.split("/", 1)[0] == name},
        )
        for name, server in manifest.servers.items()
    }
    same = {"dropgate", "created", "host", "engine", "change", "nodes", "attached", "errors", "costs"}
    kept = manifest.model_dump(include=same)
    return Evidence(**kept, scenario=scenario, variants=variants)


def _load_manifest(path: Path) -> _Manifest:
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file: the run did not complete its evidence, or this is no evidence"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from None
    schema = raw.get("schema_version") if isinstance(raw, dict) else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise InputError(f"{path}: 'schema_version' is {schema}, this dropgate reads up to {SCHEMA}: use a newer one")
    try:
        return _Manifest.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error)}") from None


def _load_phase(folder: Path, name: str, facts: dict[str, Any]) -> PhaseEvidence:
    stem = folder / name
    try:
        return PhaseEvidence(
            **facts,
            populate=_read_lines(stem / "populate.jsonl"),
            requests=_read_lines(stem / "requests.jsonl"),
            control=_read_lines(stem / "control.jsonl"),
            bench=_read_bench(stem / BENCH),
            metrics_before=(stem / "metrics-before.txt").read_text(encoding="utf-8"),
            metrics_after=(stem / "metrics-after.txt").read_text(encoding="utf-8"),
        )
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{stem}: cannot be read: {error}") from None


def _read_bench(path: Path) -> BenchEvidence | None:
    if not path.is_file():  # where it is listed, it was seen to be there
        return None
    try:
        return BenchEvidence.model_validate_json(path.read_text(encoding="utf-8"))
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error)}") from None


def _read_lines(path: Path) -> list[RequestRecord]:
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            records.append(RequestRecord.model_validate_json(line))
        except ValidationError as error:
            raise InputError(f"{path}:{number}: {_one_line(error)}") from None
    return records


def _lines(records: list[RequestRecord]) -> str:
    return "".join(record.model_dump_json() + "\n" for record in records)


def _mark(path: Path) -> _FileMark:
    content = path.read_bytes()
    return _FileMark(sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))


def _require_unchanged(folder: Path, name: str, mark: _FileMark) -> None:
    path = folder / name
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError(f"{folder / MANIFEST}: 'files' names {name!r}, which is outside the folder")
    if not path.is_file():
        raise InputError(f"{path}: missing, though {MANIFEST} lists it in 'files'")
    size = path.stat().st_size
    if size < mark.bytes:
        raise InputError(f"{path}: cut short: {size} bytes, 'files' in {MANIFEST} has {mark.bytes}")
    if _mark(path) != mark:
        raise InputError(f"{path}: changed since it was saved: its checksum is not that of 'files' in {MANIFEST}")


def _one_line(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"'{'.'.join(map(str, first['loc']))}': {first['msg']}"

"""Evidence on disk: saved whole before it is judged, never overwritten, loadable years later."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError

from dropgate.errors import EvidenceError, InputError
from dropgate.evidence import (
    AccuracyEvidence,
    BenchEvidence,
    ChangeFacts,
    Costs,
    EngineFacts,
    EngineStep,
    Evidence,
    Frozen,
    HostFacts,
    NodeFacts,
    PhaseEvidence,
    QuestionSet,
    ReferenceRates,
    RequestRecord,
    ServerFacts,
    VariantEvidence,
)
from dropgate.law import ServerName
from dropgate.scenario import Scenario

SCHEMA = 2
"""2: the manifest has a checksum of its own. 1 is read as well."""
MANIFEST = "evidence.json"
QUESTIONS = "questions.json"
ACCURACY = "accuracy.json"
STEPS = "engine_steps.jsonl"
BENCH = "bench.json"


Value = TypeVar("Value", bound=Frozen)


PhasePath = Annotated[str, Field(pattern="^[a-z]+/[a-z0-9_-]+$")]
"""Server and phase: a folder below the run's."""


class _FileMark(Frozen):
    sha256: str
    bytes: int


class _Manifest(Frozen):
    schema_version: Literal[1, 2]
    dropgate: str
    scenario: dict[str, Any]
    created: str
    host: HostFacts
    engine: EngineFacts
    change: ChangeFacts | None = None
    servers: dict[ServerName, ServerFacts]
    nodes: list[NodeFacts] = []
    attached: bool = False
    phases: dict[PhasePath, dict[str, Any]]
    accuracy: list[ServerName] = []
    """Servers whose accuracy was measured."""
    questions: bool = False
    reference_rates: ReferenceRates | None = None
    errors: list[str]
    costs: Costs | None
    files: dict[str, _FileMark]
    checksum: str | None = None
    """Of all the above, as ``checksum_of`` has it; manifests of schema 1 have none."""


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

    def server_folder(self, server: ServerName) -> Path:
        """Return the folder of one server's files, made if need be."""
        folder = self.path / server
        folder.mkdir(exist_ok=True)
        return folder

    def log_path(self, server: ServerName) -> Path:
        """Name the file for a server's engine log, with its folder made."""
        return self.server_folder(server) / "engine.log"

    def write(self, name: str, text: str) -> None:
        """Save one file of this folder atomically.

        Raises:
            FileExistsError: it is there already.

        """
        write_new(self.path / name, text)

    def save_phase(self, variant: ServerName, workload: str, phase: PhaseEvidence) -> None:
        """Save one workload's evidence as soon as it was seen."""
        stem = f"{variant}/{workload}"
        self.write(f"{stem}/metrics-before.txt", phase.metrics_before)
        self.write(f"{stem}/metrics-after.txt", phase.metrics_after)
        self.write(f"{stem}/populate.jsonl", _lines(phase.populate))
        self.write(f"{stem}/requests.jsonl", _lines(phase.requests))
        self.write(f"{stem}/control.jsonl", _lines(phase.control))
        self.write(f"{stem}/warm_control.jsonl", _lines(phase.warm_control))
        if phase.engine_steps is not None:
            self.write(f"{stem}/{STEPS}", _lines(phase.engine_steps))
        if phase.bench:
            self.write(f"{stem}/{BENCH}", phase.bench.model_dump_json(indent=1) + "\n")

    def save_questions(self, questions: QuestionSet) -> None:
        """Save what is asked, before it is asked."""
        self.write(QUESTIONS, questions.model_dump_json() + "\n")

    def save_accuracy(self, variant: ServerName, accuracy: AccuracyEvidence) -> None:
        """Save what lm-eval saw of one server."""
        self.write(f"{variant}/{ACCURACY}", accuracy.model_dump_json(indent=1) + "\n")

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
            accuracy=[name for name, seen in evidence.variants.items() if seen.accuracy],
            questions=evidence.questions is not None,
            reference_rates=evidence.reference_rates,
            errors=evidence.errors,
            costs=evidence.costs,
            files=files,
        )
        values = json.loads(manifest.model_dump_json())
        self.write(MANIFEST, json.dumps({**values, "checksum": checksum_of(values)}, indent=1) + "\n")


def checksum_of(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of a manifest without its checksum, keys sorted, no spaces: order and layout do not count."""
    values = {key: value for key, value in manifest.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(values, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_new(path: Path, text: str) -> None:
    """Write a file that must not exist yet, atomically: it is there whole or not at all.

    Raises:
        FileExistsError: it is there already.
        EvidenceError: the disk does not take it.

    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _link_whole(path, text)
    except FileExistsError:
        raise
    except OSError as error:
        raise EvidenceError(f"{path}: cannot be saved: {error.strerror}") from None


def _link_whole(path: Path, text: str) -> None:
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


@contextmanager
def _uncollected() -> Iterator[None]:
    """Hold the collector of cycles off: what is loaded has none, and to look for them takes longer than to load it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_uncollected()
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
        accuracy = {name: _load_value(folder / name / ACCURACY, AccuracyEvidence) for name in manifest.accuracy}
        questions = _load_value(folder / QUESTIONS, QuestionSet) if manifest.questions else None
    except ValidationError as error:
        raise InputError(f"{folder / MANIFEST}: {_one_line(error)}") from None
    variants = {
        name: VariantEvidence(
            server=server,
            phases={key.split("/", 1)[1]: phase for key, phase in phases.items() if key.split("/", 1)[0] == name},
            accuracy=accuracy.get(name),
        )
        for name, server in manifest.servers.items()
    }
    same = {
        "dropgate",
        "created",
        "host",
        "engine",
        "change",
        "nodes",
        "attached",
        "reference_rates",
        "errors",
        "costs",
    }
    kept = manifest.model_dump(include=same)
    return Evidence(**kept, scenario=scenario, variants=variants, questions=questions)


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
        manifest = _Manifest.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error)}") from None
    if manifest.schema_version > 1 and manifest.checksum != checksum_of(raw):
        raise InputError(f"{path}: changed since it was saved: its checksum is not that of its values")
    return manifest


def _load_phase(folder: Path, name: str, facts: dict[str, Any]) -> PhaseEvidence:
    stem = folder / name
    again, steps, told = (stem / one for one in ("warm_control.jsonl", STEPS, BENCH))  # each newer than the others
    try:
        seen = {
            "populate": _read_lines(stem / "populate.jsonl", RequestRecord),
            "requests": _read_lines(stem / "requests.jsonl", RequestRecord),
            "control": _read_lines(stem / "control.jsonl", RequestRecord),
            "warm_control": _read_lines(again, RequestRecord) if again.is_file() else [],
            "engine_steps": _read_lines(steps, EngineStep) if steps.is_file() else None,
            "bench": _load_value(told, BenchEvidence) if told.is_file() else None,
            "metrics_before": (stem / "metrics-before.txt").read_text(encoding="utf-8"),
            "metrics_after": (stem / "metrics-after.txt").read_text(encoding="utf-8"),
        }
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{stem}: cannot be read: {error}") from None
    return PhaseEvidence.model_validate({**facts, **seen})


def _load_value(path: Path, kind: type[Value]) -> Value:
    try:
        return kind.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    except ValidationError as error:
        raise InputError(f"{path}: {_one_line(error)}") from None


def _read_lines(path: Path, kind: type[Value]) -> list[Value]:
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            records.append(kind.model_validate_json(line))
        except ValidationError as error:
            raise InputError(f"{path}:{number}: {_one_line(error)}") from None
    return records


def _lines(records: Sequence[Frozen]) -> str:
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

"""The SQLite file: one row a run, one row a measure; a run is known by the checksum of its evidence."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dropgate.errors import InputError
from dropgate.evidence import Evidence
from dropgate.evidence_folder import MANIFEST
from dropgate.judge import Judgement
from dropgate.law import VARIANT_NAMES

SCHEMA = """
CREATE TABLE IF NOT EXISTS run (
  id INTEGER PRIMARY KEY,
  evidence TEXT NOT NULL UNIQUE,
  created TEXT NOT NULL,
  scenario TEXT NOT NULL,
  hardware TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  verdict TEXT NOT NULL,
  checks_passed INTEGER NOT NULL,
  checks INTEGER NOT NULL,
  folder TEXT NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS run_key ON run (scenario, hardware, engine);
CREATE TABLE IF NOT EXISTS measure (
  run INTEGER NOT NULL REFERENCES run (id) ON DELETE CASCADE,
  variant TEXT NOT NULL,
  name TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (run, variant, name)
) STRICT, WITHOUT ROWID;
"""
VERSION = 1
COLUMNS = "created, scenario, hardware, engine, engine_version, verdict, checks_passed, checks, folder"


@dataclass(frozen=True)
class Run:
    """One run of the history."""

    id: int
    created: str
    scenario: str
    hardware: str
    engine: str
    """The engine's commit; its version where no commit is known."""
    engine_version: str
    verdict: str
    checks_passed: int
    checks: int
    folder: str
    measures: dict[tuple[str, str], float] = field(default_factory=dict)
    """By variant and name, such as ``ttft_ms.mean``; what could not be measured is not there."""

    @property
    def key(self) -> tuple[str, str]:
        """What must be the same for two runs to lie on one trend."""
        return self.scenario, self.hardware


@contextlib.contextmanager
def history(path: Path, create: bool = False) -> Iterator[sqlite3.Connection]:
    """Open the history; everything done inside is one transaction.

    Raises:
        InputError: there is none, or the file is something else.

    """
    if not create and not path.is_file():
        raise InputError(f"--db {path}: no such file; `dropgate history add DIR` makes it")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            connection.execute("PRAGMA foreign_keys = ON")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise InputError(f"--db {path}: of schema {found}, this dropgate reads {VERSION}: use a newer one")
            connection.executescript(SCHEMA)
            connection.execute(f"PRAGMA user_version = {VERSION}")
            yield connection
    except (OSError, sqlite3.Error) as error:
        raise InputError(f"--db {path}: cannot be used: {error}") from None


def add(connection: sqlite3.Connection, folder: Path, evidence: Evidence, judgement: Judgement) -> bool:
    """Add a run; return whether it is new. The same evidence is never counted twice."""
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    engine = evidence.engine
    passed = sum(check.verdict == "pass" for check in judgement.checks)
    hardware = f"{evidence.machine}, {evidence.host.get('memory_gib', '?')} GiB"
    row = (evidence.created, evidence.scenario.name, hardware, engine.commit or engine.version)
    row_end = (engine.version, str(judgement.verdict), passed, len(judgement.checks), str(folder))
    done = connection.execute(
        f"INSERT OR IGNORE INTO run (evidence, {COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608  (ours)
        (digest, *row, *row_end),
    )
    if not done.rowcount:
        return False
    values = [
        (done.lastrowid, variant, name, value)
        for variant in VARIANT_NAMES
        for name, value in flat(judgement.metrics.get(variant, {}))
    ]
    connection.executemany("INSERT INTO measure VALUES (?, ?, ?, ?)", values)
    return True


def flat(measures: dict[str, Any], stem: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number with its path, such as ``ttft_ms.mean``; lists and what is missing are left out."""
    for key, value in measures.items():
        if isinstance(value, dict):
            yield from flat(value, f"{stem}{key}.")
        elif isinstance(value, int | float):
            yield f"{stem}{key}", float(value)


def runs(connection: sqlite3.Connection, scenario: str | None = None) -> list[Run]:
    """Return the runs in the order in which they were made, of one scenario or of all."""
    rows = connection.execute(
        f"SELECT id, {COLUMNS} FROM run WHERE ?1 IS NULL OR scenario = ?1 ORDER BY created, id",  # noqa: S608  (ours)
        (scenario,),
    )
    found = {row[0]: Run(*row) for row in rows}
    for run, variant, name, value in connection.execute("SELECT run, variant, name, value FROM measure"):
        if run in found:
            found[run].measures[variant, name] = value
    return list(found.values())

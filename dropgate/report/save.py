"""Writes what follows from the evidence beside it. Evidence is never overwritten; what follows from it may be."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from dropgate.errors import InputError
from dropgate.evidence import Evidence
from dropgate.judge import Judgement
from dropgate.references import Reference, load_reference
from dropgate.report.document import verdict_document
from dropgate.report.markdown import markdown_report

VERDICT = "verdict.json"
REPORT = "report.md"
PAGE = "report.html"


def reference_of(evidence: Evidence) -> Reference | None:
    """Return the reference that the scenario names, if any."""
    name = evidence.scenario.reference
    return load_reference(name) if name else None


def save_verdict(folder: Path, evidence: Evidence, judgement: Judgement) -> None:
    """Write a run's verdict.json."""
    save_document(folder, verdict_document(evidence, judgement))


def save_document(folder: Path, document: dict[str, Any]) -> None:
    """Write verdict.json."""
    replace_text(folder / VERDICT, document_text(document))


def document_text(document: dict[str, Any]) -> str:
    """Return verdict.json's text."""
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def save_report(folder: Path, evidence: Evidence, judgement: Judgement) -> Path:
    """Write report.md and report.html beside the evidence; return the path of report.md."""
    from dropgate.report.html import html_report  # the pictures' library takes longer to load than all else

    reference = reference_of(evidence)
    replace_text(folder / PAGE, html_report(evidence, judgement, reference, _files(folder)))
    return save_markdown(folder, markdown_report(evidence, judgement, reference))


def save_markdown(folder: Path, text: str) -> Path:
    """Write report.md and return its path."""
    replace_text(folder / REPORT, text)
    return folder / REPORT


def _files(folder: Path) -> list[tuple[str, int]]:
    """List a folder's files, without the page itself and what is being written."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith("."))
    return [(path.relative_to(folder).as_posix(), path.stat().st_size) for path in found if path != folder / PAGE]


def replace_text(path: Path, text: str) -> None:
    """Write a file atomically, over one that may be there.

    Raises:
        InputError: it cannot be written.

    """
    try:
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None

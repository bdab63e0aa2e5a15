"""What an engine's own log says of its end."""

from __future__ import annotations

import re
from pathlib import Path

_PREFIX = re.compile(r"^(?:\([^)]*\)\s*)?(?P<logged>(?:ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]*\] ?)?")
_RAISED = re.compile(
    r"[\w.]*(?:Error|Exception|Exit|Interrupt)(?:: .+|$)|.*\berror: .+|(?:Fatal|Segmentation fault|Killed)\b"
)
_WEAK = re.compile(r"Traceback |Dumping |EngineCore (?:failed to start|encountered a fatal error)")
"""Lines that announce an error whose own line comes later."""
_REASON_FOLLOWS = re.compile(r"\d+ validation errors? for \S+$")
_STEP = re.compile(
    r"Iteration\(\d+\): (\d+) context requests, (\d+) context tokens, "
    r"(\d+) generation requests, (\d+) generation tokens"
)
Step = tuple[int, int, int, int]
"""Prefill requests and tokens, decode requests and tokens."""
SHOWN = 300
OWN_LINE = "dropgate: "
"""What the lines start with that the gate itself writes into an engine's log."""


def first_error(log: Path) -> str:
    """Return the first line of the log that names an error, without its prefix; else the log's last line.

    At most 300 characters. An unreadable or empty log says so, since no line is better than a made-up one.
    """
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        return f"the engine's log cannot be read: {error.strerror}"
    texts = [line for line in lines if line.strip() and not line.startswith(OWN_LINE)]
    for number, line in enumerate(texts):
        if named := _named_error(line):
            reason = texts[number + 1 : number + 2] if _REASON_FOLLOWS.search(named) else []
            return " ".join([named.strip(), *(_split(text)[0].strip() for text in reason)])[:SHOWN]
    return _split(texts[-1])[0].strip()[:SHOWN] if texts else "the engine wrote nothing to its log"


def steps_in(log: Path, start: int) -> list[Step]:
    """Return what the scheduler put into each step that the log has behind ``start``, a position in bytes.

    Lines of ``--enable-logging-iteration-details``; vLLM calls prefill requests context requests.
    """
    try:
        with log.open("rb") as file:
            file.seek(start)
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return []
    return [(int(a), int(b), int(c), int(d)) for a, b, c, d in _STEP.findall(text)]


def _split(line: str) -> tuple[str, bool]:
    """Return a line without its prefix, and whether a logger wrote it as an error."""
    prefix = _PREFIX.match(line)
    assert prefix is not None  # noqa: S101  (every part is optional)
    return line[prefix.end() :], prefix["logged"] is not None


def _named_error(line: str) -> str | None:
    text, logged = _split(line)
    inside_traceback = text[:1].isspace()
    if inside_traceback or _WEAK.match(text):
        return None
    return text if logged or _RAISED.match(text) else None

"""Which lanes a change needs, from the files it touches; when in doubt, all of them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from buildkite.pipeline.files import Lanes, Rule
from dropgate.errors import InputError

AUTO = "auto"
GIT_S = 120


@dataclass(frozen=True)
class Choice:
    """Lanes in the order of lanes.yml, and why these."""

    lanes: list[str]
    why: str


def choose(asked: str, files: Sequence[str] | None, rules: Sequence[Rule], known: Lanes) -> Choice:
    """Return the lanes for what was asked (``auto`` lets the files decide; ``None``: they could not be told).

    Raises:
        InputError: something was asked for that lanes.yml does not know.

    """
    everything = list(known.lanes)
    if asked != AUTO:
        if asked not in known.asked:
            raise InputError(f"DROPGATE_LANES: '{asked}' is none of {', '.join([AUTO, *known.asked])}")
        return Choice(known.asked[asked], f"asked for: {asked}")
    if not files:
        return Choice(everything, "the touched files could not be told")
    needed = {lane: name for name in reversed(files) for lane in lanes_of(name, rules, everything)}
    if not needed:
        return Choice([], f"none of the {len(files)} touched files needs one")
    chosen = [lane for lane in everything if lane in needed]
    return Choice(chosen, f"{len(files)} touched files, such as {needed[chosen[-1]]}")


def lanes_of(name: str, rules: Sequence[Rule], everything: list[str]) -> list[str]:
    """Return the lanes that one touched file needs."""
    for rule in rules:
        if any(fnmatchcase(name, pattern) for pattern in rule.patterns):
            return {"all": everything, "none": []}[rule.lanes] if isinstance(rule.lanes, str) else rule.lanes
    return everything


def touched_files(repository: Path, environment: Mapping[str, str]) -> list[str] | None:
    """List the files that differ between the head and its merge base; both names of one that moved.

    ``None`` when git cannot tell: a commit is not named or not there.
    """
    base, head = environment.get("DROPGATE_BASE_SHA"), environment.get("DROPGATE_HEAD_SHA")
    if not base or not head:
        return None
    git = ["git", "-C", str(repository)]
    # A clone of one branch lacks the base; when it is there already, this does nothing.
    _output([*git, "fetch", "--quiet", "origin", base])
    listed = _output([*git, "diff", "--name-only", "--no-renames", "-z", f"{base}...{head}"])
    return None if listed is None else [name for name in listed.split("\0") if name]


def _output(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return done.stdout

#!/usr/bin/env python3
"""A stand-in buildkite-agent: keeps in AGENT_STANDIN what it is given and serves it to every job of the build.

calls.jsonl has every call; meta-data/, annotations/, artifacts/STEP/, outcomes/ and pipeline.json what they left.
"""

import fnmatch
import json
import os
import pathlib
import shutil
import sys

HOME = pathlib.Path(os.environ["AGENT_STANDIN"])


def place(*parts: str) -> pathlib.Path:
    path = HOME.joinpath(*parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def flag(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


def upload(pattern: str) -> None:
    for path in pathlib.Path().glob(pattern):
        if path.is_file():
            shutil.copy(path, place("artifacts", os.environ["BUILDKITE_STEP_KEY"], str(path)))


def download(pattern: str, folder: str, step: str) -> int:
    root = HOME / "artifacts" / step
    names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    found = fnmatch.filter(names, pattern.replace("**/", "*"))
    for name in found:
        target = pathlib.Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / name, target)
    return 0 if found else 1


def next_state(path: pathlib.Path) -> str:
    """The states that a test wrote, one a call; then the step has ended."""
    first, _, rest = path.read_text().partition(" ") if path.exists() else ("", "", "")
    path.write_text(rest)
    return first or "finished"


def main(words: list[str]) -> int:
    with place("calls.jsonl").open("a") as calls:
        calls.write(json.dumps(words) + "\n")
    match words:
        case ["meta-data", "set", key]:
            place("meta-data", key).write_text(sys.stdin.read())
        case ["meta-data", "get", key, "--default", default]:
            path = place("meta-data", key)
            sys.stdout.write(path.read_text() if path.exists() else default)
        case ["annotate", *_]:
            place("annotations", flag(words, "--context")).write_text(sys.stdin.read())
        case ["pipeline", "upload", "--no-interpolation"]:
            place("pipeline.json").write_text(sys.stdin.read())
        case ["artifact", "upload", pattern]:
            upload(pattern)
        case ["artifact", "download", pattern, folder, "--step", step]:
            return download(pattern, folder, step)
        case ["step", "get", "outcome", "--step", step]:
            sys.stdout.write(place("outcomes", step).read_text() + "\n")
        case ["step", "get", "state", "--step", step]:
            sys.stdout.write(next_state(place("states", step)) + "\n")
        case _:
            return 64
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

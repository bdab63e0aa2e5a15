"""The flow is one-way: a stage knows only what comes before it, and the judge is pure."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "dropgate"
FLOW = {
    "law",
    "scenario",
    "variants",
    "metrics",
    "evidence",
    "evidence_folder",
    "workload",
    "engine",
    "judge",
    "references",
    "rates",
    "report",
}
ASIDE = {"replay", "ranks"}
LEAVES = {"errors", "strict_yaml", "console", "host", "gpus"}
JOINERS = {
    "run",
    "preflight",
    "measure",
    "cli",
    "options",
    "run_command",
    "plan",
    "doctor",
    "again",
    "history",
    "compare",
}
FORBIDDEN = {
    "engine": {"workload", "judge", "report", "evidence"},
    "workload": {"engine", "judge", "report"},
    "judge": {"engine", "workload", "report", "run", "console", "host", "evidence_folder"},
    "replay": {"workload", "report", "run", "cli", "console"},
    "ranks": {"workload", "judge", "report", "run", "cli"},
    "report": {"engine", "workload", "run", "history", "compare"},
    "evidence": {"engine", "workload", "judge", "report"},
    "evidence_folder": {"engine", "workload", "judge", "report"},
    "scenario": {"engine", "workload", "judge", "report", "evidence", "variants"},
}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def files(stage: str) -> list[Path]:
    folder = PACKAGE / stage
    return sorted(folder.glob("*.py")) if folder.is_dir() else [PACKAGE / f"{stage}.py"]


@pytest.mark.parametrize("stage", FORBIDDEN)
def test_no_stage_looks_forward_or_sideways(stage: str) -> None:
    for path in files(stage):
        stages = {name.split(".")[1] for name in imports(path) if name.startswith("dropgate.")}
        assert not stages & FORBIDDEN[stage], path


def test_every_module_has_a_place_in_the_flow() -> None:
    found = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__"} == FLOW | ASIDE | LEAVES | JOINERS


def test_the_judge_does_no_io_and_has_no_clock() -> None:
    impure = {"os", "pathlib", "time", "datetime", "subprocess", "requests", "random", "pytest", "socket"}
    for path in files("judge"):
        assert not imports(path) & impure, path


def test_what_runs_in_the_engines_interpreter_needs_only_the_standard_library() -> None:
    outside = {
        name
        for name in imports(PACKAGE / "engine" / "launcher.py")
        if name.split(".")[0] not in sys.stdlib_module_names
    }
    assert outside == {"vllm.entrypoints.cli.main"}

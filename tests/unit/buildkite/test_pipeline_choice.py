"""Which lanes a change needs: documentation none, scheduler and speculation all, and all when in doubt."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from buildkite.pipeline import files
from buildkite.pipeline.choice import choose, touched_files
from dropgate.errors import InputError

KNOWN, RULES = files.lanes(), files.touched()
ALL = list(KNOWN.lanes)


def lanes(*touched: str, asked: str = "auto") -> list[str]:
    return choose(asked, list(touched), RULES, KNOWN).lanes


@pytest.mark.parametrize(
    "name",
    [
        *("vllm/v1/core/sched/scheduler.py", "vllm/v1/core/kv_cache_manager.py", "vllm/v1/core/block_pool.py"),
        *("vllm/v1/spec_decode/eagle.py", "vllm/config/speculative.py", "vllm/v1/core/README.md"),
        *("dropgate/judge/prefix.py", "buildkite/run.sh", "buildkite/touched.yml", "requirements/cpu.lock"),
        *("csrc/cache.cu", "something/nobody/knows", "Makefile", "docs"),
    ],
)
def test_scheduler_speculation_and_the_unknown_need_all_lanes(name: str) -> None:
    assert lanes(name) == lanes("README.md", name) == lanes(name, "README.md") == ALL


@pytest.mark.parametrize(
    "name", ["README.md", "docs/design/x.py", "docs/terminal.svg", "vllm/lora/NOTES.md", "LICENSE"]
)
def test_documentation_needs_none(name: str) -> None:
    assert lanes(name) == []


def test_lanes_add_up() -> None:
    assert lanes("tests/unit/test_judge.py", "README.md") == ["unit"]
    assert lanes("tests/unit/test_judge.py", "tests/replay/test_run.py") == ["unit", "replay"]


@pytest.mark.parametrize("touched", [None, []])
def test_a_change_that_cannot_be_told_needs_all_lanes(touched: list[str] | None) -> None:
    assert choose("auto", touched, RULES, KNOWN).lanes == ALL


def test_what_is_asked_for_is_what_runs() -> None:
    assert lanes("README.md", asked="gpu") == ["gpu", "two-node"]
    assert lanes("vllm/v1/core/x.py", asked="replay") == ["replay"]
    with pytest.raises(InputError, match="'all' is none of auto, gpu, replay"):
        lanes(asked="all")


def test_the_touched_files_are_those_since_the_merge_base_with_both_names_of_a_moved_one(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@x", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def commit(message: str) -> str:
        git("add", "-A")
        git("commit", "--allow-empty", "-m", message)
        return git("rev-parse", "HEAD")

    git("init", "-b", "main")
    (tmp_path / "sched.py").write_text("x\n" * 50)
    start = commit("start")
    git("checkout", "-b", "change")
    (tmp_path / "docs").mkdir()
    (tmp_path / "sched.py").rename(tmp_path / "docs" / "a \n b.py")
    head = commit("head")
    git("checkout", "main")
    (tmp_path / "other.py").touch()
    base = commit("base")
    commits = {"DROPGATE_HEAD_SHA": head, "DROPGATE_BASE_SHA": base}
    assert touched_files(tmp_path, commits) == ["docs/a \n b.py", "sched.py"]
    assert touched_files(tmp_path, {**commits, "DROPGATE_BASE_SHA": head}) == []
    assert touched_files(tmp_path, {**commits, "DROPGATE_HEAD_SHA": "f" * 40}) is None
    assert touched_files(tmp_path, {"DROPGATE_HEAD_SHA": head}) is None
    assert start != base

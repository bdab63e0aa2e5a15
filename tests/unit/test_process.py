"""Ownership: when the harness or the engine's root goes, everything below goes; shown on cheap processes."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dropgate.engine import process
from dropgate.engine.process import EngineProcess, free_port, require_free
from dropgate.errors import InputError

# A stand-in engine: a root that starts a child in a session of its own, which ignores SIGTERM, and then waits.
TREE = """
import os, signal, subprocess, sys, time
child = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child], start_new_session=True)
open(sys.argv[1], "w").write("up")
time.sleep(600)
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineProcess:
    script = tmp_path / "tree.py"
    script.write_text(TREE)
    monkeypatch.setattr(process, "LAUNCHER", script)
    return EngineProcess(sys.executable, [str(tmp_path / "up")], tmp_path / "engine.log", stop_grace_s=1)


def started(engine: EngineProcess, tmp_path: Path) -> list[psutil.Process]:
    engine.start(dict(os.environ))
    wait_for((tmp_path / "up").exists)
    root = psutil.Process(engine.pid)
    wait_for(lambda: len(root.children(recursive=True)) == 2)
    return [root, *root.children(recursive=True)]


def wait_for(condition, seconds: float = 10) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_stop_leaves_nothing(tree: EngineProcess, tmp_path: Path) -> None:
    family = started(tree, tmp_path)
    tree.stop()
    assert not any(member.is_running() for member in family)
    assert not Path(tree.scratch).exists()


def test_a_killed_root_takes_its_children_along(tree: EngineProcess, tmp_path: Path) -> None:
    family = started(tree, tmp_path)
    root = next(member for member in family[1:] if member.ppid() == tree.pid)
    root.kill()
    wait_for(lambda: tree.exit_code() is not None)
    assert tree.exit_code() == 128 + signal.SIGKILL
    assert not any(member.is_running() for member in family[1:])
    tree.stop()


HARNESS = """
import os, sys, time
from pathlib import Path
from dropgate.engine import process
process.LAUNCHER = Path(sys.argv[1])
engine = process.EngineProcess(sys.executable, [sys.argv[2]], Path(sys.argv[3]), 1)
engine.start(dict(os.environ))
print(engine.pid, engine.scratch, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM])
def test_a_harness_that_is_killed_leaves_nothing(tmp_path: Path, sent: signal.Signals) -> None:
    (tmp_path / "tree.py").write_text(TREE)
    arguments = [str(tmp_path / name) for name in ("tree.py", "up", "engine.log")]
    with subprocess.Popen([sys.executable, "-c", HARNESS, *arguments], stdout=subprocess.PIPE, text=True) as harness:
        assert harness.stdout
        pid, scratch = harness.stdout.readline().split()
        wait_for((tmp_path / "up").exists)
        root = psutil.Process(int(pid))
        wait_for(lambda: len(root.children(recursive=True)) == 2)
        family = [root, *root.children(recursive=True)]
        harness.send_signal(sent)
    wait_for(lambda: not any(member.is_running() for member in family))
    wait_for(lambda: not Path(scratch).exists())


def test_a_free_port_is_free_and_a_taken_one_is_named() -> None:
    port = free_port("127.0.0.1")
    require_free("tiny", "127.0.0.1", port)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(
            InputError, match=f"tiny: 'engine.port': 127.0.0.1:{port} cannot be used: Address already in use"
        ),
    ):
        require_free("tiny", "127.0.0.1", port)

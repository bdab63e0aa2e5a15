"""Owner of one engine: when the harness is gone, however it went, so is everything that the engine started.

Run as a script: ``supervisor.py SCRATCH COMMAND...``. Its standard input is a pipe whose other end only the
harness holds; end of file means that the harness asked for the end or died. SIGTERM asks for a gentle end first.
Exit code: the engine's own, or 128 + the signal that ended it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import time

import psutil

PR_SET_CHILD_SUBREAPER = 36
TRACKER_GRACE_S = 2.0
POLL_S = 0.1


class EndWanted(Exception):  # noqa: N818  (no error: a request)
    """The harness asked for the end (gentle) or is gone (not gentle)."""

    def __init__(self, gentle: bool) -> None:
        super().__init__(f"gentle={gentle}")
        self.gentle = gentle


def main(scratch: str, command: list[str]) -> int:
    """Run the engine until it ends or the harness does; leave no process and no scratch folder."""
    if sys.platform == "linux":
        # Orphans of the engine become this process's children, so none can escape the sweep below.
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGTERM, lambda *_: None)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    grace_s = float(os.environ.pop("DROPGATE_STOP_GRACE_S", "5"))
    engine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        watch(engine, wake_read)
    except EndWanted as ended:
        if ended.gentle:
            stop_gently(engine, grace_s)
    finally:
        sweep(engine)
        shutil.rmtree(scratch, ignore_errors=True)
    code = engine.poll()
    return 128 + signal.SIGKILL if code is None else code if code >= 0 else 128 - code


def watch(engine: subprocess.Popen[bytes], wake: int) -> None:
    """Return when the engine has ended by itself; raise ``EndWanted`` when the harness wants the end."""
    while engine.poll() is None:
        ready, _, _ = select.select([0, wake], [], [], 5.0)
        if wake in ready and signal.SIGTERM in os.read(wake, 64):
            raise EndWanted(gentle=True)
        if 0 in ready and not os.read(0, 64):
            raise EndWanted(gentle=False)


def stop_gently(engine: subprocess.Popen[bytes], grace_s: float) -> None:
    """Ask the engine to end, and wait no longer than the grace; a second end of the harness cuts it short."""
    engine.terminate()
    deadline = time.monotonic() + grace_s
    while engine.poll() is None and time.monotonic() < deadline:
        ready, _, _ = select.select([0], [], [], POLL_S)
        if ready and not os.read(0, 64):
            return


def sweep(engine: subprocess.Popen[bytes]) -> None:
    """End every descendant. The resource tracker goes last: it still has to unlink shared memory."""
    me = psutil.Process()
    deadline = time.monotonic() + TRACKER_GRACE_S
    while descendants := me.children(recursive=True):
        patient = time.monotonic() < deadline
        for process in descendants:
            with contextlib.suppress(psutil.Error):
                if not (patient and is_tracker(process)):
                    process.kill()
        engine.poll()
        for process in descendants:
            if process.pid != engine.pid:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)  # an adopted orphan; else it stays a zombie
        time.sleep(0.02)


def is_tracker(process: psutil.Process) -> bool:
    """Tell multiprocessing's resource tracker, which ends by itself once its last client has."""
    return any("resource_tracker" in part for part in process.cmdline())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))

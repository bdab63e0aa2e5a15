"""Facts about the machine, what a run costs on it, and the change it is run for."""

from __future__ import annotations

import contextlib
import os
import platform
import threading
from collections.abc import Iterable, Mapping

import psutil

from dropgate.gpus import gpu_facts, gpus
from dropgate.scenario import Needs

GIB = 1024**3
SAMPLE_S = 2.0


def host_facts() -> dict[str, str | int | float]:
    """Return what a reader needs to place a run's times: cores, memory (GiB), system, Python, GPUs."""
    return {
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "processor": _processor(),
        "memory_gib": round(psutil.virtual_memory().total / GIB, 1),
        "system": platform.platform(),
        "python": platform.python_version(),
        **gpu_facts(),
    }


def _processor() -> str:
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123
        for line in file:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def change_under_test(environment: Mapping[str, str] = os.environ) -> dict[str, str | None] | None:
    """Return the pull request's commit, its base and its number, as CI hands them to every step; None outside CI."""
    if not (head := environment.get("DROPGATE_HEAD_SHA")):
        return None
    base, number = (environment.get(f"DROPGATE_{name}") or None for name in ("BASE_SHA", "PULL_REQUEST"))
    return {"head": head, "base": base, "pull_request": number}


def unmet_need(needs: Needs) -> str | None:
    """Say what this machine lacks as one node of a scenario; ``None`` when it lacks nothing."""
    found = gpus()
    fitting = [gpu for gpu in found if (needs.gpu_name or "") in gpu.name and gpu.memory_gib >= needs.gpu_memory_gib]
    if len(fitting) < needs.gpus_per_node:
        return f"needs {gpus_wanted(needs)}; this machine has {', '.join(gpu.name for gpu in found) or 'none'}"
    if (free := available_gib()) < needs.memory_gib:
        return f"needs {needs.memory_gib:g} GiB of memory; {free:.1f} GiB are available"
    return None


def gpus_wanted(needs: Needs) -> str:
    """Say which GPUs each node must have, as a person would."""
    size = f" with {needs.gpu_memory_gib:g} GiB" if needs.gpu_memory_gib else ""
    return f"{needs.gpus_per_node} x {needs.gpu_name or 'GPU'}{size}" if needs.gpus_per_node else "no GPU"


def available_gib() -> float:
    """Return the memory that new processes may take, in GiB."""
    return float(psutil.virtual_memory().available / GIB)


class MemoryWatch:
    """Samples the proportional set size of this process and all below it; ``peak_gib`` is the largest sum."""

    def __init__(self) -> None:
        """Start with nothing seen."""
        self.peak_gib = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="memory", daemon=True)

    def __enter__(self) -> MemoryWatch:
        """Start sampling."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take no more samples."""
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        me = psutil.Process()
        while not self._end.wait(SAMPLE_S):
            self.peak_gib = max(self.peak_gib, _sum_gib([me, *me.children(recursive=True)]))


def _sum_gib(processes: Iterable[psutil.Process]) -> float:
    total = 0
    for process in processes:
        with contextlib.suppress(psutil.Error):
            total += process.memory_full_info().pss
    return float(total / GIB)

"""The NVIDIA GPUs of this machine, as the driver's own library (NVML) sees them; none where there is no driver."""

from __future__ import annotations

import importlib
import itertools
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from dropgate.errors import EngineError

GIB = 1024**3
POLL_S = 1.0
LEFT_GIB = 1.0
"""Memory that may stay in use over what was before a variant: a driver keeps some for itself."""
TOPOLOGY = {
    "NVML_TOPOLOGY_INTERNAL": "one board",
    "NVML_TOPOLOGY_SINGLE": "one PCIe switch",
    "NVML_TOPOLOGY_MULTIPLE": "several PCIe switches",
    "NVML_TOPOLOGY_HOSTBRIDGE": "one host bridge",
    "NVML_TOPOLOGY_NODE": "one NUMA node",
    "NVML_TOPOLOGY_SYSTEM": "across NUMA nodes",
}


@dataclass(frozen=True)
class Gpu:
    """One GPU that this process may use."""

    index: int
    name: str
    memory_gib: float


def gpus(environment: Mapping[str, str] = os.environ) -> list[Gpu]:
    """Name the GPUs that CUDA_VISIBLE_DEVICES leaves to this process, with their memory in GiB."""
    with _nvml() as nvml:
        return [
            Gpu(index, nvml.nvmlDeviceGetName(handle), nvml.nvmlDeviceGetMemoryInfo(handle).total / GIB)
            for index, handle in _handles(nvml, environment)
        ]


def gpu_facts(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a reader needs to place a run's times: GPUs, driver, CUDA, topology, clocks; empty without a GPU."""
    with _nvml() as nvml:
        handles = _handles(nvml, environment)
        if not handles:
            return {}
        cuda = nvml.nvmlSystemGetCudaDriverVersion()
        return {
            "gpus": "; ".join(f"{index}: {nvml.nvmlDeviceGetName(handle)}" for index, handle in handles),
            "gpu_driver": str(nvml.nvmlSystemGetDriverVersion()),
            "gpu_cuda": f"{cuda // 1000}.{cuda % 1000 // 10}",
            "gpu_topology": "; ".join(_topology(nvml, handles)) or "one GPU",
            "gpu_clocks_mhz": "; ".join(f"{index}: {_clocks(nvml, handle)}" for index, handle in handles),
        }


def used_gib(environment: Mapping[str, str] = os.environ) -> list[float]:
    """Return the memory in use of each GPU, in GiB, whoever holds it."""
    with _nvml() as nvml:
        return [nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB for _, handle in _handles(nvml, environment)]


def wait_released(before: Sequence[float], deadline_s: float, environment: Mapping[str, str] = os.environ) -> None:
    """Wait until no GPU has more in use than ``before`` (GiB, from ``used_gib``) and a little.

    Raises:
        EngineError: not within the deadline; the GPUs are named with those who hold their memory.

    """
    end = time.monotonic() + deadline_s
    while kept := [
        number
        for number, (old, new) in enumerate(zip(before, used_gib(environment), strict=True))
        if new > old + LEFT_GIB
    ]:
        if time.monotonic() > end:
            held = "; ".join(holders(kept, environment))
            raise EngineError(f"GPU memory was not released within {deadline_s:g} s: {held}")
        time.sleep(POLL_S)


def holders(numbers: Sequence[int], environment: Mapping[str, str] = os.environ) -> list[str]:
    """Say for each of these GPUs, numbered as in ``used_gib``, how much is in use and which processes hold it."""
    found = []
    with _nvml() as nvml:
        handles = _handles(nvml, environment)
        for index, handle in (handles[number] for number in numbers):
            used = nvml.nvmlDeviceGetMemoryInfo(handle).used / GIB
            processes = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            named = ", ".join(_process(one.pid, one.usedGpuMemory) for one in processes)
            found.append(f"GPU {index} has {used:.1f} GiB in use by {named or 'no process that the driver can name'}")
    return found


def _process(pid: int, used: int | None) -> str:
    try:
        name = psutil.Process(pid).name()
    except psutil.Error:
        name = "a process of another namespace, or gone"
    return f"{name} (pid {pid}" + (f", {used / GIB:.1f} GiB)" if used else ")")


def load_nvml() -> Any:
    """Load the binding to the driver's library, which itself may not be there."""
    return importlib.import_module("pynvml")


@contextmanager
def _nvml() -> Iterator[Any]:
    """Open the library; ``None`` without a driver."""
    nvml = load_nvml()
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def _handles(nvml: Any, environment: Mapping[str, str]) -> list[tuple[int, Any]]:
    if nvml is None:
        return []
    every = [(index, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(nvml.nvmlDeviceGetCount())]
    if (visible := environment.get("CUDA_VISIBLE_DEVICES")) is None:
        return every
    names = [part.strip() for part in visible.split(",") if part.strip()]
    chosen = [[one for one in every if _is_named(nvml, one, name)] for name in names]
    # CUDA ignores everything from the first entry on that names no device.
    return [found[0] for found in itertools.takewhile(bool, chosen)]


def _is_named(nvml: Any, one: tuple[int, Any], name: str) -> bool:
    return name == str(one[0]) or (name.startswith("GPU-") and str(nvml.nvmlDeviceGetUUID(one[1])).startswith(name))


def _topology(nvml: Any, handles: Sequence[tuple[int, Any]]) -> Iterator[str]:
    for (left, one), (right, other) in itertools.combinations(handles, 2):
        level = _or_unknown(nvml, nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
        names = {getattr(nvml, constant): text for constant, text in TOPOLOGY.items()}
        yield f"{left}-{right}: {names.get(level, level)}"
    for index, handle in handles:
        yield f"{index}: {_links(nvml, handle)} NVLinks up"


def _links(nvml: Any, handle: Any) -> int:
    states = (
        _or_unknown(nvml, nvml.nvmlDeviceGetNvLinkState, handle, link) for link in range(nvml.NVML_NVLINK_MAX_LINKS)
    )
    return sum(state == nvml.NVML_FEATURE_ENABLED for state in states)


def _clocks(nvml: Any, handle: Any) -> str:
    kinds = {"SM": nvml.NVML_CLOCK_SM, "memory": nvml.NVML_CLOCK_MEM}
    return ", ".join(
        f"{name} {_or_unknown(nvml, nvml.nvmlDeviceGetClockInfo, handle, kind)} of at most "
        f"{_or_unknown(nvml, nvml.nvmlDeviceGetMaxClockInfo, handle, kind)}"
        for name, kind in kinds.items()
    )


def _or_unknown(nvml: Any, ask: Callable[..., Any], *arguments: Any) -> Any:
    """Ask; not every card and driver can answer everything."""
    try:
        return ask(*arguments)
    except nvml.NVMLError:
        return "unknown"

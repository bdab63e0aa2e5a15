"""GPUs through NVML: what a scenario needs, what stands in the evidence, who holds memory; on a stand-in library."""

from types import SimpleNamespace

import pynvml
import pytest

from dropgate import gpus as subject
from dropgate.errors import EngineError
from dropgate.gpus import GIB, Gpu, gpu_facts, gpus, holders, used_gib, wait_released
from dropgate.host import unmet_need
from dropgate.ranks.place import why_not_here
from dropgate.scenario import SCENARIOS, Needs, load_scenario


class Library:
    """Four GPUs as NVML would show them; what a test changes is ``used`` and ``name``."""

    name, total, used, uuids = "NVIDIA GB300", 277, [2.0] * 4, [f"GPU-{index}abc" for index in range(4)]

    def __init__(self) -> None:
        self.used = [2.0] * 4
        self.open = 0

    def __getattr__(self, constant: str) -> object:
        return getattr(pynvml, constant)

    def nvmlInit(self) -> None:  # noqa: N802  (NVML's own names, from here on)
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.used)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:  # noqa: N802
        return index

    def nvmlDeviceGetName(self, _: int) -> str:  # noqa: N802
        return self.name

    def nvmlDeviceGetUUID(self, handle: int) -> str:  # noqa: N802
        return self.uuids[handle]

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=self.total * GIB, used=self.used[handle] * GIB)

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return "590.11"

    def nvmlSystemGetCudaDriverVersion(self) -> int:  # noqa: N802
        return 13010

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:  # noqa: N802
        return pynvml.NVML_TOPOLOGY_NODE if {one, other} <= {0, 1} else pynvml.NVML_TOPOLOGY_SYSTEM

    def nvmlDeviceGetNvLinkState(self, _: int, link: int) -> int:  # noqa: N802
        if link >= 12:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return pynvml.NVML_FEATURE_ENABLED

    def nvmlDeviceGetClockInfo(self, _: int, kind: int) -> int:  # noqa: N802
        return {pynvml.NVML_CLOCK_SM: 345, pynvml.NVML_CLOCK_MEM: 3996}[kind]

    def nvmlDeviceGetMaxClockInfo(self, _: int, kind: int) -> int:  # noqa: N802
        if kind == pynvml.NVML_CLOCK_MEM:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return 1965

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:  # noqa: N802
        return [SimpleNamespace(pid=1, usedGpuMemory=200 * GIB)] if self.used[handle] > 100 else []


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    found = Library()
    real = [name for name in vars(Library) if name.startswith("nvml")]
    assert all(hasattr(pynvml, name) for name in real)
    monkeypatch.setattr(subject, "load_nvml", lambda: found)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


def test_without_a_gpu_nothing_is_recorded_and_nothing_waited_for() -> None:
    blind = {"CUDA_VISIBLE_DEVICES": ""}
    assert (gpus(blind), gpu_facts(blind), used_gib(blind)) == ([], {}, [])
    wait_released([], 0, blind)


def test_the_evidence_says_which_gpus_driver_cuda_topology_and_clocks(library: Library) -> None:
    facts = gpu_facts()
    assert facts["gpus"].startswith("0: NVIDIA GB300; 1: NVIDIA GB300")
    assert (facts["gpu_driver"], facts["gpu_cuda"]) == ("590.11", "13.1")
    assert facts["gpu_topology"].startswith("0-1: one NUMA node; 0-2: across NUMA nodes")
    assert "3: 12 NVLinks up" in facts["gpu_topology"]
    assert facts["gpu_clocks_mhz"].startswith("0: SM 345 of at most 1965, memory 3996 of at most unknown")
    assert library.open == 0


@pytest.mark.parametrize(
    ("visible", "indices"),
    [(None, [0, 1, 2, 3]), ("2,0", [2, 0]), ("GPU-1", [1]), ("", []), ("-1", []), ("1,9,0", [1])],
)
def test_only_what_cuda_would_see_counts(library: Library, visible: str | None, indices: list[int]) -> None:
    found = gpus({} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
    assert found == [Gpu(index, library.name, 277) for index in indices]


@pytest.mark.parametrize(
    ("needs", "lacking"),
    [
        ({"gpus_per_node": 4, "gpu_name": "GB300"}, None),
        ({"gpus_per_node": 5}, "needs 5 x GPU; this machine has NVIDIA GB300, NVIDIA GB300"),
        ({"gpus_per_node": 1, "gpu_name": "H100"}, "needs 1 x H100; this machine has NVIDIA GB300"),
        ({"gpus_per_node": 1, "gpu_memory_gib": 288}, "needs 1 x GPU with 288 GiB; this machine has"),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_need_is_met_or_named(needs: dict, lacking: str | None) -> None:
    found = unmet_need(Needs(**needs))
    assert found is None if lacking is None else (found or "").startswith(lacking)


def test_memory_that_is_released_is_waited_for(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.used = [2.0, 250.0, 2.0, 2.0]
    monkeypatch.setattr(subject.time, "sleep", lambda _: library.used.__setitem__(1, 2.5))
    wait_released([2.0] * 4, 60)
    assert library.used[1] == 2.5


def test_memory_that_is_kept_ends_the_wait_with_the_holders_name(library: Library) -> None:
    library.used = [2.0, 250.0, 2.0, 2.0]
    held = r"GPU memory was not released within 0 s: GPU 1 has 250\.0 GiB in use by .+ \(pid 1, 200\.0 GiB\)"
    with pytest.raises(EngineError, match=held):
        wait_released([2.0] * 4, 0)
    assert holders([0]) == ["GPU 0 has 2.0 GiB in use by no process that the driver can name"]


@pytest.mark.parametrize(
    ("environment", "fitting"),
    [
        ({}, {"llama31_8b_eagle3", "qwen3_8b_eagle3", "qwen3_next_80b_mtp"}),
        ({"NODE_RANK": "1", "MASTER_ADDR": "10.0.0.1"}, {"kimi_k3_dspark_gb300"}),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_machine_runs_what_fits_and_says_what_the_others_lack(environment: dict, fitting: set[str]) -> None:
    scenarios = [load_scenario(path.stem) for path in SCENARIOS.glob("*.yaml")]
    reasons = {one.name: why_not_here(one, environment) for one in scenarios if one.needs.gpus_per_node}
    assert {name for name, reason in reasons.items() if reason is None} == fitting
    left = " ".join(reason for reason in reasons.values() if reason)
    assert "NODE_RANK and MASTER_ADDR do not say" in left or "this is one of several" in left

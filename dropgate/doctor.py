"""What this machine has and lacks for a run, and how to get it."""

from __future__ import annotations

from dropgate.engine.interpreter import describe_engine, require_option
from dropgate.engine.process import free_port
from dropgate.errors import DropgateError
from dropgate.gpus import gpu_facts, gpus
from dropgate.host import available_gib, host_facts
from dropgate.scenario import SCENARIOS, load_scenario

Finding = tuple[bool, str]


def examine() -> tuple[str, bool]:
    """Return the findings as lines, and whether the embedded default can run here."""
    findings = [_engine(), _cpus(), _memory(), _port(), (True, f"GPUs: {_gpus()}"), _scenarios()]
    lines = [f"{'ok     ' if good else 'MISSING'} {text}" for good, text in findings]
    return "\n".join(lines) + "\n", all(good for good, _ in findings)


def _engine() -> Finding:
    try:
        identity = require_option(describe_engine())
    except DropgateError as error:
        return False, f"engine: {error}"
    return True, f"engine: vLLM {identity.version} in {identity.python}, knows the option"


def _cpus() -> Finding:
    facts = host_facts()
    enough = int(facts["cpus"]) >= 2
    return enough, f"CPUs: {facts['cpus']} ({facts['processor']})" + ("" if enough else "; two are needed")


def _memory() -> Finding:
    wanted = load_scenario("tiny_eagle3_cpu").needs.memory_gib
    free = available_gib()
    return free >= wanted, f"memory: {free:.1f} GiB available, {wanted:g} GiB needed"


def _port() -> Finding:
    try:
        return True, f"ports: {free_port('127.0.0.1')} is free on loopback"
    except OSError as error:
        return False, f"ports: none can be had on loopback: {error.strerror}"


def _gpus() -> str:
    facts = gpu_facts()
    if not facts:
        return "none that NVML knows; CPU scenarios need none"
    sizes = ", ".join(f"{gpu.name} {gpu.memory_gib:.0f} GiB" for gpu in gpus())
    return f"{sizes}; driver {facts['gpu_driver']}, CUDA {facts['gpu_cuda']}"


def _scenarios() -> Finding:
    names = sorted(path.stem for path in SCENARIOS.glob("*.yaml"))
    return bool(names), f"scenarios: {', '.join(names)}"

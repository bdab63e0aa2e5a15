"""The one place that names vLLM: its modules are imported late, untyped, and only when a replay runs."""

from __future__ import annotations

import importlib
from typing import Any


def vllm_module(name: str) -> Any:
    """Import `vllm.NAME`. `prepare_vllm()` must have run, or be running."""
    return importlib.import_module(f"vllm.{name}")

"""The tiny models, broken on purpose: each a folder that a server can be given in place of a good one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from dropgate.scenario import FIXTURES, Scenario

MODELS = FIXTURES / "models"
Weights = dict[str, torch.Tensor]


def noisy(weights: Weights) -> None:
    """Add noise to every matrix of the draft: acceptance falls by a few points, nothing else changes."""
    random = torch.Generator().manual_seed(7)
    for name, value in weights.items():
        if value.ndim == 2:
            noise = torch.randn(value.shape, generator=random) * value.float().std() * NOISE
            weights[name] = (value.float() + noise).to(value.dtype)


def zeroed(weights: Weights) -> None:
    """Take the draft's one layer away."""
    for name, value in weights.items():
        if name.startswith("midlayer."):
            weights[name] = torch.zeros_like(value)


def nudged(factor: float) -> Callable[[Weights], None]:
    """Let the target like one digit ``factor`` times as much: a few answers take another turn."""

    def nudge(weights: Weights) -> None:
        head = weights["lm_head.weight"].float()
        head[DIGIT] *= factor
        weights["lm_head.weight"] = head.to(weights["lm_head.weight"].dtype)

    return nudge


NOISE = 0.16
DIGIT = 22
"""Token id of a digit."""


def broken(scenario: Scenario, part: str, how: Callable[[Weights], None], folder: Path) -> Scenario:
    """Return the scenario with a broken ``target`` or ``draft``, written to ``folder``."""
    source = MODELS / {"target": "tiny_llama", "draft": "tiny_llama_eagle3"}[part]
    shutil.copytree(source, folder)
    weights = load_file(source / "model.safetensors")
    how(weights)
    save_file({name: value.contiguous() for name, value in weights.items()}, folder / "model.safetensors")
    engine = scenario.engine
    if part == "target":
        return scenario.model_copy(update={"engine": engine.model_copy(update={"model": str(folder)})})
    flags = {**engine.flags, "speculative-config": {**scenario.speculative, "model": str(folder)}}
    return scenario.model_copy(update={"engine": engine.model_copy(update={"flags": flags})})

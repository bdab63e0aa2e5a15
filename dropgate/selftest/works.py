"""The two small workloads of the self-test, on one command line, so that one pair of engines serves both."""

from __future__ import annotations

from typing import Literal

from dropgate.scenario import Scenario, load_scenario

WorkName = Literal["prefix", "answers"]
BASE = "tiny_eagle3_cpu_gsm8k"
"""Whose engine runs; its unit is 128 tokens."""

SIZES: dict[WorkName, tuple[str, ...]] = {
    # Scenario A: 160 requests behind two prefixes of 8 units; every prompt is a whole number of units.
    "prefix": (
        "workloads={prefix: {requests: 160, concurrency: 16, prefix_tokens: 1024, suffix_tokens: 128, prefixes: 2, "
        "output_tokens: 1, control: 8, token_ids: [16, 250], seed: 20260901}}",
        "promises=[{kind: prefix_law}, {kind: same_outputs}]",
    ),
    # Scenario B: word problems, cold and behind 8 units of worked examples.
    "answers": (
        "workloads.gsm8k.questions=48",
        "workloads.gsm8k.prefix_tokens=1024",
        "workloads.gsm8k.control=4",
        "workloads.gsm8k.warm_control=8",
        "workloads.gsm8k.oracle=8",
        "workloads.gsm8k.accuracy=null",
        "promises=[{kind: acceptance, path: cold, margin_pp: 1.0}, {kind: acceptance, path: hit, margin_pp: 1.5}, "
        "{kind: acceptance_band, path: cold, tolerance_pp: 2.0, reference: self_test}, "
        "{kind: acceptance_band, path: hit, tolerance_pp: 2.0, reference: self_test}, "
        "{kind: hit_path_law}, {kind: same_answers}]",
    ),
}


def work_scenario(work: WorkName, sets: tuple[str, ...] = ()) -> Scenario:
    """Return a workload's scenario, with further ``--set`` assignments."""
    return load_scenario(BASE, (*SIZES[work], *sets))

"""The small workloads of the self-test, on one command line, so that the same engines serve them all."""

from __future__ import annotations

from typing import Literal

from dropgate.scenario import Scenario, load_scenario

WorkName = Literal["prefix", "answers", "times"]
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
    # Blocks in the order ABBA on two servers without the option, so that nothing but a fault makes one slower. On two
    # cores one pair of blocks differs by 15 %, so twelve of them tell a fifth from nothing, and less not.
    "times": (
        "variants.candidate={}",
        "workloads={prefix: {requests: 32, concurrency: 8, prefix_tokens: 256, suffix_tokens: 64, output_tokens: 48, "
        "token_ids: [16, 250], seed: 20260902}, timing: {blocks: 12, requests: 32}}",
        "promises=[{kind: timing, throughput_at_least: 0.8}]",
    ),
}


def work_scenario(work: WorkName, sets: tuple[str, ...] = ()) -> Scenario:
    """Return a workload's scenario, with further ``--set`` assignments."""
    return load_scenario(BASE, (*SIZES[work], *sets))

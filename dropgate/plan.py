"""A plan: every command, variable and file of a run, in words; nothing is started."""

from __future__ import annotations

import os

from dropgate.engine.environment import engine_environment, recorded_environment
from dropgate.engine.interpreter import engine_python
from dropgate.errors import InputError
from dropgate.scenario import Scenario
from dropgate.scenario.workloads import Gsm8k, PrefixRepetition
from dropgate.variants import Variant, server_names, shell_line, variant


def plan_text(scenario: Scenario, rank: int | None) -> str:
    """Return the plan of one rank, or of all.

    Raises:
        InputError: the scenario has no such rank.

    """
    nodes = scenario.needs.nodes
    if rank is not None and not 0 <= rank < nodes:
        raise InputError(f"--rank {rank}: {scenario.name} has ranks 0 to {nodes - 1}")
    ranks = range(nodes) if rank is None else [rank]
    lines = [f"# {scenario.title}", f"# {scenario.source}", *_header(scenario)]
    for name in server_names(scenario):
        for number in ranks:
            lines += ["", *_commands(variant(scenario, name, number), nodes)]
    return "\n".join([*lines, "", *_steps(scenario)]) + "\n"


def _header(scenario: Scenario) -> list[str]:
    needs = scenario.needs
    gpus = f", {needs.gpus_per_node} x {needs.gpu_name or 'GPU'} each" if needs.gpus_per_node else ", no GPU"
    return [f"# needs: {needs.nodes} node(s){gpus}", f"# engine interpreter: {engine_python()}"]


def _commands(chosen: Variant, nodes: int) -> list[str]:
    where = f", node rank {chosen.rank}" if nodes > 1 else ""
    environment = recorded_environment(engine_environment(os.environ, chosen.environment, "<scratch folder>"))
    return [
        f"# {chosen.name}{where}",
        shell_line(chosen.argv),
        f"#   added to observe:  {' '.join(chosen.observe) or 'nothing'}",
        "#   added to own it:   --host HOST --port PORT --served-model-name ... NONCE",
        *(f"#   env {name}={value}" for name, value in environment.items()),
    ]


def _steps(scenario: Scenario) -> list[str]:
    prefix, gsm8k = scenario.workloads.prefix, scenario.workloads.gsm8k
    return [
        f"# boot: {scenario.engine.boot}; then for each variant:",
        *(_prefix_steps(prefix) if prefix else []),
        *(_gsm8k_steps(gsm8k) if gsm8k else []),
        f"# promises: {', '.join(promise.kind for promise in scenario.promises)}",
        f"# files: runs/{scenario.name}-TIME/evidence.json, verdict.json, report.md, report.html,",
        "#   SERVER/engine.log, SERVER/PHASE/{populate,requests,control,warm_control}.jsonl, metrics-*.txt",
    ]


def _prefix_steps(work: PrefixRepetition) -> list[str]:
    populate = f"send {work.prefixes} untimed request(s)" if work.populate else "(no populating request)"
    length = work.prefix_tokens + work.suffix_tokens
    return [
        f"#   prefix: reset the prefix cache, {populate}, capture the counters,",
        f"#     send {work.requests} requests of {length:,} token ids ({work.prefix_tokens:,} shared), "
        f"concurrency {work.concurrency}, {work.output_tokens} output token(s), seed {work.seed}, capture again",
    ]


def _gsm8k_steps(work: Gsm8k) -> list[str]:
    lines = [
        "#   acceptance: reset, one untimed request, capture the counters,",
        f"#     send the first {work.questions:,} GSM8K questions in order, concurrency {work.concurrency}, at most "
        f"{work.output_tokens} output tokens, capture again",
        f"#   acceptance_hit_path: the same behind one few-shot prefix of {work.prefix_tokens:,} tokens",
        f"#     controls: {work.control} answered again alone and cold, {work.warm_control} as they were",
    ]
    if work.accuracy:
        lines.append(f"#   accuracy: lm-eval on {work.accuracy.problems:,} problems ({work.accuracy.data})")
    if work.oracle:
        lines.append(f"# a third server without speculation answers the first {work.oracle} prompts of either path")
    return lines

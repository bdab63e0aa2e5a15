"""A plan: every command, variable and file of a run, in words; nothing is started."""

from __future__ import annotations

import os
from pathlib import Path

from dropgate.engine.environment import engine_environment, recorded_environment
from dropgate.engine.interpreter import engine_python
from dropgate.errors import InputError
from dropgate.evidence import QuestionSet
from dropgate.host import gpus_wanted
from dropgate.scenario import Scenario
from dropgate.scenario.workloads import Gsm8k, PrefixRepetition, Timing
from dropgate.variants import Variant, server_names, shell_line, variant
from dropgate.workload.bench import DATASET, bench_arguments, gsm8k_bench, prefix_bench
from dropgate.workload.client import Target


def plan_text(scenario: Scenario, rank: int | None) -> str:
    """Return the plan of one rank, or of all.

    Raises:
        InputError: the scenario has no such rank.

    """
    nodes = scenario.ranks
    if rank is not None and not 0 <= rank < nodes:
        raise InputError(f"--rank {rank}: {scenario.name} has ranks 0 to {nodes - 1}")
    ranks = range(nodes) if rank is None else [rank]
    lines = [f"# {scenario.title}", f"# {scenario.source}", *_header(scenario)]
    for name in server_names(scenario):
        for number in ranks:
            # One rank's plan does not say which it is, so that two of them differ by their commands alone.
            where = f", node rank {number}" if nodes > 1 and rank is None else ""
            lines += ["", *_commands(variant(scenario, name, number), where, nodes)]
    return "\n".join([*lines, "", *_steps(scenario)]) + "\n"


def _header(scenario: Scenario) -> list[str]:
    needs = scenario.needs
    each = " each" if needs.gpus_per_node else ""
    lines = [f"# needs: {needs.nodes} node(s), {gpus_wanted(needs)}{each}", f"# engine interpreter: {engine_python()}"]
    if (nodes := scenario.nodes).local:
        lines.append(f"# nodes: all {nodes.local} on this machine, on loopback; or each by itself, with NODE_RANK set")
    if scenario.ranks > 1:
        lines.append(f"# on each: NODE_RANK=0..{scenario.ranks - 1} MASTER_ADDR=... dropgate run {scenario.name}")
        lines.append(f"#   rank 0 waits for the others on $MASTER_ADDR:{nodes.port} for {scenario.deadlines.join:g} s")
    return lines


def _commands(chosen: Variant, where: str, nodes: int) -> list[str]:
    meeting = " --master-port PORT" if nodes > 1 else ""
    environment = recorded_environment(engine_environment(os.environ, chosen.environment, "<scratch folder>"))
    return [
        f"# {chosen.name}{where}",
        shell_line(chosen.argv),
        f"#   added to observe:  {' '.join(chosen.observe) or 'nothing'}",
        "#   added to own it:   --host HOST --port PORT --served-model-name ... NONCE" + meeting,
        *(f"#   env {name}={value}" for name, value in environment.items()),
    ]


def _steps(scenario: Scenario) -> list[str]:
    prefix, timing, gsm8k = scenario.workloads.prefix, scenario.workloads.timing, scenario.workloads.gsm8k
    return [
        f"# boot: {scenario.engine.boot}; then for each variant:",
        *(_prefix_steps(prefix) if prefix else []),
        *(_timing_steps(timing, scenario.engine.boot) if timing else []),
        *(_gsm8k_steps(gsm8k) if gsm8k else []),
        *_bench_commands(scenario),
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


def _bench_commands(scenario: Scenario) -> list[str]:
    """Write what ``vllm bench serve`` is told, where it is the client."""
    prefix, gsm8k = scenario.workloads.prefix, scenario.workloads.gsm8k
    plans = [prefix_bench(prefix)] if prefix and prefix.driver == "bench" else []
    if gsm8k and gsm8k.driver == "bench":
        nothing = QuestionSet(name="", rows=0, sha256="", token_ids=[])
        plans.append(gsm8k_bench(gsm8k, nothing, Path(DATASET)))
    target = Target("http://HOST:PORT", "NONCE", 0, lambda: 0.0)
    lines = []
    for plan in plans:
        command = shell_line(("vllm", *bench_arguments(scenario, target, plan.arguments, plan.seed)))
        lines += [f"#   {plan.name} is sent by the bench, in place of those requests:", command]
    return lines


def _timing_steps(timing: Timing, boot: str) -> list[str]:
    order = "in the order ABBA" if boot == "side_by_side" else "one variant after the other"
    return [f"#   timing: the same with {timing.requests} requests, {timing.blocks} times a variant, {order}"]


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

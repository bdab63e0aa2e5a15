"""One prompt of a saved run, sent again to freshly booted servers: where a divergence is looked into."""

from __future__ import annotations

import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from dropgate.console import Narrator
from dropgate.engine.interpreter import describe_engine, require_option
from dropgate.engine.server import Server, stop_together, wait_ready
from dropgate.errors import InputError
from dropgate.evidence import Evidence, RequestRecord
from dropgate.judge.divergence import divergences
from dropgate.variants import server_names, variant
from dropgate.workload.client import Target, send_all
from dropgate.workload.gsm8k import gsm8k_plans
from dropgate.workload.prompts import Prompt
from dropgate.workload.protocol import Plan, prefix_plan


def find_prompt(evidence: Evidence, phase: str, index: int) -> tuple[Plan, Prompt]:
    """Return the plan that a prompt was part of, and the prompt.

    Raises:
        InputError: the run had no such phase or request, or nobody knows its prompts.

    """
    if (seen := evidence.variants["baseline"].phases.get(phase)) and seen.bench:
        raise InputError(f"--phase {phase}: `vllm bench serve` sent it, and keeps no prompt's token ids")
    work, plans = evidence.scenario.workloads, {}
    if work.prefix:
        plans["prefix"] = prefix_plan(work.prefix, control=False)
    if work.gsm8k and evidence.questions:
        plans |= gsm8k_plans(work.gsm8k, evidence.questions, "candidate")
    if phase not in plans:
        raise InputError(f"--phase {phase}: the run has {', '.join(plans) or 'none'}")
    timed = plans[phase].timed
    if not 0 <= index < len(timed):
        raise InputError(f"--request {index}: phase {phase} has requests 0 to {len(timed) - 1}")
    return plans[phase], timed[index]


def send_again(evidence: Evidence, phase: str, index: int, narrator: Narrator) -> tuple[str, bool]:
    """Send one prompt to every server of the run, alone behind its populating requests.

    Returns what each server said beside the saved baseline's answer, and whether all said the same.

    Raises:
        InputError: see ``find_prompt``; or a server spans several nodes.

    """
    if evidence.scenario.ranks > 1:
        raise InputError(f"{evidence.scenario.name}: its servers span {evidence.scenario.ranks} nodes, this boots one")
    plan, prompt = find_prompt(evidence, phase, index)
    python = require_option(describe_engine()).python
    records: dict[str, RequestRecord] = {}
    with tempfile.TemporaryDirectory(prefix="dropgate-again-") as folder, ExitStack() as stack:
        servers = [
            stack.enter_context(
                Server(evidence.scenario, variant(evidence.scenario, name), python, Path(folder) / f"{name}.log")
            )
            for name in server_names(evidence.scenario)
        ]
        narrator.say("booting " + ", ".join(server.variant.name for server in servers))
        wait_ready(servers, narrator.say)
        for server in servers:
            deadline_s = evidence.scenario.deadlines.request
            target = Target(server.url, server.address.served_name, deadline_s, time.monotonic)
            server.reset_prefix_cache()
            send_all(target, plan.populate, plan.sampling, 1)
            (records[server.variant.name],) = send_all(target, [prompt], plan.sampling, 1)
        stop_together(servers)
    return _shown(evidence, phase, index, records)


def _shown(evidence: Evidence, phase: str, index: int, records: dict[str, RequestRecord]) -> tuple[str, bool]:
    saved = evidence.variants["baseline"].phases[phase].requests[index]
    lines = [f"{phase}, request #{index}, {saved.prompt_tokens_sent:,} prompt tokens; against the saved run's baseline"]
    same = True
    for name, record in {"saved baseline": saved, **records}.items():
        said = f"{len(record.token_ids)} output tokens, {record.cached_tokens} cached"
        lines.append(f"  {name:16} {record.error or said}")
        for found in divergences([saved], [record.model_copy(update={"index": index})]):
            same = False
            tops = [one.top_logprobs[found.position : found.position + 1] for one in (saved, record)]
            lines += [f"    {found}", *(f"    top two {top}" for top in tops)]
        same = same and record.error is None
    return "\n".join([*lines, "the same" if same else "not the same"]) + "\n", same

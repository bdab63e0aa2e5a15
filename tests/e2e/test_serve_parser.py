"""vLLM's own ``serve`` parser accepts every command line of every scenario and node."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dropgate.engine.interpreter import LAUNCHER, engine_python
from dropgate.evidence import QuestionSet
from dropgate.scenario import SCENARIOS, load_scenario
from dropgate.variants import Address, Master, launch_arguments, server_names, variant
from dropgate.workload.bench import DATASET, bench_arguments, gsm8k_bench, prefix_bench
from dropgate.workload.client import Target

pytestmark = pytest.mark.cpu

PARSE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import launcher
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.benchmarks.serve import add_cli_args
from vllm.utils.argparse_utils import FlexibleArgumentParser
bench = FlexibleArgumentParser()
add_cli_args(bench)
for line in sys.stdin:
    command, *words = json.loads(line)
    if command == "bench":
        parsed = bench.parse_args(words)
        print(json.dumps([parsed.dataset_name, parsed.num_prompts, parsed.ignore_eos, parsed.ready_check_timeout_sec]))
    else:
        parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
        print(json.dumps([parsed.model_tag, parsed.headless, parsed.node_rank, parsed.speculative_config]))
"""


def command_lines() -> list[list[str]]:
    lines = []
    for path in sorted(SCENARIOS.glob("*.yaml")):
        scenario = load_scenario(path.stem)
        for name in server_names(scenario):
            for rank in range(scenario.ranks):
                chosen = variant(scenario, name, rank)
                master = Master("10.0.0.1", 29501) if scenario.ranks > 1 else None
                lines.append(launch_arguments(scenario, chosen, Address("127.0.0.1", 8000, "nonce"), master))
    return lines


def bench_lines() -> list[list[str]]:
    """The published commands of scenarios A and B."""
    scenario, target = load_scenario("kimi_k3_dspark_gb300"), Target("http://h:1", "nonce", 60, lambda: 0.0)
    prefix, gsm8k = scenario.workloads.prefix, scenario.workloads.gsm8k
    assert prefix
    assert gsm8k
    questions = QuestionSet(name="", rows=0, sha256="", token_ids=[])
    plans = [prefix_bench(prefix), gsm8k_bench(gsm8k, questions, Path(DATASET))]
    return [bench_arguments(scenario, target, plan.arguments, plan.seed) for plan in plans]


def test_the_real_parsers_take_every_command_line() -> None:
    """What a plan prints is what vLLM takes, on the worker node too; and the bench sends no request of its own."""
    lines = command_lines()
    words = [*lines, *(["bench", *line[2:]] for line in bench_lines())]
    given = "\n".join(json.dumps(line) for line in words)
    command = [engine_python(), "-c", PARSE, str(LAUNCHER.parent)]
    result = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    parsed = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
    assert parsed[len(lines) :] == [["prefix_repetition", 160, True, 0], ["sharegpt", 1319, False, 0]]
    for (model, headless, rank, speculative), (_, *line) in zip(parsed[: len(lines)], lines, strict=True):
        assert model == line[0]
        assert headless == ("--headless" in line) == (rank == 1)
        flag = "--speculative-config"
        assert speculative == (json.loads(line[line.index(flag) + 1]) if flag in line else None)

"""vLLM's own ``serve`` parser accepts every command line of every scenario and node."""

from __future__ import annotations

import json
import subprocess

import pytest

from dropgate.engine.interpreter import LAUNCHER, engine_python
from dropgate.scenario import SCENARIOS, load_scenario
from dropgate.variants import Address, Master, launch_arguments, server_names, variant

pytestmark = pytest.mark.cpu

PARSE = """
import json, sys
sys.path.insert(0, sys.argv[1])
import launcher
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
for line in sys.stdin:
    parsed = make_arg_parser(FlexibleArgumentParser()).parse_args(json.loads(line))
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
                lines.append(launch_arguments(scenario, chosen, Address("127.0.0.1", 8000, "nonce"), master)[1:])
    return lines


def test_the_real_parser_takes_every_command_line() -> None:
    """What a plan prints is what vLLM takes, on the worker node too."""
    lines = command_lines()
    given = "\n".join(json.dumps(line) for line in lines)
    command = [engine_python(), "-c", PARSE, str(LAUNCHER.parent)]
    result = subprocess.run(command, input=given, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-2000:]
    parsed = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("[")]
    assert len(parsed) == len(lines)
    for (model, headless, rank, speculative), line in zip(parsed, lines, strict=True):
        assert model == line[0]
        assert headless == ("--headless" in line) == (rank == 1)
        flag = "--speculative-config"
        assert speculative == (json.loads(line[line.index(flag) + 1]) if flag in line else None)

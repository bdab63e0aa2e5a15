"""Command lines: scenario A's, argument for argument, and nothing but the one key between the variants."""

import shlex

import pytest

from dropgate.law import VARIANT_NAMES
from dropgate.scenario import SCENARIOS, load_scenario
from dropgate.variants import Address, Master, api_host, launch_arguments, variant

# As the authors of the option published it (vLLM pull request 53388).
SCENARIO_A = """
vllm serve moonshotai/Kimi-K3 --trust-remote-code --tensor-parallel-size 8
  --nnodes 2 --node-rank {rank} --master-addr $MASTER_ADDR
  --served-model-name moonshotai/Kimi-K3 --gpu-memory-utilization 0.92
  --max-model-len 32768 --max-num-seqs 16 --max-num-batched-tokens 16384
  --moe-backend auto --quantization-config.moe.activation mxfp8 --kv-cache-dtype fp8
  --attention-config '{{"use_prefill_query_quantization":true,"mla_prefill_backend":"FLASHINFER"}}'
  --enable-prefix-caching
  --speculative-config '{{"method":"dspark","model":"Inferact/Kimi-K3-DSpark","num_speculative_tokens":7,\
"attention_backend":"FLASHINFER_MLA","draft_sample_method":"greedy"{option}}}'
  --enforce-eager {headless}
"""
OPTION = {"baseline": "", "candidate": ',"disable_eagle_block_drop":true'}


@pytest.mark.parametrize("name", VARIANT_NAMES)
@pytest.mark.parametrize(("rank", "headless"), [(0, ""), (1, "--headless")])
def test_kimi_k3_is_scenario_a_argument_for_argument(name, rank, headless) -> None:
    published = shlex.split(SCENARIO_A.format(rank=rank, headless=headless, option=OPTION[name]))
    assert list(variant(load_scenario("kimi_k3_dspark_gb300"), name, rank).argv) == published


@pytest.mark.parametrize("scenario", [path.stem for path in SCENARIOS.glob("*.yaml")])
def test_the_variants_differ_by_the_option_alone(scenario: str) -> None:
    baseline, candidate = (variant(load_scenario(scenario), name) for name in VARIANT_NAMES)
    different = [(a, b) for a, b in zip(baseline.argv, candidate.argv, strict=True) if a != b]
    assert [(a.replace("}", OPTION["candidate"] + "}"), b) for a, b in different] == [(b, b) for _, b in different]
    assert len(different) == 1
    assert (baseline.observe, baseline.environment) == (candidate.observe, candidate.environment)


def test_false_becomes_the_negative_flag() -> None:
    scenario = load_scenario("tiny_eagle3_cpu", ("engine.flags.enable-prefix-caching=false",))
    assert "--no-enable-prefix-caching" in variant(scenario, "baseline").argv


def test_the_launch_adds_the_nonce_after_the_scenarios_own_name() -> None:
    scenario = load_scenario("kimi_k3_dspark_gb300")
    chosen = variant(scenario, "candidate", rank=1)
    master = Master("10.0.0.1", 29501)
    arguments = launch_arguments(scenario, chosen, Address("10.0.0.1", 8000, "nonce"), master)
    assert arguments[-5:] == ["--served-model-name", "moonshotai/Kimi-K3", "nonce", "--master-port", "29501"]
    assert arguments[arguments.index("--master-addr") + 1] == "10.0.0.1"
    assert "$MASTER_ADDR" not in arguments


def test_the_api_listens_where_the_scenario_says() -> None:
    assert api_host(load_scenario("kimi_k3_dspark_gb300"), "10.0.0.1") == "10.0.0.1"
    assert api_host(load_scenario("tiny_eagle3_cpu_2node"), "10.0.0.1") == "127.0.0.1"

"""The promise on real engines: exactly one kept block a request, seen, and seen to be missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dropgate.engine.server import Server
from dropgate.judge import Check, Judgement, Verdict, judge
from dropgate.law import VariantName
from dropgate.scenario import load_scenario
from tests.support.engines import SMALL, UNIT, Measure, run_dropgate

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
Engines = dict[VariantName, Server]


def odd(judgement: Judgement) -> dict[str, Check]:
    return {check.name: check for check in judgement.checks if check.verdict is not Verdict.PASS}


def test_keeps_the_trailing_block(engines: Engines, measure: Measure) -> None:
    """With the option on, every warm request reuses its whole aligned prefix."""
    judgement = judge(measure(engines["baseline"], engines["candidate"]))
    assert odd(judgement) == {}
    assert judgement.metrics["delta"]["cached_tokens_per_request"] == UNIT


def test_an_option_without_effect_is_a_failure(engines: Engines, measure: Measure) -> None:
    """Two servers that both drop the block are told from the promise."""
    forgotten = load_scenario("tiny_eagle3_cpu", (*SMALL, "variants.candidate={}"))
    judgement = judge(measure(engines["baseline"], engines["baseline"], forgotten))
    assert judgement.verdict is Verdict.FAIL
    delta = odd(judgement)["prefix.delta.cached_tokens_per_request"]
    assert (delta.expected, delta.seen) == ("+128", "0")


def test_a_default_that_keeps_the_block_is_a_failure_of_the_baseline(engines: Engines, measure: Measure) -> None:
    """A changed default is named as such."""
    kept = load_scenario("tiny_eagle3_cpu", (*SMALL, "variants.baseline.disable_eagle_block_drop=true"))
    judgement = judge(measure(engines["candidate"], engines["candidate"], kept))
    assert judgement.verdict is Verdict.FAIL
    check = odd(judgement)["prefix.baseline.cached_tokens_per_request"]
    assert (check.expected, check.seen) == ("256", "384")


def test_a_forgotten_populating_request_is_invalid(engines: Engines, measure: Measure) -> None:
    """A run whose protocol was cut short says nothing, whatever it counted."""
    cut = load_scenario("tiny_eagle3_cpu", (*SMALL, "workloads.prefix.populate=false"))
    judgement = judge(measure(engines["baseline"], engines["candidate"], cut))
    assert judgement.verdict is Verdict.INVALID
    assert odd(judgement)["prefix.baseline.populated"].seen == "0 answered of 0 sent"


@pytest.mark.parametrize("suffix", [0, 1, 63, 64, 65])
@pytest.mark.parametrize("prefix", [UNIT - 1, UNIT, UNIT + 1, 2 * UNIT, 3 * UNIT])
def test_the_law_holds_around_multiples_of_the_unit(
    engines: Engines, measure: Measure, prefix: int, suffix: int
) -> None:
    """Lengths below, at and above a multiple of the unit reuse exactly what the law says."""
    sizes = (f"workloads.prefix.prefix_tokens={prefix}", f"workloads.prefix.suffix_tokens={suffix}")
    scenario = load_scenario("tiny_eagle3_cpu", (*SMALL, *sizes, "workloads.prefix.requests=2"))
    judgement = judge(measure(engines["baseline"], engines["candidate"], scenario))
    below_one_unit = min(prefix, prefix + suffix - 1) < UNIT
    assert judgement.verdict is (Verdict.INVALID if below_one_unit else Verdict.PASS), odd(judgement)


def test_prefix_caching_switched_off_is_invalid(tmp_path: Path) -> None:
    """Without a cache nothing can be kept: no verdict on the option."""
    off = ("engine.flags.enable-prefix-caching=false", "workloads.prefix.requests=4", *SMALL[2:])
    sets = [argument for assignment in off for argument in ("--set", assignment)]
    result = run_dropgate("run", "tiny_eagle3_cpu", "--out", str(tmp_path / "out"), *sets)
    assert result.returncode == 75, result.stdout + result.stderr
    assert "prefix.candidate.prefix_caching: expected enable_prefix_caching=True, seen False" in result.stdout


def test_the_main_job(tmp_path: Path) -> None:
    """One command: scenario A's table to the token, evidence that judges the same again, exit 0."""
    out = tmp_path / "out"
    result = run_dropgate("run", "tiny_eagle3_cpu", "--out", str(out))
    assert result.returncode == 0, result.stdout + result.stderr
    document = json.loads((out / "verdict.json").read_text())
    assert document["verdict"] == "pass"
    counts = (
        "cached_tokens_per_request",
        "computed_tokens_per_request",
        "cached_tokens_total",
        "computed_tokens_total",
    )
    seen = {name: [document["metrics"][name][count] for count in counts] for name in ("baseline", "candidate")}
    assert seen == {
        "baseline": [10752, 1792, 1720320, 286720],
        "candidate": [12288, 256, 1966080, 40960],
    }
    lines = (out / "candidate/prefix/requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["cached_tokens"] for line in lines] == [12288] * 160
    again = run_dropgate("judge", str(out))
    assert again.returncode == 0
    assert "differs" not in again.stderr

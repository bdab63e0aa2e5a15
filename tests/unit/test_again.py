"""One prompt of a saved run is sent again, or it is said why that cannot be."""

from __future__ import annotations

import pytest

from dropgate.again import find_prompt, send_again
from dropgate.console import Narrator
from dropgate.errors import InputError
from dropgate.evidence import BenchEvidence, BenchRun, Evidence
from dropgate.scenario import load_scenario
from tests.support.factory import evidence


def test_a_prompt_is_found_by_its_phase_and_index() -> None:
    _, prompt = find_prompt(evidence(), "prefix", 5)
    assert (len(prompt.token_ids), prompt.shared_tokens) == (4672, 4608)


@pytest.mark.parametrize(
    ("phase", "index", "reason"),
    [("acceptance", 0, "the run has prefix"), ("prefix", 6, "phase prefix has requests 0 to 5")],
)
def test_what_the_run_had_not_is_refused(phase: str, index: int, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        find_prompt(evidence(), phase, index)


def sent_by_bench() -> Evidence:
    whole = evidence()
    bench = BenchEvidence(timed=BenchRun(command=[], own_requests=0, result={}))
    seen = whole.variants["baseline"]
    phase = seen.phases["prefix"].model_copy(update={"bench": bench, "requests": []})
    baseline = seen.model_copy(update={"phases": {"prefix": phase}})
    return whole.model_copy(update={"variants": {**whole.variants, "baseline": baseline}})


def test_a_prompt_that_nobody_kept_is_refused() -> None:
    with pytest.raises(InputError, match="keeps no prompt's token ids"):
        find_prompt(sent_by_bench(), "prefix", 0)


def test_a_server_over_several_nodes_is_not_booted_on_one() -> None:
    spread = evidence().model_copy(update={"scenario": load_scenario("tiny_eagle3_cpu_2node")})
    with pytest.raises(InputError, match="its servers span 2 nodes"):
        send_again(spread, "prefix", 0, Narrator(quiet=True))

"""The published numbers: what is exact follows from the scenario, what is derived follows from the counts."""

from __future__ import annotations

import pytest

from dropgate.errors import InputError
from dropgate.law import VARIANT_NAMES
from dropgate.references import Reference, load_reference
from dropgate.scenario import load_scenario
from dropgate.scenario.promises import PrefixPromise

NAME = "kimi_k3_dspark_gb300"
REFERENCE = load_reference(NAME)


@pytest.mark.parametrize("name", VARIANT_NAMES)
def test_scenario_as_counts_are_those_that_the_scenario_pins(name: str) -> None:
    scenario, published = load_scenario(NAME), getattr(REFERENCE, name)
    (promise,) = [one for one in scenario.promises if isinstance(one, PrefixPromise)]
    assert promise.expect
    pinned, work = getattr(promise.expect, name), scenario.workloads.prefix
    assert work
    assert published.requests == work.requests
    assert published.cached_tokens_per_request == pinned.cached_tokens_per_request
    assert published.cached_tokens_total == pinned.cached_tokens_per_request * work.requests
    assert published.computed_tokens_per_request == pinned.computed_tokens_per_request
    assert published.computed_tokens_total == pinned.computed_tokens_per_request * work.requests


@pytest.mark.parametrize(("name", "rate", "length"), [("baseline", 40.564, 3.84), ("candidate", 40.717, 3.85)])
def test_scenario_bs_counts_give_the_published_rates(name: str, rate: float, length: float) -> None:
    seen = REFERENCE.measures(name)["acceptance"]
    assert seen["prompts"] == 1319
    assert seen["draft_tokens"] == 7 * seen["steps"]
    assert round(100 * seen["rate"], 3) == rate
    assert round(seen["length"], 2) == length


def test_published_gains_are_the_references_ratios() -> None:
    """+100.91 % throughput, -53.75 % P50 and -39.14 % P90 time to first token."""
    ratios = REFERENCE.ratios
    assert ratios
    seen = [ratios.throughput, ratios.ttft_p50, ratios.ttft_p90]
    assert seen == pytest.approx([2.0091, 1 - 0.5375, 1 - 0.3914], abs=6e-4)


def test_ratios_that_are_not_the_tables_are_refused() -> None:
    document = REFERENCE.model_dump(by_alias=True)
    document["ratios"]["throughput"] = 2.1
    with pytest.raises(ValueError, match=r"ratios\.throughput is 2\.1, the table gives 2\.0091"):
        Reference.model_validate(document)


def test_a_reference_that_is_missing_is_bad_input() -> None:
    with pytest.raises(InputError):
        load_reference("none")

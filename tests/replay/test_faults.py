"""The faults of the engine core on vLLM's real scheduler: each does what it says there, and nothing while it is off."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dropgate.faults.install import install
from dropgate.faults.switch import FaultSwitch
from dropgate.replay.build import CANDIDATE
from dropgate.replay.drive import replay_workload
from tests.replay.driving import failures, scenario, workload

DENSE = "dense_eagle3"
LAW = "law"
SEEN = {
    "option_ignored": ("scenario_a", {LAW}),
    "default_changed": ("scenario_a", {LAW}),
    "two_units_dropped": ("boundary_sweep", {LAW}),
    "dropped_on_one_of_160": ("scenario_a", {LAW}),
    "dropped_on_exact_multiples": ("boundary_sweep", {LAW}),
    "dropped_under_concurrency": ("scenario_a", {LAW}),
    "caching_silently_off": ("scenario_a", {LAW}),
    "stale_after_reset": ("boundary_sweep", {"cold", LAW}),
    "hits_off_by_one": ("scenario_a", {"counters"}),
    "queries_counted_twice": ("scenario_a", {"counters"}),
}


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> FaultSwitch:
    """The switch of this process, whose vLLM stays breakable, and unbroken, for the rest of the session."""
    folder = tmp_path_factory.mktemp("switch")
    install(str(folder))
    return FaultSwitch(Path(folder))


@pytest.fixture(autouse=True)
def _off_afterwards(switch: FaultSwitch) -> Iterator[None]:
    yield
    switch.turn_to(None)


def seen_in(name: str) -> set[str]:
    return failures(scenario(DENSE).layout, workload(DENSE, name))


def test_a_breakable_scheduler_passes_while_nothing_is_active() -> None:
    assert seen_in("scenario_a") == set()


@pytest.mark.parametrize("fault", SEEN)
def test_a_fault_does_what_it_says(fault: str, switch: FaultSwitch) -> None:
    switch.turn_to(fault)
    work, expected = SEEN[fault]
    assert expected <= seen_in(work)
    assert switch.fired()


def test_hits_that_are_computed_again_show_in_the_steps_alone(switch: FaultSwitch) -> None:
    layout, work = scenario(DENSE).layout, workload(DENSE, "scenario_a")
    clean = replay_workload(layout, work, CANDIDATE)
    switch.turn_to("hits_counted_but_recomputed")
    assert seen_in("scenario_a") == set()
    broken = replay_workload(layout, work, CANDIDATE)
    assert [one.cached_tokens for one in broken.requests] == [one.cached_tokens for one in clean.requests]
    scheduled = [sum(step.scheduled_tokens for step in one.steps) for one in (clean, broken)]
    assert scheduled[1] - scheduled[0] == 160 * 12_288

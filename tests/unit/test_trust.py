"""What makes evidence unfit to be believed is named, and never passes."""

from dataclasses import replace

import pytest

from dropgate.errors import InputError
from dropgate.evidence import EngineStep, Evidence
from dropgate.faults import VARIABLE
from dropgate.judge import Check, Verdict, judge
from dropgate.law import VariantName
from dropgate.scenario import load_scenario
from tests.support.factory import evidence, record, seen

MARK = 'dropgate_fault_armed{fault="two_units_dropped"} 1.0\n'
KEPT = '{"method":"eagle3","disable_eagle_block_drop":true}'
DROPPED = '{"method":"eagle3"}'


def odd(run: Evidence) -> dict[str, Check]:
    return {check.name: check for check in judge(run).checks if check.verdict is not Verdict.PASS}


def with_server(run: Evidence, name: VariantName, **changes: object) -> Evidence:
    variant = run.variants[name]
    changed = variant.model_copy(update={"server": variant.server.model_copy(update=changes)})
    return run.model_copy(update={"variants": {**run.variants, name: changed}})


def with_phase(run: Evidence, name: VariantName, **changes: object) -> Evidence:
    variant = run.variants[name]
    phase = variant.phases["prefix"].model_copy(update=changes)
    return run.model_copy(
        update={"variants": {**run.variants, name: variant.model_copy(update={"phases": {"prefix": phase}})}}
    )


def test_an_engine_that_can_be_broken_never_passes() -> None:
    """Neither where its /metrics say so, whatever the fault, nor where only its environment does."""
    after = evidence().variants["candidate"].phases["prefix"].metrics_after
    check = odd(with_phase(evidence(), "candidate", metrics_after=after + MARK))["engine.no_fault"]
    assert (check.verdict, check.seen) == (Verdict.INVALID, "candidate: two_units_dropped")
    off = with_phase(evidence(), "candidate", metrics_before=MARK.replace("two_units_dropped", ""))
    assert odd(off)["engine.no_fault"].seen == "candidate: a switch, off"
    told = odd(with_server(evidence(), "baseline", environment={VARIABLE: "/somewhere"}))
    assert told["engine.no_fault"].seen == "baseline: a switch"


def test_the_promises_of_a_breakable_engine_are_judged_all_the_same() -> None:
    """Else the self-test could not see what the gate makes of its faults."""
    broken = replace(seen("candidate"), requests=[record(index, 3072) for index in range(6)])
    found = odd(with_server(evidence(candidate=broken), "candidate", environment={VARIABLE: "/somewhere"}))
    assert found["prefix.candidate.cached_tokens_per_request"].verdict is Verdict.FAIL


def test_a_scenario_cannot_ask_for_a_fault() -> None:
    with pytest.raises(InputError, match="for the self-test alone"):
        load_scenario("tiny_eagle3_cpu", (f"engine.environment.{VARIABLE}=/somewhere",))


def test_servers_that_changed_places_are_named() -> None:
    run = with_server(evidence(), "baseline", command=["vllm", "serve", "--speculative-config", KEPT])
    assert "engine.arms" in odd(run)
    both = with_server(run, "candidate", command=["vllm", "serve", "--speculative-config", DROPPED])
    check = odd(both)["engine.arms"]
    assert (check.verdict, check.seen) == (Verdict.INVALID, "baseline: true, not false; candidate: false, not true")
    right = with_server(evidence(), "candidate", command=["vllm", "serve", "--speculative-config", KEPT])
    assert odd(right) == {}


@pytest.mark.parametrize("times", [{"sent_s": 9.0}, {"first_token_s": 9.5}, {"finished_s": 10.5}, {"finished_s": 13.0}])
def test_times_that_do_not_follow_each_other_are_named(times: dict[str, float]) -> None:
    records = evidence().variants["candidate"].phases["prefix"].requests
    records = [*records[:3], records[3].model_copy(update=times), *records[4:]]
    check = odd(with_phase(evidence(), "candidate", requests=records))["prefix.candidate.clock"]
    assert (check.verdict, check.seen) == (Verdict.INVALID, "1 that do not: #3")


def step(tokens: int) -> EngineStep:
    return EngineStep(prefill_requests=1, prefill_tokens=tokens, decode_requests=0, decode_tokens=0)


COMPUTED = 6 * (4672 - 4608)


@pytest.mark.parametrize(
    ("scheduled", "verdict"),
    [([COMPUTED], None), ([COMPUTED // 2] * 2, None), ([COMPUTED + 4608], Verdict.FAIL), ([], Verdict.INVALID)],
)
def test_what_the_steps_computed_is_what_was_counted(scheduled: list[int], verdict: Verdict | None) -> None:
    """A hit that is computed again is counted as a hit by everything but the steps."""
    run = with_phase(evidence(), "candidate", engine_steps=[step(tokens) for tokens in scheduled])
    assert {check.verdict for check in odd(run).values()} == ({verdict} if verdict else set())
    assert set(odd(run)) == ({"prefix.candidate.scheduled_tokens"} if verdict else set())

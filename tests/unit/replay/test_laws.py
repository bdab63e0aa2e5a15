"""Every check of a replay goes red when the one thing that it looks at is wrong."""

import pytest

from dropgate.judge.verdict import Verdict
from dropgate.replay.laws import judge_workload
from dropgate.replay.layout import load_replay
from dropgate.replay.matrix import differences
from dropgate.replay.reference import (
    find_reference,
    make_reference,
    workload_reference,
    write_reference,
)
from dropgate.replay.result import (
    CountersSeen,
    GroupSeen,
    PhaseSeen,
    ReplaySeen,
    RequestSeen,
    ResolvedSeen,
    StepSeen,
    WorkloadSeen,
)
from dropgate.replay.run import replay_path
from dropgate.replay.workload import PrefixRepetition

UNIT = 16
LAYOUT = load_replay(replay_path("dense_eagle3")).layout
WORK = PrefixRepetition(name="work", kind="prefix_repetition", num_prompts=1, prefix_len=64, suffix_len=8)
GROUP = GroupSeen(spec="FullAttentionSpec", block_size=UNIT, num_layers=5, page_size_bytes=4_096, is_draft=False)
RESOLVED = ResolvedSeen(
    unit=UNIT, scheduler_block_size=UNIT, hash_block_size=UNIT, mamba_block_size=None, num_blocks=64, groups=(GROUP,)
)
STEP = StepSeen(
    scheduled_tokens=72, spare_tokens=0, admitted=1, resumed=0, preempted=0, running=1, waiting=0, deferred=0
)


def request(name, phase, shared, cached, **changed):
    values = {
        "request_id": name,
        "prompt_sha256": "0" * 64,
        "phase": phase,
        "prompt_tokens": 72,
        "shared_tokens": shared,
        "cached_tokens": cached,
        "computed_tokens": 72 - cached,
        "output_tokens": 9,
        "drafted_tokens": 7,
        "accepted": (4,),
        "finish_reason": "length",
        "admitted_step": 0,
        "finished_step": 1,
        "preemptions": 0,
    }
    return RequestSeen(**{**values, **changed})


def seen(variant, hit, **changed):
    counters = [
        CountersSeen(
            prefix_cache_requests=1,
            prefix_cache_queries=72,
            prefix_cache_hits=cached,
            drafts=1,
            draft_tokens=7,
            accepted_tokens=4,
        )
        for cached in (0, hit)
    ]
    values = {
        "workload": "work",
        "variant": variant,
        "resolved": RESOLVED,
        "phases": tuple(
            PhaseSeen(name=name, reset=None, steps=1, counters=one)
            for name, one in zip(("populate", "timed"), counters, strict=True)
        ),
        "requests": (request("p", "populate", 0, 0), request("r", "timed", 64, hit)),
        "steps": (STEP, STEP),
        "resets_while_running": (),
        "seconds": 0.1,
    }
    return WorkloadSeen(**{**values, **changed})


BASELINE, CANDIDATE = seen("baseline", 48), seen("candidate", 64)


def judged(baseline, candidate, reference=None):
    checks = judge_workload(LAYOUT, WORK, baseline, candidate, reference or workload_reference(BASELINE, CANDIDATE))
    return {check.name.rpartition(".")[2]: check for check in checks if check.verdict is not Verdict.PASS}


def test_all_is_well():
    assert judged(BASELINE, CANDIDATE) == {}


@pytest.mark.parametrize(
    ("changes", "check"),
    [
        ({"cached_tokens": 32, "computed_tokens": 40}, "law"),
        ({"cached_tokens": 32, "computed_tokens": 40}, "one_unit"),
        ({"cached_tokens": 60, "computed_tokens": 12}, "identities"),
        ({"computed_tokens": 9}, "identities"),
        ({"finish_reason": "abort"}, "complete"),
        ({"shared_tokens": 0}, "cold"),
        ({"preemptions": 1}, "counters"),
        ({"drafted_tokens": 8}, "drafts"),
        ({"accepted": (5,)}, "drafts"),
        ({"prompt_tokens": 73, "computed_tokens": 9}, "counters"),
    ],
)
def test_a_wrong_request_is_found(changes, check):
    wrong = request("r", "timed", 64, 64, **{"cached_tokens": 64, **changes} if "cached_tokens" not in changes else {})
    wrong = wrong.model_copy(update=changes)
    found = judged(BASELINE, seen("candidate", 64, requests=(CANDIDATE.requests[0], wrong)))
    assert found[check].verdict is Verdict.FAIL
    assert found[check].expected
    assert found[check].seen


def test_a_hit_without_blocks_fails():
    found = judged(BASELINE, seen("candidate", 64, unbacked_hits=("r: a hit of 64 tokens, group 1 has 3 blocks",)))
    assert found["backed"].verdict is Verdict.FAIL


def test_different_requests_prove_nothing():
    other = CANDIDATE.requests[1].model_copy(update={"request_id": "other"})
    found = judged(BASELINE, seen("candidate", 64, requests=(CANDIDATE.requests[0], other)))
    assert found["same_requests"].verdict is Verdict.INVALID


def test_no_hit_in_either_variant_proves_nothing():
    cold = [seen(variant, 0) for variant in ("baseline", "candidate")]
    assert judged(*cold)["some_hit"].verdict is Verdict.INVALID


def test_a_refused_reset_is_no_cold_start():
    phases = tuple(phase.model_copy(update={"reset": False}) for phase in BASELINE.phases)
    assert judged(seen("baseline", 48, phases=phases), CANDIDATE)["complete"].verdict is Verdict.INVALID


@pytest.mark.parametrize("field", ["deferred", "preempted", "admitted"])
def test_a_step_that_went_otherwise_differs_from_the_reference(field):
    steps = (STEP, STEP.model_copy(update={field: 5}))
    assert judged(seen("baseline", 48, steps=steps), CANDIDATE)["reference"].verdict is Verdict.FAIL


@pytest.mark.parametrize(("hits", "invalid"), [("law", []), ("reference", ["replay.work.reference"])])
def test_only_a_workload_without_a_law_needs_a_reference(hits, invalid):
    work = WORK.model_copy(update={"hits": hits})
    checks = judge_workload(LAYOUT, work, BASELINE, CANDIDATE, None)
    assert [check.name for check in checks if check.verdict is not Verdict.PASS] == invalid


REPLAY = ReplaySeen(scenario="tiny", vllm_version="0.32.0", workloads=(BASELINE, CANDIDATE))


def test_a_reference_survives_its_file(tmp_path):
    path = write_reference(make_reference(REPLAY, "2026-12-01"), tmp_path)
    assert path.name == "tiny-0.32.0.yaml"
    assert find_reference(REPLAY, tmp_path) == make_reference(REPLAY, "2026-12-01")
    assert find_reference(REPLAY.model_copy(update={"vllm_version": "0.31.0"}), tmp_path) is None


def test_a_replay_survives_its_file():
    assert ReplaySeen.model_validate_json(REPLAY.model_dump_json()) == REPLAY


def test_the_matrix_shows_what_differs_and_nothing_else():
    deferring = seen("candidate", 64, steps=(STEP, STEP.model_copy(update={"deferred": 15})))
    later = REPLAY.model_copy(update={"workloads": (BASELINE, deferring)})
    assert list(differences([REPLAY, REPLAY])) == []
    (only,) = differences([REPLAY, later])
    assert (only.variant, only.what, only.values) == ("candidate", "deferrals", ("0", "15"))

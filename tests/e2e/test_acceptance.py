"""Scenario B on real engines: acceptance does not fall, answers do not change, and what is broken is caught."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from dropgate.engine.interpreter import describe_engine
from dropgate.engine.server import Server, wait_ready
from dropgate.evidence import Evidence, QuestionSet
from dropgate.judge import Verdict, judge
from dropgate.law import VariantName
from dropgate.scenario import Scenario, load_scenario
from dropgate.selftest.models import broken, noisy, nudged, zeroed
from dropgate.variants import variant
from dropgate.workload.questions import GENERATED, load_questions
from tests.support.engines import ROOT, measured, run_dropgate, tokenised

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
GSM8K = ROOT.parent / "shared" / "data" / "gsm8k" / "test.jsonl"
"""The real test split where it is at hand; else the generated set is asked."""
COUNT = 100
SIZES = (
    f"workloads.gsm8k.questions={COUNT}",
    "workloads.gsm8k.control=8",
    "workloads.gsm8k.warm_control=24",
    "workloads.gsm8k.oracle=12",
    "promises=[{kind: acceptance, path: cold, margin_pp: 1.0}, {kind: acceptance, path: hit, margin_pp: 1.5}, "
    "{kind: hit_path_law}, {kind: same_answers}]",
)
FALLS = {"noisy": (0.03, 0.06), "zeroed": (0.1, 0.6)}
"""By how much each broken draft lowers the acceptance rate: from, to."""
NUDGE = 1.01 if GSM8K.is_file() else 1.1
"""Changes about one answer in a hundred; the target is surer of the generated problems."""
BREAKS = {"noisy": ("draft", noisy), "zeroed": ("draft", zeroed), "nudged": ("target", nudged(NUDGE))}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return load_scenario("tiny_eagle3_cpu_gsm8k", SIZES)


@pytest.fixture(scope="module")
def asked(engines: dict[VariantName, Server], scenario: Scenario) -> QuestionSet:
    """The questions as every server is asked them."""
    return tokenised(engines["baseline"], scenario, load_questions(GSM8K if GSM8K.is_file() else GENERATED))


@pytest.fixture(scope="module")
def others(scenario: Scenario, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Server]]:
    """The oracle, and a candidate of each broken kind, ready."""
    folder = tmp_path_factory.mktemp("others")
    python = describe_engine().python
    made = {name: broken(scenario, *how, folder / name) for name, how in BREAKS.items()}
    with ExitStack() as stack:
        servers = {
            "oracle": stack.enter_context(Server(scenario, variant(scenario, "oracle"), python, folder / "o.log"))
        }
        for name, one in made.items():
            server = Server(one, variant(one, "candidate"), python, folder / f"{name}.log")
            servers[name] = stack.enter_context(server)
        wait_ready(list(servers.values()))
        yield servers


@pytest.fixture(scope="module")
def healthy(
    engines: dict[VariantName, Server], others: dict[str, Server], scenario: Scenario, asked: QuestionSet
) -> Evidence:
    """A whole run of the two variants and the oracle."""
    servers = {**engines, "oracle": others["oracle"]}
    return measured(servers, scenario, dict.fromkeys(servers, asked))


@pytest.fixture(scope="module")
def said(others: dict[str, Server], scenario: Scenario, asked: QuestionSet) -> dict[str, Evidence]:
    """What each broken candidate says, all asked at once."""

    def answers_of(kind: str) -> Evidence:
        return measured({"candidate": others[kind]}, scenario, {"candidate": asked, "baseline": asked})

    with ThreadPoolExecutor() as pool:
        return dict(zip(BREAKS, pool.map(answers_of, BREAKS), strict=True))


def odd(evidence: Evidence) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in judge(evidence).checks if check.verdict is not Verdict.PASS}


def with_candidate(healthy: Evidence, found: Evidence) -> Evidence:
    """Return the healthy run with another server's word for the candidate's."""
    return healthy.model_copy(update={"variants": {**healthy.variants, **found.variants}})


def test_acceptance_does_not_fall_and_answers_do_not_change(healthy: Evidence) -> None:
    """Cold and behind the shared prefix, request by request, as the counters have it, and as the target alone says."""
    judgement = judge(healthy)
    assert odd(healthy) == {}
    floors = {"acceptance": (0.30, 0.60), "acceptance_hit_path": (0.25, 0.90)}
    for name, (low, high) in floors.items():
        for side in ("baseline", "candidate"):
            seen = judgement.metrics[side][name]
            assert seen["prompts"] == COUNT
            if healthy.questions and healthy.questions.name == GSM8K.name:
                assert low <= seen["rate"] <= high
    hits = [judgement.metrics[side]["acceptance_hit_path"]["cached_tokens_total"] for side in ("baseline", "candidate")]
    assert hits == [COUNT * (2048 - 128), COUNT * 2048]


def test_the_baseline_against_itself_passes(
    engines: dict[VariantName, Server], healthy: Evidence, asked: QuestionSet
) -> None:
    """A/A: no difference is made up; the one thing that is odd is that the option is off."""
    equal = load_scenario("tiny_eagle3_cpu_gsm8k", (*SIZES, "variants.candidate={}"))
    same = measured({"candidate": engines["baseline"]}, equal, {"candidate": asked, "baseline": asked})
    found = odd(with_candidate(healthy.model_copy(update={"scenario": equal}), same))
    assert {name.partition(".")[0] for name in found} == {"acceptance_hit_path"}
    assert {name.rpartition(".")[2] for name in found} == {
        "cached_tokens_per_request",
        "cached_tokens_total",
        "computed_tokens_total",
    }


@pytest.mark.parametrize("kind", ["noisy", "zeroed"])
def test_a_worse_draft_fails(kind: str, healthy: Evidence, said: dict[str, Evidence]) -> None:
    """Its answers are the same: only how many draft tokens are accepted is not."""
    evidence = with_candidate(healthy, said[kind])
    found = odd(evidence)
    metrics = judge(evidence).metrics
    fallen = metrics["baseline"]["acceptance"]["rate"] - metrics["candidate"]["acceptance"]["rate"]
    assert FALLS[kind][0] <= fallen <= FALLS[kind][1]
    assert found["acceptance.non_inferior"] is Verdict.FAIL
    assert not [name for name in found if ".answers." in name]


def test_a_target_that_says_one_answer_in_a_hundred_otherwise_fails(
    healthy: Evidence, said: dict[str, Evidence]
) -> None:
    evidence = with_candidate(healthy, said["nudged"])
    found = odd(evidence)
    assert found["acceptance.answers.baseline_candidate"] is Verdict.FAIL
    identity = next(one for one in judge(evidence).promises if one["kind"] == "same_answers")
    assert 1 <= identity["divergent"] - identity["ties"] <= identity["compared"] // 10


def test_another_order_in_one_variant_is_invalid(
    engines: dict[VariantName, Server], healthy: Evidence, scenario: Scenario, asked: QuestionSet
) -> None:
    turned = asked.model_copy(update={"token_ids": [*asked.token_ids[1:], asked.token_ids[0]]})
    other = measured({"candidate": engines["candidate"]}, scenario, {"candidate": turned, "baseline": asked})
    found = odd(with_candidate(healthy, other))
    assert found["acceptance.pair.same_work"] is Verdict.INVALID
    assert Verdict.FAIL not in found.values()


def test_one_row_short_is_invalid_before_anything_boots(tmp_path: Path) -> None:
    short = tmp_path / "short.jsonl"
    short.write_text("".join(GENERATED.read_text().splitlines(keepends=True)[:-1]))
    ended = run_dropgate("run", "tiny_eagle3_cpu_gsm8k", "--gsm8k", str(short), "--out", str(tmp_path / "run"))
    assert ended.returncode == 75
    assert "1,318 rows, the scenario asks 1,319" in ended.stderr


def test_the_whole_run_from_the_command_line(tmp_path: Path) -> None:
    """Both variants, the oracle and lm-eval, on the generated set; saved, judged, and judged the same again."""
    sizes = [f"workloads.gsm8k.{key}" for key in ("questions=24", "control=4", "warm_control=12", "oracle=8")]
    settings = [part for size in [*sizes, "workloads.gsm8k.accuracy.problems=160"] for part in ("--set", size)]
    promises = "promises=[{kind: acceptance, path: cold, margin_pp: 5}, {kind: same_answers}, "
    settings += ["--set", promises + "{kind: accuracy, margin_pp: 3, at_least: 0.95}]"]
    os.environ.pop("DROPGATE_GSM8K", None)
    out = tmp_path / "run"
    ended = run_dropgate(
        "run", "tiny_eagle3_cpu_gsm8k", *settings, "--gsm8k", str(GENERATED), "--out", str(out), timeout=600
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "acceptance rate" in ended.stdout
    again = run_dropgate("judge", str(out))
    assert again.returncode == 0
    assert "differs" not in again.stderr

"""Whatever /metrics says: whole counters, or an error that names the series; never a pass where one is damaged."""

from hypothesis import given
from hypothesis import strategies as st

from dropgate.judge import Verdict, judge
from dropgate.judge.view import PhaseView, view_phase
from dropgate.metrics import CACHE_CONFIG, COUNTERS, PROCESS_START, CounterError, Snapshot, parse_snapshot
from tests.fuzz.damage import damaged_bytes, many, numbers, one_line
from tests.support.factory import evidence, seen

HEALTHY = evidence()
PHASE = HEALTHY.variants["candidate"].phases["prefix"]
LINES = PHASE.metrics_after.splitlines()
JUDGED = (*COUNTERS, CACHE_CONFIG, PROCESS_START)


def judged(snapshot: Snapshot) -> dict[str, object]:
    """What a snapshot says of the series that are judged."""
    return {name: snapshot.series.get(name) for name in JUDGED}


WHOLE = judged(parse_snapshot(PHASE.metrics_after))


@st.composite
def damaged_lines(draw: st.DrawFn) -> str:
    """Whole lines with another value, name or label, in another order, twice or not at all."""
    lines = list(LINES)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        name = lines[at].rpartition(" ")[0]
        how = draw(st.sampled_from(["value", "drop", "double", "rename", "label", "swap", "noise"]))
        changed = {
            "value": f"{name} {draw(numbers | st.sampled_from(['NaN', '+Inf', '-Inf', '', '0x1', '1e999', '1_0']))}",
            "rename": lines[at].replace("vllm:", draw(st.sampled_from(["vllm_", "", "vllm::", "dropgate_"]))),
            "label": lines[at].replace('engine="0"', draw(st.sampled_from(['engine="1"', "engine=0", 'x="y"', ""]))),
            "noise": draw(st.text(max_size=30)),
        }
        if how == "drop":
            del lines[at]
        elif how == "double":
            lines.insert(at, lines[at])
        elif how == "swap":
            lines[at], lines[0] = lines[0], lines[at]
        else:
            lines[at] = changed[how]
    return "\n".join(lines) + "\n"


def check(text: str) -> None:
    phase = PHASE.model_copy(update={"metrics_after": text})
    try:
        assert isinstance(view_phase("prefix", "candidate", phase), PhaseView)
    except CounterError as error:
        one_line(error)
    candidate = HEALTHY.variants["candidate"].model_copy(update={"phases": {"prefix": phase}})
    judgement = judge(HEALTHY.model_copy(update={"variants": {**HEALTHY.variants, "candidate": candidate}}))
    assert not [one for one in judgement.checks if "crashed" in one.seen]
    if judgement.verdict is Verdict.PASS:
        assert judged(parse_snapshot(text)) == WHOLE


def test_the_healthy_text_passes() -> None:
    assert judge(HEALTHY).verdict is Verdict.PASS
    assert seen("candidate")


@many
@given(damaged_bytes(PHASE.metrics_after.encode()))
def test_a_text_of_any_bytes(content: bytes) -> None:
    check(content.decode("utf-8", errors="replace"))


@many
@given(damaged_lines())
def test_a_text_of_odd_lines(text: str) -> None:
    check(text)

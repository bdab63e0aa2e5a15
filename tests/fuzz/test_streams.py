"""Whatever a server streams: one record a request; it is whole, or its error says why it is not."""

import json
from typing import Any

import requests
from hypothesis import given
from hypothesis import strategies as st

from dropgate.evidence import RequestRecord
from dropgate.workload.client import Sampling, Target, send_one
from dropgate.workload.prompts import Prompt
from tests.fuzz.damage import damaged_bytes, damaged_value, json_values, many
from tests.support.standin import chunk, events, usage

SPECULATION = {"metrics": {"speculative_decoding": {"per_step_accepted": [3, 0], "per_step_drafted": [7, 7]}}}
CHUNKS = [chunk(finish_reason=None), chunk(prompt_token_ids=None), {**usage(), **SPECULATION}]
WHOLE = events(*CHUNKS)
statuses = st.sampled_from([200, 200, 200, 200, 204, 404, 500, 503])


class Session(requests.Session):
    """Answers every request with the same bytes."""

    def __init__(self, body: bytes, status: int) -> None:
        super().__init__()
        self.body, self.status = body, status

    def post(self, *_: object, **__: object) -> requests.Response:  # type: ignore[override]
        answer = requests.Response()
        answer.status_code = self.status
        answer._content, answer._content_consumed = self.body, True  # type: ignore[attr-defined]
        return answer


def sent(body: bytes, status: int = 200) -> RequestRecord:
    ticks = iter(range(10**9))
    target = Target("http://127.0.0.1:9", "m", 10**9, lambda: float(next(ticks)))
    record = send_one(Session(body, status), target, 4, Prompt([1, 2, 3], 2), Sampling(2, ignore_eos=True))
    assert RequestRecord.model_validate_json(record.model_dump_json()) == record
    assert record.ok or record.error
    assert (record.index, record.prompt_tokens_sent) == (4, 3)
    return record


def test_the_whole_stream_is_a_whole_record() -> None:
    record = sent(WHOLE)
    assert record.ok
    assert (record.token_ids, record.steps_accepted) == ([9, 9], [3, 0])


@many
@given(damaged_bytes(WHOLE), statuses)
def test_a_stream_of_any_bytes(body: bytes, status: int) -> None:
    record = sent(body, status)
    assert record.ok <= (status == 200 and b"[DONE]" in body)


@many
@given(damaged_value(CHUNKS, json_values) | json_values)
def test_a_stream_of_any_values(chunks: Any) -> None:
    sent(events(*(chunks if isinstance(chunks, list) else [chunks])))


@many
@given(st.integers(0, len(WHOLE) - 1))
def test_a_stream_that_ends_anywhere_is_not_whole(end: int) -> None:
    """A cut behind the last event's data, where only an empty line is missing, is whole."""
    record = sent(WHOLE[:end])
    assert not record.ok or end >= len(WHOLE) - 2


def test_values_of_every_kind_at_every_place() -> None:
    """Each leaf of a whole stream in turn, by values that a healthy server never sends there."""
    for value in (None, -1, 0.5, "x", [], {}, [None], True, float("nan"), 10**400):
        for number, whole in enumerate(CHUNKS):
            for path in _paths(whole):
                chunks = json.loads(json.dumps(CHUNKS))
                level = chunks[number]
                for key in path[:-1]:
                    level = level[key]
                level[path[-1]] = value
                sent(events(*chunks))


def _paths(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [above] if above else []
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [path for key, one in below for path in _paths(one, (*above, key))]

"""The client: every answer becomes a record; a bad one has an error that says what was wrong."""

import time

import pytest

from dropgate.evidence import RequestRecord
from dropgate.workload.client import Sampling, Target, send_all
from dropgate.workload.prompts import Prompt
from tests.support.standin import answering, chunk, events, usage

PROMPTS = [Prompt([1, 2, 3], 0)] * 3


def send(url: str, deadline_s: float = 10) -> list[RequestRecord]:
    return send_all(Target(url, "m", deadline_s, time.monotonic), PROMPTS, Sampling(1, ignore_eos=True), concurrency=2)


def test_a_whole_answer_is_recorded_whole() -> None:
    speculation = {"speculative_decoding": {"per_step_accepted": [3, 0], "per_step_drafted": [7, 7]}}
    with answering(events(chunk(), {**usage(), "metrics": speculation})) as url:
        records = send(url)
    assert [record.index for record in records] == [0, 1, 2]
    first = records[0]
    assert first.ok
    assert (first.prompt_tokens_sent, first.prompt_tokens, first.cached_tokens) == (3, 3, 0)
    assert (first.token_ids, first.finish_reason, first.prompt_echo_matches) == ([9], "length", True)
    assert first.top_logprobs == [[(9, -0.1), (4, -2.0)]]
    assert (first.steps_accepted, first.steps_drafted) == ([3, 0], [7, 7])
    assert first.sent_s <= first.first_token_s <= first.finished_s


def test_an_echo_of_another_prompt_is_noticed() -> None:
    with answering(events(chunk(prompt_token_ids=[1, 2, 4]), usage())) as url:
        assert {record.prompt_echo_matches for record in send(url)} == {False}


def test_missing_details_stay_unknown() -> None:
    with answering(events(chunk(prompt_token_ids=None), usage(prompt_tokens_details=None))) as url:
        record = send(url)[0]
    assert (record.cached_tokens, record.prompt_echo_matches) == (None, None)


BROKEN = {
    "HTTP 500: no": {"body": b"no", "status": 500},
    "the stream was cut before": {"body": events(chunk(), usage(), done=False)},
    "without usage": {"body": events(chunk())},
    "without a finish reason": {"body": events(chunk(finish_reason=None), usage())},
    "not JSON": {"body": events("{")},
    "has an error": {"body": events({"error": {"message": "engine died"}})},
    "another shape": {"body": events({"choices": [7]}, usage())},
    "cut before [DONE]": {"body": b""},
    "Error": {"body": events(chunk()), "length": 10_000},
}


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_answer_is_an_error_and_nothing_is_dropped(message: str) -> None:
    with answering(**BROKEN[message]) as url:
        records = send(url)
    assert len(records) == 3
    assert all(message in (record.error or "") and not record.ok for record in records)


def test_a_server_that_hangs_is_left_at_the_deadline() -> None:
    with answering(events(chunk(), usage()), delay_s=30) as url:
        began = time.monotonic()
        records = send(url, deadline_s=0.5)
    assert time.monotonic() - began < 10
    assert all("timed out" in (record.error or "").lower() for record in records)


def test_no_server_is_an_error_not_a_crash() -> None:
    assert all("ConnectionError" in (record.error or "") for record in send("http://127.0.0.1:9"))

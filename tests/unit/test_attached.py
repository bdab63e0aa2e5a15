"""Servers that run already are compared only when they are two, alike but for the option, idle, and tell enough."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from dropgate.cli import main
from dropgate.engine import attached
from dropgate.engine.attached import attach, different_settings
from dropgate.errors import DropgateError, InputError, UnmetNeedError
from dropgate.scenario import Scenario, load_scenario
from tests.support.factory import Counters

SCENARIO = load_scenario("tiny_eagle3_cpu")
DETAILS = {"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 0}}
CHOICE = {"token_ids": [9], "logprobs": {"top_logprobs": [{"a": -0.1}]}}


class Idle:
    """What a server of a healthy pair says."""

    def __init__(self, kept: bool, **speculative: Any) -> None:
        drafter = {"method": "eagle3", "num_speculative_tokens": 7, "disable_eagle_block_drop": kept, **speculative}
        self.config: dict[str, Any] = {
            "speculative_config": drafter,
            "cache_config": {"block_size": 1536, "num_gpu_blocks": 900 + kept},
            "parallel_config": {"master_port": 29501 + kept, "_data_parallel_master_port_list": [int(kept)]},
            "model_config": {"served_model_name": f"m{kept:d}", "hf_config": f"<Config object at 0x7f{kept:d}0>"},
            "instance_id": f"i{kept:d}",
        }
        self.answer: dict[str, Any] = {"choices": [CHOICE], "usage": DETAILS}
        self.counters = Counters()
        self.step = 0
        self.resets = 200

    def get(self, path: str) -> tuple[int, str]:
        if path == "/metrics":
            self.counters = replace(self.counters, prompt=self.counters.prompt + self.step)
            return 200, self.counters.text()
        found = {
            "/v1/models": {"data": [{"id": "model"}]},
            "/version": {"version": "0.32.0"},
            "/server_info?config_format=json": {"vllm_config": self.config},
            "/health": {},
        }
        return (200, json.dumps(found[path])) if path in found else (404, "")

    def post(self, path: str) -> tuple[int, str]:
        if path == "/reset_prefix_cache":
            return self.resets, ""
        self.counters = replace(self.counters, prompt=self.counters.prompt + 3)
        return 200, json.dumps(self.answer)


@contextmanager
def serving(server: Idle) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(*server.get(self.path))

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self._send(*server.post(self.path))

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{http.server_port}"
        finally:
            http.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attached.time, "sleep", lambda _: None)


@pytest.fixture
def pair() -> tuple[Idle, Idle]:
    return Idle(kept=False), Idle(kept=True)


def attach_both(baseline: Idle, candidate: Idle, scenario: Scenario = SCENARIO) -> dict:
    with ExitStack() as stack:
        first = stack.enter_context(serving(baseline))
        second = first if candidate is baseline else stack.enter_context(serving(candidate))
        return attach(scenario, {"baseline": first, "candidate": second}, 0)


def refusal(baseline: Idle, candidate: Idle) -> DropgateError:
    with pytest.raises(DropgateError) as refused:
        attach_both(baseline, candidate)
    return refused.value


def test_a_pair_that_is_alike_is_taken(pair: tuple[Idle, Idle]) -> None:
    servers = attach_both(*pair)
    assert [server.address.served_name for server in servers.values()] == ["model", "model"]
    assert servers["candidate"].reported_version == "0.32.0"


def test_one_server_behind_two_urls_is_found_by_its_counters(pair: tuple[Idle, Idle]) -> None:
    baseline, candidate = pair
    candidate.get, candidate.post = (  # type: ignore[method-assign]
        lambda path: (200, json.dumps({"vllm_config": candidate.config})) if "info" in path else baseline.get(path),
        baseline.post,
    )
    found = refusal(baseline, candidate)
    assert isinstance(found, InputError)
    assert "are one server: a request to one is counted by the other" in str(found)


def test_the_same_url_twice_cannot_be_both_variants(pair: tuple[Idle, Idle]) -> None:
    assert "has disable_eagle_block_drop=False, the scenario's candidate has True" in str(refusal(pair[0], pair[0]))


def test_swapped_servers_are_refused(pair: tuple[Idle, Idle]) -> None:
    assert "has disable_eagle_block_drop=True, the scenario's baseline has False" in str(refusal(pair[1], pair[0]))


def test_a_server_that_does_not_speculate_is_refused(pair: tuple[Idle, Idle]) -> None:
    pair[1].config["speculative_config"] = None
    assert "candidate: " in str(refusal(*pair))
    assert "does not speculate" in str(refusal(*pair))


def test_another_draft_length_than_the_scenarios_is_refused() -> None:
    found = refusal(Idle(kept=False, num_speculative_tokens=3), Idle(kept=True, num_speculative_tokens=3))
    assert "has num_speculative_tokens=3, the scenario has 7" in str(found)


def test_any_other_difference_is_named(pair: tuple[Idle, Idle]) -> None:
    pair[1].config["cache_config"]["block_size"] = 768
    assert "differ in more than the option: cache_config.block_size is 1536 and 768" in str(refusal(*pair))
    assert different_settings({"a": {"b": 1}}, {}) == ["a.b is 1 and missing"]


def test_other_traffic_is_seen_while_it_should_be_idle(pair: tuple[Idle, Idle]) -> None:
    pair[1].step = 1
    found = refusal(*pair)
    assert isinstance(found, UnmetNeedError)
    assert "serves others too: its counters moved while it should be idle" in str(found)


@pytest.mark.parametrize(
    ("answer", "lacking"),
    [
        ({"choices": [CHOICE], "usage": {"prompt_tokens": 3}}, "--enable-prompt-tokens-details"),
        ({"choices": [{**CHOICE, "token_ids": None}], "usage": DETAILS}, "token ids"),
        ({"choices": [{**CHOICE, "logprobs": None}], "usage": DETAILS}, "log probabilities"),
    ],
)
def test_a_server_that_does_not_tell_enough_is_refused(pair: tuple[Idle, Idle], answer: dict, lacking: str) -> None:
    pair[0].answer = answer
    assert f"does not tell {lacking}" in str(refusal(*pair)).replace("cached tokens of a request (", "")


ASKS = load_scenario("tiny_eagle3_cpu_gsm8k", ("workloads.gsm8k.oracle=0", "promises=[{kind: hit_path_law}]"))
STEPS = {"speculative_decoding": {"per_step_accepted": [2, 0]}}


def test_questions_take_the_accepted_tokens_of_every_step(pair: tuple[Idle, Idle]) -> None:
    with pytest.raises(InputError, match=r"does not tell accepted tokens of every step \(--enable-per-request"):
        attach_both(*pair, ASKS)
    for one in pair:
        one.answer = {**one.answer, "metrics": STEPS}
    assert set(attach_both(*pair, ASKS)) == {"baseline", "candidate"}


def test_two_urls_give_no_oracle() -> None:
    with pytest.raises(InputError, match="asks a third server, without speculation; two URLs give none"):
        attach(load_scenario("tiny_eagle3_cpu_gsm8k"), {"baseline": "http://x:1", "candidate": "http://x:2"})


def test_a_cache_that_cannot_be_reset_is_refused(pair: tuple[Idle, Idle]) -> None:
    pair[1].resets = 404
    assert "does not reset its prefix cache" in str(refusal(*pair))


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--baseline-url", "http://127.0.0.1:1"], 2, "--candidate-url is missing: both servers are given or none"),
        (["--baseline-url", "ftp://x", "--candidate-url", "http://x:1"], 2, "http://HOST:PORT is expected"),
        (["--baseline-url", "http://u:p@x", "--candidate-url", "http://x:1"], 2, "http://HOST:PORT is expected"),
        (["--baseline-url", "http://127.0.0.1:1", "--candidate-url", "http://x:1"], 75, "VLLM_SERVER_DEV_MODE=1"),
    ],
)
def test_urls_that_lead_nowhere_start_nothing(
    arguments: list[str], code: int, message: str, tmp_path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "tiny_eagle3_cpu", "--out", str(tmp_path / "out"), *arguments]) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()

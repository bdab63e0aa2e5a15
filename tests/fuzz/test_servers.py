"""Whatever a server answers to the gate's own questions: the answer, or an error of the engine in one line."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dropgate.engine.attached import AttachedServer
from dropgate.engine.server import Server
from dropgate.errors import EngineError, UnmetNeedError
from dropgate.scenario import load_scenario
from dropgate.variants import Address, variant
from tests.fuzz.damage import damaged_bytes, damaged_value, json_values, many, one_line

SCENARIO = load_scenario("tiny_eagle3_cpu")
COMPLETION = {"usage": {"completion_tokens": 1}}
TOKENS = {"tokens": [1, 2, 3]}
VERSION = {"version": "0.32.0"}


class Stand:
    """A server that answers whatever it is told to; ``bodies`` by path."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.status = 200
        stand = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", "0")))
                body = stand.bodies.get(self.path.partition("?")[0], b"")
                self.send_response(200 if self.path == "/health" else stand.status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer  # noqa: N815

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port


@pytest.fixture(scope="module")
def stand() -> Iterator[Stand]:
    one = Stand()
    thread = Thread(target=one.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield one
    one.server.shutdown()
    one.server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def server(stand: Stand, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of the gate's that was never started: its process is not what is asked here."""
    log = tmp_path_factory.mktemp("log") / "engine.log"
    one = Server(SCENARIO, variant(SCENARIO, "candidate"), "python", Path(log))
    one.address = Address("127.0.0.1", stand.port, "dropgate-0")
    one._started_s = 0.0
    one._give_time_to_die = lambda: None  # type: ignore[method-assign]
    yield one
    one.process.stop()
    one._session.close()


def answered(ask: Callable[[], object], kind: type) -> None:
    try:
        assert isinstance(ask(), kind)
    except (EngineError, UnmetNeedError) as error:
        one_line(error)


def bodies(whole: object) -> st.SearchStrategy[bytes]:
    """A whole answer, damaged as bytes or as a value."""
    return damaged_bytes(json.dumps(whole).encode()) | damaged_value(whole, json_values).map(
        lambda value: json.dumps(value).encode()
    )


statuses = st.sampled_from([200, 200, 200, 200, 404, 500])


@many
@given(bodies(COMPLETION) | st.just(json.dumps(COMPLETION).encode()), bodies(VERSION), statuses)
def test_readiness(server: Server, stand: Stand, completion: bytes, version: bytes, status: int) -> None:
    stand.bodies, stand.status = {"/v1/completions": completion, "/version": version}, status
    server.boot_s = None
    answered(server.is_ready, bool)


@many
@given(bodies(TOKENS), statuses)
def test_tokenising(server: Server, stand: Stand, body: bytes, status: int) -> None:
    stand.bodies, stand.status = {"/tokenize": body}, status
    answered(lambda: server.tokenize("a text", False), list)


@many
@given(st.binary(max_size=60), statuses)
def test_counters_and_reset(server: Server, stand: Stand, body: bytes, status: int) -> None:
    stand.bodies, stand.status = {"/metrics": body, "/reset_prefix_cache": body}, status
    answered(server.metrics_text, str)
    answered(server.reset_prefix_cache, bool)


MODELS = {"data": [{"id": "m"}]}
INFO = {"vllm_config": {"model_config": {"model": "m"}}}


@many
@given(bodies(MODELS), bodies(VERSION), bodies(INFO), statuses)
def test_a_server_that_runs_already(stand: Stand, models: bytes, version: bytes, info: bytes, status: int) -> None:
    stand.bodies, stand.status = {"/v1/models": models, "/version": version, "/server_info": info}, status
    answered(lambda: AttachedServer(SCENARIO, "candidate", f"http://127.0.0.1:{stand.port}"), AttachedServer)

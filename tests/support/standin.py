"""A stand-in completions server on loopback, for answers that a healthy engine does not give."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any


def chunk(**changes: Any) -> dict[str, Any]:
    """Return one chunk of a whole one-token stream."""
    choice = {
        "index": 0,
        "finish_reason": "length",
        "prompt_token_ids": [1, 2, 3],
        "token_ids": [9],
        "logprobs": {"top_logprobs": [{"token_id:9": -0.1, "token_id:4": -2.0}]},
    }
    return {"choices": [{**choice, **changes}]}


def usage(**changes: Any) -> dict[str, Any]:
    """Return the stream's last chunk before [DONE]."""
    counts = {"prompt_tokens": 3, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 0}}
    return {"choices": [], "usage": {**counts, **changes}}


def events(*chunks: Any, done: bool = True) -> bytes:
    """Write chunks as a server-sent event stream."""
    texts = [text if isinstance(text, str) else json.dumps(text) for text in chunks] + ["[DONE]"] * done
    return "".join(f"data: {text}\n\n" for text in texts).encode()


@contextmanager
def answering(
    body: bytes, status: int = 200, delay_s: float = 0, length: int | None = None, kind: str = "text/event-stream"
) -> Iterator[str]:
    """Serve ``body`` to every POST; ``length`` announces more bytes than come."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.end_headers()
            stop.wait(delay_s)
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    stop = Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            stop.set()
            server.shutdown()
            thread.join()

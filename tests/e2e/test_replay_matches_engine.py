"""The replay and a real engine say the same, request by request, over the whole boundary sweep."""

from __future__ import annotations

import pytest
import requests

from dropgate.engine.server import Server
from dropgate.law import VariantName
from dropgate.replay.layout import load_replay
from dropgate.replay.prompts import TokenStreams, phases
from dropgate.replay.run import replay_in, replay_path
from dropgate.replay.workload import BoundarySweep

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
PATH = replay_path("dense_eagle3")
TOKEN_IDS = 250
"""The tiny model knows at least as many; which ids are sent changes no count."""


def served(server: Server, sweep: BoundarySweep, unit: int) -> dict[str, int]:
    """Cached tokens by request, from a real server that is sent the sweep."""
    streams = TokenStreams(sweep.seed, TOKEN_IDS)
    hits = {}
    for phase in phases(sweep, (unit,)):
        assert server.reset_prefix_cache()
        for prompt in phase.prompts:
            ids = streams.tokens(prompt.segments)
            body = {"model": server.address.served_name, "prompt": ids, "max_tokens": 1, "temperature": 0}
            answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=120)
            hits[prompt.request_id] = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return hits


def test_the_replay_says_what_the_engine_says(engines: dict[VariantName, Server]) -> None:
    """No request of the sweep hits more or less on a real engine than in the replay, in either variant."""
    (sweep,) = (work for work in load_replay(PATH).workloads if isinstance(work, BoundarySweep))
    (replayed,) = replay_in([PATH])
    for name, server in engines.items():
        expected = replayed.workload(sweep.name, name)
        seen = served(server, sweep, expected.resolved.unit)
        assert seen == {request.request_id: request.cached_tokens for request in expected.requests}
        assert len(seen) > 100
        assert any(seen.values())

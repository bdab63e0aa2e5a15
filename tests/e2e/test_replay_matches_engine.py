"""The replay and a real engine say the same, request by request, over the whole boundary sweep."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests

from dropgate.engine.server import Server
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.replay.layout import ReplayScenario, load_replay
from dropgate.replay.prompts import TokenStreams, phases
from dropgate.replay.run import replay_in, replay_path
from dropgate.replay.workload import BoundarySweep
from tests.support.engines import UNIT

pytestmark = [pytest.mark.cpu, pytest.mark.xdist_group("engines")]
SWEEP = BoundarySweep(name="boundary_sweep", kind="boundary_sweep", max_units=4)
TOKEN_IDS = 250
"""The tiny model knows at least as many; which ids are sent changes no count."""
Hits = dict[str, int]


def replayed(folder: Path) -> dict[VariantName, Hits]:
    """Cached tokens by request and variant, from the scheduler alone, on the layout of the shared engines."""
    layout = load_replay(replay_path("dense_eagle3")).layout
    cache = layout.cache.model_copy(update={"block_size": UNIT, "num_blocks": 4096})
    scenario = ReplayScenario(
        name="sweep", summary="-", layout=layout.model_copy(update={"cache": cache}), workloads=(SWEEP,)
    )
    file = folder / "sweep.yaml"
    file.write_text(scenario.model_dump_json())
    (seen,) = replay_in([file])
    return {
        name: {one.request_id: one.cached_tokens for one in seen.workload(SWEEP.name, name).requests}
        for name in VARIANT_NAMES
    }


def served(server: Server) -> Hits:
    """Cached tokens by request, from a real server that is sent the sweep."""
    streams = TokenStreams(SWEEP.seed, TOKEN_IDS)
    hits = {}
    for phase in phases(SWEEP, (UNIT,)):
        assert server.reset_prefix_cache()
        for prompt in phase.prompts:
            ids = streams.tokens(prompt.segments)
            body = {"model": server.address.served_name, "prompt": ids, "max_tokens": 1, "temperature": 0}
            answer = requests.post(f"{server.url}/v1/completions", json=body, timeout=120)
            hits[prompt.request_id] = answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return hits


def test_the_replay_says_what_the_engine_says(engines: dict[VariantName, Server], tmp_path: Path) -> None:
    """No request of the sweep hits more or less on a real engine than in the replay, in either variant."""
    expected = replayed(tmp_path)
    seen = {name: served(server) for name, server in engines.items()}
    assert seen == expected
    assert all(len(hits) > 100 and any(hits.values()) for hits in seen.values())

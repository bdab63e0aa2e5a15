"""How replay time grows with requests: `python -m dropgate.replay.bench`."""

from __future__ import annotations

import resource
import sys
import time

from dropgate.replay.host import prepare_vllm
from dropgate.replay.layout import load_replay
from dropgate.replay.run import replay_path
from dropgate.replay.workload import PrefixRepetition

SIZES = (160, 2_500, 5_000, 10_000, 20_000)
"""Requests of 12,544 tokens each; the first is scenario A's own number."""


def main(arguments: list[str]) -> int:
    """Replay scenario A's shape with more and more requests; print seconds, ms a request and memory in GiB."""
    name = arguments[0] if arguments else "dense_eagle3"
    layout = load_replay(replay_path(name)).layout
    prepare_vllm()
    from dropgate.replay.build import CANDIDATE
    from dropgate.replay.drive import replay_workload

    replay_workload(layout, workload(SIZES[0]), CANDIDATE)  # imports the layout's model classes
    for size in SIZES:
        started = time.perf_counter()
        replay_workload(layout, workload(size), CANDIDATE)
        seconds = time.perf_counter() - started
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
        sys.stdout.write(
            f"{name}: {size:6d} requests {seconds:7.1f} s {1000 * seconds / size:6.2f} ms each {memory:5.2f} GiB\n"
        )
        sys.stdout.flush()
    return 0


def workload(requests: int) -> PrefixRepetition:
    """Return scenario A's shape with this many requests."""
    return PrefixRepetition(
        name="bench",
        kind="prefix_repetition",
        num_prompts=requests,
        prefix_len=12_288,
        suffix_len=256,
        max_concurrency=16,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

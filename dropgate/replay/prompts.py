"""Declared workloads laid out as phases of prompts. Pure: no vLLM, no clock; same seed, same prompts."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from dropgate.replay.workload import (
    BoundarySweep,
    Extend,
    PrefixRepetition,
    Pressure,
    Resets,
    Salts,
    Workload,
)

Segment = tuple[str, int]


@dataclass(frozen=True)
class Prompt:
    """One request. `shared_tokens` is S of the law: how much of it an earlier request left in the cache.

    None means that S is not known beforehand (eviction, preemption, a reset under way).
    """

    request_id: str
    segments: tuple[Segment, ...]
    output_len: int
    shared_tokens: int | None
    cache_salt: str | None = None

    @property
    def num_tokens(self) -> int:
        """Prompt length in tokens."""
        return sum(length for _, length in self.segments)

    @property
    def answer(self) -> str:
        """The stream that holds this prompt's answer: a function of the prompt alone, as greedy decoding is."""
        return "answer/" + "+".join(f"{stream}:{length}" for stream, length in self.segments)


@dataclass(frozen=True)
class Phase:
    """Prompts that are sent together, at most `max_concurrency` at once, after the one before has finished."""

    name: str
    prompts: Iterable[Prompt]
    max_concurrency: int = 1
    reset_before: bool = False
    reset_running_every: int | None = None


class TokenStreams:
    """Seeded token ids by stream name. `size` is the vocabulary; id 0 is left out, it ends a text."""

    def __init__(self, seed: int, size: int) -> None:
        self._seed = seed
        self._size = size
        self._cached = lru_cache(maxsize=64)(self._draw)

    def tokens(self, segments: tuple[Segment, ...]) -> list[int]:
        """Draw the token ids of a prompt, in order."""
        ids: list[int] = []
        for index, (stream, length) in enumerate(segments):
            # The last segment is mostly a unique suffix: not worth a place in the cache.
            draw = self._draw if index else self._cached
            ids += draw(stream, length)
        return ids

    def _draw(self, stream: str, length: int) -> list[int]:
        # Drawn one after the other, so a longer draw of a stream starts with every shorter one.
        source = random.Random(f"{self._seed}/{stream}")  # noqa: S311  a seeded workload, nothing secret
        return source.choices(range(1, self._size), k=length)


def phases(workload: Workload, sizes: tuple[int, ...]) -> Iterator[Phase]:
    """Lay a declared workload out; a sweep goes around the multiples of `sizes` (unit, scheduler block)."""
    match workload:
        case PrefixRepetition():
            yield from _prefix_repetition(workload)
        case BoundarySweep():
            yield from _boundary_sweep(workload, sizes)
        case Pressure():
            yield Phase("pressure", _pressure(workload), workload.max_concurrency)
        case Salts():
            yield Phase("salts", _salts(workload))
        case Resets():
            yield _resets(workload)
        case Extend():
            yield from _extend(workload)


def _prefix_repetition(workload: PrefixRepetition) -> Iterator[Phase]:
    prefixes = [f"prefix{index}" for index in range(workload.num_prefixes)]
    # With a suffix, as one prompt of the benchmark itself: alone, a prefix that ends on a boundary leaves a hybrid
    # model's state one unit short of it, for its own last token is always computed again.
    populate = (
        Prompt(
            f"populate-{prefix}",
            ((prefix, workload.prefix_len), (f"populate-{prefix}", workload.suffix_len)),
            workload.output_len,
            0,
        )
        for prefix in prefixes
    )
    yield Phase("populate", populate)
    timed = (
        Prompt(
            f"request-{index}",
            ((prefixes[index % len(prefixes)], workload.prefix_len), (f"suffix{index}", workload.suffix_len)),
            workload.output_len,
            workload.prefix_len,
        )
        for index in range(workload.num_prompts)
    )
    yield Phase("timed", timed, workload.max_concurrency)


def _boundary_sweep(workload: BoundarySweep, sizes: tuple[int, ...]) -> Iterator[Phase]:
    around = {size * times for size in sizes for times in range(1, workload.max_units + 1)}
    lengths = {boundary + offset for boundary in around for offset in (-1, 0, 1)} | {max(1, min(sizes) // 2)}
    for length in sorted(lengths - {0}):
        yield from _sweep_at(workload, length)
    for count in range(1, workload.max_prefixes + 1):
        yield _sweep_prefixes(workload, count, max(sizes) * workload.max_units)


def _sweep_at(workload: BoundarySweep, length: int) -> Iterator[Phase]:
    prefix: Segment = ("prefix", length)
    probes: dict[str, tuple[tuple[Segment, ...], tuple[Segment, ...]]] = {
        "repeat": ((prefix,), (prefix,)),
        "suffix": ((prefix,), (prefix, ("suffix", workload.suffix_len))),
        "siblings": (
            (prefix, ("first", workload.suffix_len)),
            (prefix, ("second", workload.suffix_len)),
        ),
        "next_token": ((prefix, ("first", 1)), (prefix, ("second", 1))),
        "shorter": ((prefix, ("first", workload.suffix_len)), (prefix,)),
    }
    for case, (fill, probe) in probes.items():
        name = f"{case}-{length}"
        yield Phase(
            name,
            (
                Prompt(f"{name}-fill", fill, workload.output_len, 0),
                Prompt(f"{name}-probe", probe, workload.output_len, length),
            ),
            reset_before=True,
        )


def _sweep_prefixes(workload: BoundarySweep, count: int, length: int) -> Phase:
    name = f"prefixes-{count}"
    prompts = [
        Prompt(
            f"{name}-{turn}-{index}",
            ((f"prefix{index}", length), (f"{turn}{index}", workload.suffix_len)),
            workload.output_len,
            0 if turn == "fill" else length,
        )
        for turn in ("fill", "probe")
        for index in range(count)
    ]
    return Phase(name, prompts, reset_before=True)


def _pressure(workload: Pressure) -> Iterator[Prompt]:
    for index in range(workload.num_prompts):
        own: Segment = (f"prompt{index}", workload.prompt_len - workload.shared_len)
        shared: tuple[Segment, ...] = (("shared", workload.shared_len),) if workload.shared_len else ()
        segments = (*shared, own) if own[1] else shared
        known = None if workload.shared_len else 0
        yield Prompt(f"request-{index}", segments, workload.output_len, known)


def _salts(workload: Salts) -> Iterator[Prompt]:
    segments = (("prompt", workload.prompt_len),)
    for turn, shared in (("first", 0), ("again", workload.prompt_len)):
        for index, salt in enumerate((None, *workload.salts)):
            yield Prompt(f"{turn}-{index}", segments, 1, shared, salt)


def _resets(workload: Resets) -> Phase:
    prompts = [
        Prompt(f"request-{index}", ((f"prompt{index}", workload.prompt_len),), workload.output_len, 0)
        for index in range(workload.num_prompts)
    ]
    return Phase("resets", prompts, workload.max_concurrency, reset_running_every=workload.every_steps)


def _extend(workload: Extend) -> Iterator[Phase]:
    talks: list[tuple[Segment, ...]] = [
        ((f"talk{index}", workload.prompt_len),) for index in range(workload.num_conversations)
    ]
    seen = 0
    for turn in range(workload.turns):
        prompts = [
            Prompt(f"turn{turn}-{index}", segments, workload.output_len, seen) for index, segments in enumerate(talks)
        ]
        yield Phase(f"turn{turn}", prompts)
        # The answer's last token was sampled but never run through the model, so it cannot be in the cache.
        seen = prompts[0].num_tokens + workload.output_len - 1
        talks = [
            (
                *prompt.segments,
                (prompt.answer, workload.output_len),
                (f"ask{turn}-{index}", workload.suffix_len),
            )
            for index, prompt in enumerate(prompts)
        ]

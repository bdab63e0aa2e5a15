"""Prompts as token ids, drawn from a seed: the same on every machine, so that counts can be exact."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from dropgate.scenario.workloads import PrefixRepetition


@dataclass(frozen=True)
class Prompt:
    """One prompt as it is sent."""

    token_ids: list[int]
    shared_tokens: int
    """Leading tokens that an earlier request has in common with it (S in the law); 0 for a populating request."""

    def sha256(self) -> str:
        """Return the checksum of the ids, as little-endian 32-bit integers."""
        return hashlib.sha256(np.asarray(self.token_ids, dtype="<u4").tobytes()).hexdigest()


@dataclass(frozen=True)
class PrefixPrompts:
    """The populating prompts, one a prefix, and the timed ones."""

    populate: list[Prompt]
    timed: list[Prompt]


def prefix_prompts(work: PrefixRepetition) -> PrefixPrompts:
    """Draw scenario A's prompts: ``prefixes`` shared prefixes, each request with a suffix of its own.

    Suffixes that follow one prefix start with different tokens as long as the range of ids allows, so that the
    shared length is the prefix's to the token. Requests go round the prefixes in turn. A request is warm only
    where a populating request came before it; without one, nothing is promised to be shared.
    """
    draw = np.random.default_rng(work.seed)
    low, high = work.token_ids
    prefixes = draw.integers(low, high, (work.prefixes, work.prefix_tokens))
    total = work.prefixes + work.requests
    suffixes = draw.integers(low, high, (total, work.suffix_tokens))
    if work.suffix_tokens:
        rounds = np.arange(total) // work.prefixes
        suffixes[:, 0] = draw.permutation(np.arange(low, high))[rounds % (high - low)]
    prompts = [
        Prompt([*prefixes[i % work.prefixes].tolist(), *suffixes[i].tolist()], work.prefix_tokens if warm else 0)
        for i, warm in ((i, work.populate and i >= work.prefixes) for i in range(total))
    ]
    return PrefixPrompts(populate=prompts[: work.prefixes], timed=prompts[work.prefixes :])

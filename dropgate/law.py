"""The law of the option: how many prompt tokens a request may reuse. One formula, in one place."""

from __future__ import annotations

from typing import Literal

VariantName = Literal["baseline", "candidate"]
ServerName = Literal["baseline", "candidate", "oracle"]
"""The variants, and the target alone: a server without speculation, whose word counts."""
VARIANT_NAMES: tuple[VariantName, VariantName] = ("baseline", "candidate")


def expected_hit(shared_tokens: int, prompt_tokens: int, unit: int, variant: VariantName) -> int:
    """Return the cached tokens that a request must show.

    ``unit`` is U, the resolved cache unit in tokens; ``shared_tokens`` is S, the leading tokens that an earlier
    request has cached; ``prompt_tokens`` is L. The last prompt token is always computed, hence L-1::

        candidate (option on)    floor(min(S, L-1) / U) * U
        baseline (default drop)  max(0, floor(min(S, L-1) / U) - 1) * U

    Source: vLLM pull request 53388, for EAGLE-family drafters on layouts with one unit.
    """
    units = max(0, min(shared_tokens, prompt_tokens - 1)) // unit
    return (units if variant == "candidate" else max(0, units - 1)) * unit


def acceptance(steps: int, drafted: int, accepted: int) -> tuple[float | None, float | None]:
    """Return the acceptance rate (share) and the mean acceptance length (tokens a step); ``None`` without any drafts.

    Rate = accepted / drafted tokens; length = 1 + accepted tokens / steps, since every step yields one token besides.
    """
    return (accepted / drafted if drafted else None, 1 + accepted / steps if steps else None)

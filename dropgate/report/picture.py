"""What a picture of the page is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dropgate.law import VariantName
from dropgate.report import svg

TITLES: dict[str, str] = {"baseline": "default drop", "candidate": "option on", "oracle": "without speculation"}
COLOURS: dict[VariantName, str] = {"baseline": svg.BASELINE, "candidate": svg.CANDIDATE}
PHASES = {"prefix": "prefix cache", "acceptance": "GSM8K, cold", "acceptance_hit_path": "GSM8K, hit path"}


@dataclass(frozen=True)
class Picture:
    """One figure of the page."""

    key: str
    title: str
    svg: str
    caption: str
    """What is drawn, and of how many requests: whatever was gathered or left out is said here."""
    columns: tuple[str, ...] = ()
    rows: Sequence[tuple[str, ...]] = ()
    """The same as a table, for who cannot see the picture."""

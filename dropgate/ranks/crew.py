"""The other ranks as a run sees them; a run on one node has none."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from dropgate.engine.server import Server
from dropgate.evidence import NodeFacts
from dropgate.variants import Master


class Crew(Protocol):
    """What a run needs of the other ranks; see ``Leader``."""

    def gather(self) -> None:
        """Wait for every rank and refuse to go on unless all are the same."""

    def master(self) -> Master | None:
        """Return where the ranks of the next server meet; ``None`` on one node."""

    def beside(self, servers: Sequence[Server]) -> AbstractContextManager[None]:
        """Have the others start their part of these servers, and stop it on the way out."""

    def require_stopped(self) -> None:
        """Wait until the others have stopped theirs."""

    def faults(self) -> list[str]:
        """Return what befell other ranks."""

    def nodes(self) -> list[NodeFacts]:
        """Return what the others said of themselves."""

    def finish(self, code: int, document: dict[str, Any] | None) -> None:
        """Tell the others how the run ended."""


class Alone:
    """A run on one node."""

    def gather(self) -> None:
        """There is nobody to wait for."""

    def master(self) -> None:
        """Nobody is met."""

    def beside(self, _: Sequence[Server]) -> AbstractContextManager[None]:
        """Nobody starts anything beside."""
        return nullcontext()

    def require_stopped(self) -> None:
        """Nobody has anything to stop."""

    def faults(self) -> list[str]:
        """Nobody else can be at fault."""
        return []

    def nodes(self) -> list[NodeFacts]:
        """There are no others."""
        return []

    def finish(self, code: int, document: dict[str, Any] | None) -> None:
        """Nobody is told."""


ALONE = Alone()

"""What a comment asks for: an exact match or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """What a command does."""

    RUN = "run"
    RETRY = "retry"
    CANCEL = "cancel"
    HELP = "help"


class Lanes(StrEnum):
    """Which part of the pipeline is asked for; `auto` lets the touched files choose."""

    AUTO = "auto"
    GPU = "gpu"
    REPLAY = "replay"


@dataclass(frozen=True)
class Command:
    """An action and the lanes it is for; retry and cancel act on whatever was built."""

    action: Action
    lanes: Lanes = Lanes.AUTO


COMMANDS = {
    "run": Command(Action.RUN),
    "run gpu": Command(Action.RUN, Lanes.GPU),
    "run replay": Command(Action.RUN, Lanes.REPLAY),
    "retry": Command(Action.RETRY),
    "cancel": Command(Action.CANCEL),
}


def parse(body: str | None, prefix: str) -> Command | None:
    """Return the command in a comment, or None when the comment is not for us.

    The whole comment must be the command: text around it, other spacing or other case is no command. A
    comment whose first word is the prefix but that is no command asks for help, so that a typing error never
    goes unanswered.
    """
    text = (body or "").strip(" \t\r\n")
    if not text.startswith(prefix):
        return None
    rest = text[len(prefix) :]
    if rest.startswith(" ") and rest[1:] in COMMANDS:
        return COMMANDS[rest[1:]]
    return Command(Action.HELP) if not rest or rest[0].isspace() else None


def spelling(command: Command, prefix: str) -> str:
    """Spell the command as a person types it."""
    words = next(words for words, known in COMMANDS.items() if known == command)
    return f"{prefix} {words}"

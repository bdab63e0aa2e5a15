"""The last gate before text leaves: no token, no control character, one line where one line is promised."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "[hidden]"
MIN_SECRET = 8
# Tokens that are not ours can turn up in an error page; these are the shapes of both services' tokens.
TOKEN_SHAPES = re.compile(r"gh[oprsu]_\w{16,}|github_pat_\w{16,}|bk[a-z]{2}_\w{16,}|(?<=[Bb]earer )[^\s\"'`,;]+")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class Redactor:
    """Hides the given secrets, and anything shaped like a token, wherever they stand in a text."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # Something shorter than this is no token, and hiding it would hide ordinary text.
        known = {secret.strip() for secret in secrets if len(secret.strip()) >= MIN_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return the text without secrets and without control characters other than tab and newline."""
        text = CONTROL.sub("", text)
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        return TOKEN_SHAPES.sub(HIDDEN, text)


def one_line(text: str, limit: int) -> str:
    """Return the text on one line of at most `limit` characters, cut with an ellipsis."""
    line = " ".join(CONTROL.sub("", text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def code_span(text: str, limit: int = 200) -> str:
    """Return foreign text as Markdown that cannot format, link, mention anyone or break out."""
    return f"`{one_line(text, limit).replace('`', chr(39))}`"

"""Ways to damage text, bytes and values; and how often each is tried: ``EXAMPLES``, 2,000 unless it is set."""

from __future__ import annotations

import copy
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("EXAMPLES", "2000"))
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)

numbers = st.integers() | st.floats() | st.sampled_from([0, -1, 1, 10**400, 1e308, 2**63, -0.0])
words = st.text(max_size=12) | st.sampled_from(["", "null", "NaN", "\x00", "\u2028", "..", "-1", "é" * 40])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | numbers | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def damaged_bytes(draw: st.DrawFn, whole: bytes) -> bytes:
    """Flip, cut, drop, double or add bytes; always other bytes than the whole ones."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        until = min(len(content), at + draw(st.integers(1, 40)))
        how = draw(st.sampled_from(["flip", "cut", "drop", "double", "add"]))
        if how == "flip" and content:
            content[at] ^= draw(st.integers(1, 255))
        elif how == "cut":
            del content[at:]
        elif how == "drop":
            del content[at:until]
        elif how == "double":
            content[at:at] = content[at:until]
        else:
            content[at:at] = draw(st.binary(min_size=1, max_size=12))
    return bytes(content) if bytes(content) != whole else whole + b"\x00"


@st.composite
def damaged_value(draw: st.DrawFn, whole: Any, replacement: st.SearchStrategy[Any] = values) -> Any:
    """Replace, remove, add or double something anywhere in nested lists and mappings."""
    root = [copy.deepcopy(whole)]
    for _ in range(draw(st.integers(1, 2))):
        level: Any = root
        key: Any = 0
        while draw(st.booleans()) or level is root:
            below = level[key]
            if not isinstance(below, list | dict) or not below:
                break
            level = below
            key = draw(st.sampled_from(sorted(level, key=str) if isinstance(level, dict) else range(len(level))))
        how = draw(st.sampled_from(["replace", "remove", "add"]))
        if how == "remove" and level is not root:
            del level[key]
        elif how == "add" and isinstance(level, dict):
            level[draw(words)] = draw(replacement)
        else:
            level[key] = draw(replacement)
    return root[0]


def one_line(error: Exception) -> str:
    """Return what an error says, which must be one line."""
    text = str(error)
    assert text.strip()
    assert "\n" not in text
    return text

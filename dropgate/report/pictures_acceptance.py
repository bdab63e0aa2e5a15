"""The pictures of draft acceptance: by position, and prompt by prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dropgate.law import VARIANT_NAMES
from dropgate.report import series, svg
from dropgate.report.picture import COLOURS, PHASES, TITLES, Picture


def draw_positions(
    phase: str, pair: series.Pair, draft_length: int, level: float, facts: dict[str, Any]
) -> Picture | None:
    """Draw acceptance by draft position and its paired difference; nothing where the steps are not known."""
    found = series.positions(pair, draft_length, level)
    if not found:
        return None
    key = f"positions-{phase.replace('_', '-')}"
    figure, (top, below) = svg.canvas(2, 3.9, heights=(1, 1.3), gap_in=0.6)
    places = np.arange(1, draft_length + 1)
    for name, shift in zip(VARIANT_NAMES, (-0.2, 0.2), strict=True):
        shares = found.shares[name]
        bars = top.bar(places + shift, [100 * share for share in shares], 0.36, color=COLOURS[name], label=TITLES[name])
        for bar in bars:
            bar.set_gid(svg.series(f"{name} position"))
    top.set(ylabel="accepted, % of steps", xticks=places)
    top.set_xlabel("draft position")
    svg.legend(top)
    rows = [(f"{place}", *found.differences[place - 1]) for place in places]
    if facts:
        rows.append(("all", facts["difference"], facts["lower"], facts["upper"]))
    _intervals(below, rows, facts.get("margin"))
    said = [
        (f"position {name}" if name != "all" else "rate of all draft tokens", *(_pp(value) for value in values))
        for name, *values in rows
    ]
    margin = (
        f" The dotted line is the margin of {_pp(-facts['margin'])}; a pass needs the whole interval of 'all' above it."
        if facts
        else ""
    )
    return Picture(
        key,
        f"Acceptance by draft position, {PHASES[phase]}",
        svg.render(figure, key),
        f"Above: the share of steps in which a position was accepted. Below: option on minus default drop, paired over "
        f"{len(pair['baseline'].requests):,} prompts, with one-sided bounds at level {level:g} on either side.{margin}",
        ("", "difference", "at least", "at most"),
        said,
    )


def _intervals(axes: Axes, rows: Sequence[tuple[Any, ...]], margin: float | None) -> None:
    heights = range(len(rows), 0, -1)
    for height, (name, middle, low, high) in zip(heights, rows, strict=True):
        bold = name == "all"
        axes.plot([100 * low, 100 * high], [height, height], color=svg.CANDIDATE, linewidth=3 if bold else 1.5)
        (dot,) = axes.plot(
            [100 * middle], [height], "D" if bold else "o", color=svg.CANDIDATE, markersize=6 if bold else 4
        )
        dot.set_gid(svg.series("difference"))
    axes.axvline(0, color=svg.INK, linewidth=0.8)
    if margin is not None:
        axes.axvline(-100 * margin, color=svg.WARN, linewidth=1.5, linestyle=":")
        axes.text(-100 * margin, len(rows) + 0.6, " margin", color=svg.WARN, va="bottom", ha="left", fontsize=8)
    axes.set_yticks(list(heights), [str(row[0]) for row in rows])
    axes.set(
        xlabel="option on minus default drop, percentage points", ylabel="draft position", ylim=(0.4, len(rows) + 0.6)
    )


def _pp(share: float) -> str:
    return f"{100 * share:+.3f} pp"


def draw_prompts(phase: str, pair: series.Pair) -> Picture | None:
    """Draw each prompt's acceptance rate in one variant against the other."""
    found = series.rates(pair)
    if not len(found.weight):
        return None
    key, prompts = f"prompts-{phase.replace('_', '-')}", int(found.weight.sum())
    figure, (axes,) = svg.canvas(1, 3.9, top_in=0.12)
    axes.plot([0, 1], [0, 1], color=svg.INK, linewidth=0.8)
    dots: Any
    if found.grid:
        dots = axes.scatter(
            found.baseline, found.candidate, s=1 + 60 * found.weight / found.weight.max(), color=svg.CANDIDATE
        )
    else:
        (dots,) = axes.plot(
            found.baseline,
            found.candidate,
            "o",
            color=svg.CANDIDATE,
            alpha=0.45,
            markersize=3.5,
            clip_on=False,
            markeredgewidth=0,
        )
    dots.set_gid(svg.series("prompts"))
    axes.set(
        xlabel="acceptance rate, default drop",
        ylabel="acceptance rate, option on",
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
    )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:.0%}")
    above, below = (
        int(found.weight[side].sum()) for side in (found.candidate > found.baseline, found.candidate < found.baseline)
    )
    how = (
        f"Prompts are gathered on a grid of {found.grid} by {found.grid}; a larger point has more."
        if found.grid
        else "One point a prompt."
    )
    return Picture(
        key,
        f"Acceptance rate of each prompt, {PHASES[phase]}",
        svg.render(figure, key),
        f"{prompts:,} prompts: {above:,} are accepted more often with the option on, {below:,} less often, "
        f"{prompts - above - below:,} alike (on the line). {how}",
    )

"""Static pictures that need no script: matplotlib draws them, the page's style sheet colours them, light or dark."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

INK, GRID, PAPER, BASELINE, CANDIDATE, CACHED, COMPUTED, WARN, BOOT, POPULATE, TIMED, CONTROL, SCORING, IDLE = (
    f"#0{number:02x}0{number:02x}" for number in range(0xA1, 0xAF)
)
"""Stand-ins, one a role: the page's style sheet says what colour each is (Okabe and Ito's colour-blind-safe set)."""
ROLES = {
    INK: "ink",
    GRID: "grid",
    PAPER: "paper",
    BASELINE: "baseline",
    CANDIDATE: "candidate",
    CACHED: "cached",
    COMPUTED: "computed",
    WARN: "warn",
    BOOT: "boot",
    POPULATE: "populate",
    TIMED: "timed",
    CONTROL: "control",
    SCORING: "scoring",
    IDLE: "idle",
}
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "dropgate",
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.markersize": 2.5,
} | {
    key: GRID if key == "grid.color" else INK
    for key in ("grid.color", "text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
}
WIDTH_IN = 4.4
"""A phone shows it at nearly its own size, so that 9 points stay readable there."""
RIGHT_IN, BOTTOM_IN = 0.12, 0.45
SERIES = "series "


def whole_numbers(axis: Any) -> None:
    """Put ticks at whole numbers only."""
    axis.get_major_locator().set_params(integer=True)


def canvas(
    rows: int,
    height_in: float,
    heights: Sequence[float] | None = None,
    share: bool = False,
    left_in: float = 0.65,
    top_in: float = 0.3,
    gap_in: float = 0.3,
) -> Any:
    """Return a figure as wide as a phone can show, and its axes from top to bottom.

    Margins are given, in inches: to let matplotlib find them takes as long as all the drawing.
    """
    figure = Figure(figsize=(WIDTH_IN, height_in))
    room_in = height_in - top_in - BOTTOM_IN
    figure.subplots_adjust(
        left=left_in / WIDTH_IN,
        right=1 - RIGHT_IN / WIDTH_IN,
        top=1 - top_in / height_in,
        bottom=BOTTOM_IN / height_in,
        hspace=rows * gap_in / (room_in - (rows - 1) * gap_in),
    )
    found = figure.subplots(rows, 1, squeeze=False, sharex=share, sharey=share, height_ratios=heights)
    return figure, list(found[:, 0])


def series(name: str) -> str:
    """Return the id by which the page finds the marks of one series."""
    return SERIES + name


def thousands(axis: Any) -> None:
    """Write an axis' numbers with separators."""
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def legend(axes: Axes, columns: int = 2, scale: float = 2) -> None:
    """Put the legend above the axes, where no mark can be under it."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=columns,
        borderaxespad=0.2,
        handlelength=1.2,
        markerscale=scale,
    )


def render(figure: Figure, key: str) -> str:
    """Return a figure as SVG for one page: its ids are its own, its colours the page's."""
    text = io.StringIO()
    # savefig would draw everything once more beforehand, for a layout that is fixed here.
    drawn: Any = FigureCanvasSVG(figure)
    drawn.print_svg(text, metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _clean(text.getvalue(), key)


def _clean(text: str, key: str) -> str:
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true" focusable="false">', text, count=1
    )
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r"<(?:path|use)[^>]*", lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
    used = dict.fromkeys(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    short = {name: f"{key}-{number}" for number, name in enumerate(used, 1)}
    text = re.sub(r' id="([^"]*)"', lambda found: _identity(found[1], short), text)
    text = re.sub(r"(href=\"#|url\(#)([^\")]+)", lambda found: found[1] + short[found[2]], text)
    for colour, role in ROLES.items():
        text = text.replace(colour, f"var(--{role})")
    return re.sub(r"\n\s*", "\n", text)


def _identity(name: str, short: dict[str, str]) -> str:
    if name.startswith(SERIES):
        return f' data-series="{name.removeprefix(SERIES)}"'
    return f' id="{short[name]}"' if name in short else ""

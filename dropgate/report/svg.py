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
WIDTH_IN = 5.2
SERIES = "series "


def whole_numbers(axis: Any) -> None:
    """Put ticks at whole numbers only."""
    axis.get_major_locator().set_params(integer=True)


def canvas(rows: int, height_in: float, heights: Sequence[float] | None = None, share: bool = False) -> Any:
    """Return a figure as wide as a phone can show, and its axes from top to bottom."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    FigureCanvasSVG(figure)
    found = figure.subplots(rows, 1, squeeze=False, sharex=share, sharey=share, height_ratios=heights)
    return figure, list(found[:, 0])


def series(name: str) -> str:
    """Return the id by which the page finds the marks of one series."""
    return SERIES + name


def thousands(axis: Any) -> None:
    """Write an axis' numbers with separators."""
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")


def legend(axes: Axes, columns: int = 2, **more: Any) -> None:
    """Put the legend above the axes, where no mark can be under it."""
    axes.legend(
        loc="lower right",
        bbox_to_anchor=(1, 1),
        ncols=columns,
        borderaxespad=0.2,
        handlelength=1.2,
        markerscale=2,
        **more,
    )


def render(figure: Figure, key: str) -> str:
    """Return a figure as SVG for one page: its ids are its own, its colours the page's."""
    text = io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return _clean(text.getvalue(), key)


def _clean(text: str, key: str) -> str:
    text = text[text.index("<svg") :].replace("xlink:href", "href")
    text = re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", r'<svg \1 aria-hidden="true" focusable="false">', text, count=1
    )
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"\s*<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    used = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda found: _identity(found[1], key, used), text)
    text = re.sub(r"(href=\"#|url\(#)", rf"\g<1>{key}-", text)
    for colour, role in ROLES.items():
        text = text.replace(colour, f"var(--{role})")
    return re.sub(r"\n\s*", "\n", text)


def _identity(name: str, key: str, used: set[str]) -> str:
    if name.startswith(SERIES):
        return f' data-series="{name.removeprefix(SERIES)}"'
    return f' id="{key}-{name}"' if name in used else ""

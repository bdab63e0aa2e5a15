"""The trend page: one section a scenario and machine, one picture a measure."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl

from dropgate.history.store import Run
from dropgate.history.trend import Trend, grouped, trends
from dropgate.law import VARIANT_NAMES
from dropgate.report import svg
from dropgate.report.html import render_page
from dropgate.report.picture import COLOURS, TITLES, Picture


@mpl.rc_context(svg.STYLE)
def trend_page(runs: Sequence[Run]) -> str:
    """Return the page; it loads nothing and runs no script."""
    sections = []
    for number, ((scenario, hardware), group) in enumerate(grouped(runs).items(), 1):
        found = trends(group)
        rows = [
            (run.created, run.engine, run.engine_version, run.verdict, f"{run.checks_passed} of {run.checks}")
            for run in reversed(group)
        ]
        sections.append(
            {
                "key": f"s{number}",
                "scenario": scenario,
                "hardware": hardware,
                "newest": group[-1],
                "pictures": [_picture(f"s{number}-{trend.name.replace('.', '-')}", trend) for trend in found],
                "changes": [line for trend in found for line in change_lines(trend)],
                "rows": rows,
            }
        )
    return render_page("trend.html.j2", sections=sections)


def change_lines(trend: Trend) -> list[str]:
    """Say where a measure changed, from what to what, and with which engine."""
    lines = []
    for variant, places in trend.changes.items():
        for place in places:
            values, run = trend.values[variant], trend.runs[place]
            lines.append(
                f"{trend.title}, {TITLES[variant]}: {values[place - 1]:,.6g} to {values[place]:,.6g} with engine "
                f"{run.engine} of {run.created}"
            )
    return lines


def _picture(key: str, trend: Trend) -> Picture:
    figure, (axes,) = svg.canvas(1, 2.5)
    places = range(1, len(trend.runs) + 1)
    for variant, mark in zip(VARIANT_NAMES, ("s--", "o-"), strict=True):
        colour = COLOURS[variant]
        (line,) = axes.plot(places, trend.values[variant], mark, color=colour, label=TITLES[variant], linewidth=1)
        line.set_gid(svg.series(f"{variant} trend"))
        for place in trend.changes[variant]:
            axes.axvline(place + 0.5, color=colour, linewidth=1, linestyle=":")
    axes.set(xlabel="run, oldest first", xlim=(0.5, len(trend.runs) + 0.5))
    svg.thousands(axes.yaxis)
    svg.whole_numbers(axes.xaxis)
    svg.legend(axes)
    changes = sum(map(len, trend.changes.values()))
    rows = [
        (run.created, run.engine, *(f"{trend.values[variant][place]:,.6g}" for variant in VARIANT_NAMES))
        for place, run in enumerate(trend.runs)
    ]
    return Picture(
        key,
        trend.title[0].upper() + trend.title[1:],
        svg.render(figure, key),
        f"{len(trend.runs):,} runs that were worth judging; {changes} changes of level, dotted by variant.",
        ("run", "engine", *(TITLES[variant] for variant in VARIANT_NAMES)),
        rows,
    )

"""The pictures of the page: what is drawn, and in words what can be seen in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from dropgate.evidence import Evidence
from dropgate.judge import Judgement
from dropgate.law import VARIANT_NAMES
from dropgate.report import series, svg
from dropgate.report.picture import COLOURS, PHASES, TITLES, Picture
from dropgate.report.pictures_acceptance import draw_positions, draw_prompts

LEVEL = 0.05
"""Of the bounds where the scenario promises nothing about acceptance."""


@mpl.rc_context(svg.STYLE)
def pictures(evidence: Evidence, judgement: Judgement) -> list[Picture]:
    """Draw what the run has evidence for."""
    found: list[Picture | None] = []
    spans = _timeline(evidence)
    for phase in PHASES:
        if not (pair := series.pair_of(evidence, phase)):
            continue
        if phase == "prefix":
            found += [_strip(pair), _ecdf(phase, pair), spans]  # a row of three
            continue
        level = next((one["level"] for one in _promises(evidence, "acceptance")), LEVEL)
        draft_length = int(evidence.scenario.speculative["num_speculative_tokens"])
        by_position = draw_positions(phase, pair, draft_length, level, _facts(judgement, phase))
        found += [by_position, draw_prompts(phase, pair), _ecdf(phase, pair)]
    last = [_divergences(judgement), *([] if spans in found else [spans])]
    return [picture for picture in (*found, *last) if picture]


def _promises(evidence: Evidence, kind: str) -> list[dict[str, Any]]:
    """Return the scenario's promises of one kind."""
    return [promise.model_dump() for promise in evidence.scenario.promises if promise.kind == kind]


def _facts(judgement: Judgement, phase: str) -> dict[str, Any]:
    """Return the numbers behind the promise about a phase's acceptance rate, if it could be judged."""
    path = "cold" if phase == "acceptance" else "hit"
    known = (one for one in judgement.promises if (one["kind"], one.get("path")) == ("acceptance", path))
    found = next(known, {})
    return found if "difference" in found else {}


def _strip(pair: series.Pair) -> Picture:
    strips = {name: series.strip(pair[name].requests) for name in VARIANT_NAMES}
    figure, panels = svg.canvas(2, 3.1, share=True, left_in=0.75)
    for axes, (name, one) in zip(panels, strips.items(), strict=True):
        axes.set_title(TITLES[name])
        for part, base, top, colour in (
            ("cached", 0 * one.cached, one.cached, svg.CACHED),
            ("computed", one.cached, one.cached + one.computed, svg.COMPUTED),
        ):
            _bars(axes, one, base, top, colour, f"{name} {part}", label=f"{part} tokens")
        svg.thousands(axes.yaxis)
        axes.autoscale_view()
        axes.set_ylim(bottom=0)
    svg.legend(panels[0])
    panels[1].set_xlabel("request, in the order of sending")
    figure.supylabel("prompt tokens", fontsize=9)
    words = [f"{TITLES[name]}: {_range(one)}" for name, one in strips.items()]
    return Picture(
        "strip",
        "Cached and computed tokens per request",
        svg.render(figure, "strip"),
        "; ".join(words) + ". " + _grouped(strips["baseline"].group),
    )


def _bars(axes: Axes, one: series.Strip, base: Any, top: Any, colour: str, name: str, label: str) -> None:
    half = 0.45 * one.group
    left, right = one.position - half, one.position + half
    corners: Any = np.stack([np.stack([left, right, right, left]), np.stack([base, base, top, top])], axis=-1)
    bars = PolyCollection(corners.transpose(1, 0, 2), facecolors=colour, linewidths=0, label=label, clip_on=False)
    bars.set_gid(svg.series(name))
    axes.add_collection(bars)


def _range(one: series.Strip) -> str:
    if not len(one.cached):
        return "no request has counts"
    values = [f"{low:,.10g}" if low == high else f"{low:,.10g} to {high:,.10g}" for low, high in _extremes(one)]
    lacking = f", {one.unknown} requests without counts" if one.unknown else ""
    return f"{values[0]} cached and {values[1]} computed tokens a request{lacking}"


def _extremes(one: series.Strip) -> list[tuple[float, float]]:
    return [(float(side.min()), float(side.max())) for side in (one.cached, one.computed)]


def _grouped(group: int) -> str:
    return "One bar a request." if group == 1 else f"One bar is the mean of {group} requests in a row."


def _ecdf(phase: str, pair: series.Pair) -> Picture | None:
    times = {name: series.ttft_ms(pair[name].requests) for name in VARIANT_NAMES}
    if not all(map(len, times.values())):
        return None
    key, sent = f"ttft-{phase.replace('_', '-')}", len(pair["baseline"].requests)
    figure, (axes,) = svg.canvas(1, 3.1)
    for name, style in zip(VARIANT_NAMES, ("--", "-"), strict=True):
        values, shares = series.thinned(times[name])
        axes.plot(values, shares, style, drawstyle="steps-post", color=COLOURS[name], linewidth=1)
        mark = "s" if name == "baseline" else "o"
        (dots,) = axes.plot(
            values, shares, mark, color=COLOURS[name], label=TITLES[name], clip_on=False, markeredgewidth=0
        )
        dots.set_gid(svg.series(f"{name} ttft"))
    axes.set(xlabel="time to first token, ms", ylabel="share of requests", ylim=(0, 1))
    axes.set_xlim(left=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    svg.thousands(axes.xaxis)
    svg.legend(axes)
    counts = {TITLES[name]: len(times[name]) for name in VARIANT_NAMES}
    drawn = [f"{name}: {min(count, series.MARKS):,} marks of {count:,} times" for name, count in counts.items()]
    if set(counts.values()) == {sent} and sent <= series.MARKS:
        drawn = ["One mark a request"]
    shares_shown = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
    rows = [
        (f"P{100 * share:g}", *(f"{np.quantile(times[name], share):,.1f}" for name in VARIANT_NAMES))
        for share in shares_shown
    ]
    return Picture(
        key,
        f"Time to first token, {PHASES[phase]}",
        svg.render(figure, key),
        f"How many of {sent:,} requests had their first token by when. {'; '.join(drawn)}. "
        "Times are this machine's: shown, never judged.",
        ("percentile", "default drop, ms", "option on, ms"),
        rows,
    )


def _divergences(judgement: Judgement) -> Picture | None:
    found = [one for promise in judgement.promises for one in promise.get("divergences", ())]
    if not found:
        return None
    shown = found[: series.MARKS]
    rows = [
        (
            f"{one['phase']} #{one['index']}",
            f"{one['left_server']} {one['left']}",
            f"{one['right_server']} {one['right']}",
            str(one["position"]),
            "-" if one["moved"] is None else f"{one['moved']:.4f}",
            f"{one['bound']:.4f}",
            "tie" if one["tie"] else "differs",
        )
        for one in shown[:200]
    ]
    rest = f" The first {len(shown):,} are drawn." if len(shown) < len(found) else ""
    rest += f" The table has the first {len(rows)}." if len(rows) < len(found) else ""
    return Picture(
        "divergences",
        "Where answers part",
        _draw_divergences(shown),
        f"Pairs of answers that part: {len(found):,}. Ties among them, which the control's own noise (dotted) "
        f"explains: {sum(one['tie'] for one in found):,}.{rest}",
        ("request", "one says token", "the other", "at output token", "margin moved", "noise", "kind"),
        rows,
    )


DIVERGENCES: dict[str, tuple[str, str, Callable[[dict[str, Any]], bool]]] = {
    "tie": ("o", svg.BASELINE, lambda one: one["tie"]),
    "differs": ("X", svg.WARN, lambda one: not one["tie"] and one["moved"] is not None),
    "differs, not each other's runner-up": ("^", svg.WARN, lambda one: one["moved"] is None),
}
"""Mark, colour and members of each kind; without a runner-up there is no margin, and the mark stands on top."""


def _draw_divergences(shown: list[dict[str, Any]]) -> str:
    groups = {name: [one for one in shown if DIVERGENCES[name][2](one)] for name in DIVERGENCES}
    groups = {name: group for name, group in groups.items() if group}
    figure, (axes,) = svg.canvas(1, 3.1, top_in=0.15 + 0.15 * len(groups))
    known = [one["moved"] for one in shown if one["moved"] is not None]
    ceiling = 1.25 * max([*known, *(one["bound"] for one in shown), 0.01])
    for name, group in groups.items():
        places = [one["position"] for one in group]
        heights = [ceiling if one["moved"] is None else one["moved"] for one in group]
        mark, colour, _ = DIVERGENCES[name]
        (dots,) = axes.plot(places, heights, mark, color=colour, label=name, markersize=5, clip_on=False)
        dots.set_gid(svg.series("divergences"))
    for bound in sorted({one["bound"] for one in shown}):
        axes.axhline(bound, color=svg.INK, linewidth=1, linestyle=":")
    axes.set(xlabel="output token at which the answers part", ylabel="margin moved, log prob.")
    axes.set_xlim(-0.5, max(1, *(one["position"] for one in shown)) + 0.5)
    svg.whole_numbers(axes.xaxis)
    axes.set_ylim(0, 1.05 * ceiling)
    svg.legend(axes, columns=1, scale=1)
    return svg.render(figure, "divergences")


KINDS = {
    "boot": svg.BOOT,
    "populate": svg.POPULATE,
    "timed": svg.TIMED,
    "control": svg.CONTROL,
    "scoring": svg.SCORING,
    "idle": svg.IDLE,
}


def _timeline(evidence: Evidence) -> Picture | None:
    spans = series.timeline(evidence)
    if not spans:
        return None
    servers: list[str] = [name for name in evidence.variants if any(span.server == name for span in spans)]
    figure, (axes,) = svg.canvas(1, 3.1, left_in=1.4, top_in=0.5)
    for kind, colour in KINDS.items():
        of = [span for span in spans if span.what.partition(":")[0] == kind]
        for span in of:
            row = len(servers) - servers.index(span.server)
            height = 0.3 if kind == "idle" else 0.6
            (bar,) = axes.barh(row, span.end_s - span.start_s, height, span.start_s, color=colour)
            bar.set_gid(svg.series(f"timeline {kind}"))
        if of:
            axes.barh(0, 0, color=colour, label=kind)
    axes.set_yticks(range(len(servers), 0, -1), [TITLES[name] for name in servers])
    axes.set(xlabel="seconds since the run began", ylim=(0.4, len(servers) + 0.6))
    axes.set_xlim(left=0)
    axes.grid(visible=False, axis="y")
    svg.legend(axes, columns=3)
    rows = [
        (
            TITLES[span.server],
            span.what,
            f"{span.start_s:,.1f}",
            f"{span.end_s:,.1f}",
            f"{span.end_s - span.start_s:,.1f}",
        )
        for span in spans
    ]
    idle = sum(span.end_s - span.start_s for span in spans if span.what == "idle")
    return Picture(
        "timeline",
        "Timeline of the run",
        svg.render(figure, "timeline"),
        f"What each server did and when; between its tasks the servers were idle for {idle:,.1f} s in sum.",
        ("server", "what", "from, s", "to, s", "took, s"),
        rows,
    )

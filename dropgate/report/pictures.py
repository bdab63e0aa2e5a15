"""The pictures of the page: what is drawn, and in words what can be seen in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from dropgate.evidence import Evidence
from dropgate.judge import Judgement
from dropgate.law import VARIANT_NAMES, VariantName
from dropgate.report import series, svg

TITLES: dict[str, str] = {"baseline": "default drop", "candidate": "option on", "oracle": "without speculation"}
COLOURS: dict[VariantName, str] = {"baseline": svg.BASELINE, "candidate": svg.CANDIDATE}
PHASES = {"prefix": "prefix cache", "acceptance": "GSM8K, cold", "acceptance_hit_path": "GSM8K, hit path"}
LEVEL = 0.05


@dataclass(frozen=True)
class Picture:
    """One figure of the page."""

    key: str
    title: str
    svg: str
    caption: str
    """What is drawn, and of how many requests: whatever was gathered or left out is said here."""
    columns: tuple[str, ...] = ()
    rows: list[tuple[str, ...]] = field(default_factory=list)
    """The same as a table, for who cannot see the picture."""


def pictures(evidence: Evidence, judgement: Judgement) -> list[Picture]:
    """Draw what the run has evidence for."""
    found = []
    for phase in PHASES:
        if not (pair := series.pair_of(evidence, phase)):
            continue
        if phase == "prefix":
            found.append(_strip(pair))
        else:
            level = next((one["level"] for one in evidence_promises(evidence, "acceptance")), LEVEL)
            draft_length = int(evidence.scenario.speculative["num_speculative_tokens"])
            found += [_positions(phase, pair, draft_length, level, _facts(judgement, phase)), _scatter(phase, pair)]
        found.append(_ecdf(phase, pair))
    return [picture for picture in (*found, _divergences(judgement), _timeline(evidence)) if picture]


def evidence_promises(evidence: Evidence, kind: str) -> list[dict[str, Any]]:
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
    figure, panels = svg.canvas(2, 3.8, share=True)
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
    from matplotlib.collections import PolyCollection

    half = 0.45 * one.group
    left, right = one.position - half, one.position + half
    corners = np.stack([np.stack([left, right, right, left]), np.stack([base, base, top, top])], axis=-1)
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
    figure, (axes,) = svg.canvas(1, 2.7)
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
    drawn = [
        f"{TITLES[name]}: {min(len(times[name]), series.MARKS):,} marks of {len(times[name]):,} times" for name in times
    ]
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


def _positions(phase: str, pair: series.Pair, draft_length: int, level: float, facts: dict[str, Any]) -> Picture | None:
    found = series.positions(pair, draft_length, level)
    if not found:
        return None
    key = f"positions-{phase.replace('_', '-')}"
    figure, (top, below) = svg.canvas(2, 4.6, heights=(1, 1.25))
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


def _scatter(phase: str, pair: series.Pair) -> Picture | None:
    found = series.rates(pair)
    if not len(found.weight):
        return None
    key, prompts = f"prompts-{phase.replace('_', '-')}", int(found.weight.sum())
    figure, (axes,) = svg.canvas(1, 4.2)
    axes.plot([0, 1], [0, 1], color=svg.INK, linewidth=0.8)
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
        )  # type: ignore[assignment]
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


def _divergences(judgement: Judgement) -> Picture | None:
    found = [one for promise in judgement.promises for one in promise.get("divergences", ())]
    if not found:
        return None
    shown = found[: series.MARKS]
    figure, (axes,) = svg.canvas(1, 2.9)
    known = [one["moved"] for one in shown if one["moved"] is not None]
    ceiling = 1.25 * max([*known, *(one["bound"] for one in shown), 0.01])
    kinds: dict[str, tuple[str, str, Callable[[dict[str, Any]], bool]]] = {
        "tie": ("o", svg.BASELINE, lambda one: one["tie"]),
        "differs": ("X", svg.WARN, lambda one: not one["tie"] and one["moved"] is not None),
        "differs, not each other's runner-up": ("^", svg.WARN, lambda one: one["moved"] is None),
    }
    for name, (mark, colour, belongs) in kinds.items():
        of = [one for one in shown if belongs(one)]
        heights = [ceiling if one["moved"] is None else one["moved"] for one in of]
        if of:
            (dots,) = axes.plot(
                [one["position"] for one in of], heights, mark, color=colour, label=name, markersize=6, clip_on=False
            )
            dots.set_gid(svg.series("divergences"))
    for bound in sorted({one["bound"] for one in shown}):
        axes.axhline(bound, color=svg.INK, linewidth=1, linestyle=":")
    axes.set(xlabel="output token at which the answers part", ylabel="margin moved, log prob.")
    axes.set_xlim(left=-0.5)
    axes.set_ylim(0, 1.05 * ceiling)
    svg.legend(axes, columns=1)
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
        svg.render(figure, "divergences"),
        f"{len(found):,} pairs of answers part; {sum(one['tie'] for one in found):,} are ties, which the control's own "
        f"noise (dotted) explains.{rest}",
        ("request", "one says token", "the other", "at output token", "margin moved", "noise", "kind"),
        rows,
    )


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
    servers = [name for name in evidence.variants if any(span.server == name for span in spans)]
    figure, (axes,) = svg.canvas(1, 1.3 + 0.5 * len(servers))
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

"""The still picture of the time axis: for print, for readers without scripts, and until the charts are drawn."""

import math
from collections.abc import Iterable, Sequence

from markupsafe import Markup

from signoff.report.timeline import Series, Timeline, group_of

WIDTH, LEFT, RIGHT = 1000.0, 56.0, 8.0
POINTS_MAX = 1200


def picture(timeline: Timeline, word) -> Markup:  # type: ignore[no-untyped-def]
    """An SVG element whose colours come from the page's style: classes `g0` to `g7`, `bad`, `band`, `rule`."""
    parts: list[Markup] = []
    top = 18.0
    for stage in timeline.stages[::2]:
        left, right = _x(stage.from_ms, timeline), _x(stage.to_ms, timeline)
        band = '<rect class="band" x="{}" y="0" width="{}" height="{}"/>'
        parts.append(Markup(band).format(_n(left), _n(max(right - left, 0.5)), _n(_height(timeline))))
    parts += _names(timeline)
    if timeline.points:
        parts += _scatter(timeline, f"{word['chart.latency']} (ms)", top)
        top += 190
    for series, label, highest in (
        ((*timeline.running, *timeline.waiting), word["chart.load"], None),
        (timeline.kv, f"{word['chart.kv']} (%)", 100.0),
        (timeline.preemptions, word["chart.preemptions"], None),
    ):
        if series:
            parts += _lines(timeline, series, label, highest, top)
            top += 110
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(
        _n(WIDTH), _n(top), word["chart.describe"]
    )
    return head + Markup("").join(parts) + Markup("</svg>")


def _height(timeline: Timeline) -> float:
    panes = sum(bool(s) for s in (timeline.running or timeline.waiting, timeline.kv, timeline.preemptions))
    return 18.0 + (190 if timeline.points else 0) + 110 * panes


def _x(at_ms: float, timeline: Timeline) -> float:
    span = max(timeline.to_ms - timeline.from_ms, 1.0)
    return LEFT + (at_ms - timeline.from_ms) / span * (WIDTH - LEFT - RIGHT)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _names(timeline: Timeline) -> Iterable[Markup]:
    """The name of each stage group where it begins, left out where it would cover the one before."""
    until, last = 0.0, ""
    for stage in timeline.stages:
        group, at = group_of(stage.name), _x(stage.from_ms, timeline)
        if group != last and at >= until:
            yield Markup('<text class="name" x="{}" y="12">{}</text>').format(_n(at + 2), group)
            until, last = at + 7.0 * len(group), group


def _frame(label: str, low: str, high: str, top: float, height: float) -> Iterable[Markup]:
    bottom = top + height
    yield Markup('<text class="name" x="{}" y="{}">{}</text>').format(_n(LEFT + 4), _n(top + 12), label)
    yield Markup('<line class="rule" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
        _n(LEFT), _n(WIDTH - RIGHT), _n(bottom), _n(bottom)
    )
    for text, y in ((high, top + 10), (low, bottom)):
        yield Markup('<text class="tick" x="{}" y="{}">{}</text>').format(_n(LEFT - 6), _n(y), text)


def _scatter(timeline: Timeline, label: str, top: float) -> Iterable[Markup]:
    """Latency on a logarithmic scale; failed requests as crosses."""
    height, points = 160.0, timeline.points[:: max(1, len(timeline.points) // POINTS_MAX)]
    low = math.floor(math.log10(min(p.ms for p in points)))
    high = max(math.ceil(math.log10(max(p.ms for p in points))), low + 1)
    yield from _frame(label, f"{10.0**low:,g}", f"{10.0**high:,g}", top, height)
    groups = list(dict.fromkeys(p.group for p in timeline.points))
    for point in points:
        x, y = _x(point.at_ms, timeline), top + height * (1 - (math.log10(point.ms) - low) / (high - low))
        if point.ok:
            shape = '<circle class="g{}" cx="{}" cy="{}" r="1.6"/>'
            yield Markup(shape).format(groups.index(point.group) % 8, _n(x), _n(y))
        else:
            shape = '<path class="bad" d="M{0} {1}l6 6m0-6l-6 6"/>'
            yield Markup(shape).format(_n(x - 3), _n(y - 3))


def _lines(
    timeline: Timeline, series: Sequence[Series], label: str, highest: float | None, top: float
) -> Iterable[Markup]:
    height = 80.0
    peak = highest or max((float(v) for s in series for v in s.values if not math.isnan(v)), default=1.0) or 1.0
    yield from _frame(label, "0", f"{peak:,g}", top, height)
    for index, one in enumerate(series):
        steps: list[str] = []
        move = "M"
        for at, value in zip(one.t_ms, one.values, strict=True):
            if math.isnan(value):
                move = "M"
                continue
            y = top + height * (1 - float(value) / peak)
            steps.append(f"{move}{_n(_x(float(at), timeline))} {_n(y)}")
            move = "L"
        yield Markup('<path class="line g{}" d="{}"/>').format(index % 8, "".join(steps))

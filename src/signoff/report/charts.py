"""The interactive charts: four panes over one time axis, as data for Bokeh's own embedding, no code of ours in them.

Colours are the page's light palette; the page swaps them for its dark one before it draws.
"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from bokeh.core.enums import SizingModeType
from bokeh.embed import json_item
from bokeh.layouts import gridplot
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter, Range1d
from bokeh.models.annotations import BoxAnnotation
from bokeh.plotting import figure
from bokeh.resources import INLINE

from signoff.report.timeline import Series, Stage, Timeline, group_of

TEXT, QUIET, RULE, GRID = "#23282f", "#5b6470", "#c9cfd6", "#e6e9ed"
BAD, BAND = "#b3261e", "#eef1f4"
GROUPS = ("#1f5fa8", "#a4570a", "#1d7a4d", "#7a3fa0", "#0f7b83", "#8d6b00", "#a23a6b", "#4a5568")
"""Colours of stage groups: dark enough on white for AA, in an order that colour-blind eyes tell apart."""
CHART_CHARACTERS = 150
"""Characters of stage names that fit beside one another on a wide page."""
STRETCH: SizingModeType = "stretch_width"
_MODEL_ID = re.compile(r"p\d+")


def colour_of(group: str, timeline: Timeline) -> str:
    """The colour of a stage group, the same in every pane."""
    groups = list(dict.fromkeys([*(p.group for p in timeline.points), *(group_of(s.name) for s in timeline.stages)]))
    return GROUPS[groups.index(group) % len(GROUPS)]


def embedding(timeline: Timeline, word: Mapping[str, str]) -> str:
    """A JSON item for `Bokeh.embed.embed_item`, safe inside a script element; the same bytes for the same run."""
    panes = _panes(timeline, word)
    grid = gridplot(
        [[pane] for pane in panes], sizing_mode=STRETCH, toolbar_location="right", toolbar_options={"logo": None}
    )
    item: dict[str, Any] = dict(json_item(grid, "timeline"))  # type: ignore[arg-type]
    item["doc"].pop("title", None)
    text = json.dumps(_renamed(item), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def scripts() -> tuple[str, ...]:
    """Bokeh's own script texts, from the installed package; the base one only."""
    resources = INLINE.clone(components=["bokeh"])
    return tuple(resources.js_raw)[:1]


def _panes(timeline: Timeline, word: Mapping[str, str]) -> list[Any]:
    span = max(timeline.to_ms - timeline.from_ms, 1000.0)
    shared = Range1d(start=timeline.from_ms - span * 0.01, end=timeline.to_ms + span * 0.01)
    strip = _strip(timeline, word, shared) if timeline.stages else None
    made = [strip] if strip else []
    if timeline.points:
        made.append(_latency(timeline, word, shared))
    if timeline.running or timeline.waiting:
        pane = _pane(word["chart.load"], shared, 150)
        _lines(pane, timeline.running, word["chart.running"], GROUPS[0], "solid")
        _lines(pane, timeline.waiting, word["chart.waiting"], GROUPS[1], "dashed")
        made.append(_legend(pane))
    if timeline.kv:
        pane = _pane(f"{word['chart.kv']} (%)", shared, 130, Range1d(start=0, end=105))
        _lines(pane, timeline.kv, word["chart.kv"], GROUPS[2], "solid", unit=" %")
        made.append(pane)
    if timeline.preemptions:
        pane = _pane(word["chart.preemptions"], shared, 110)
        pane.y_range.start = 0
        _lines(pane, timeline.preemptions, word["chart.preemptions"], GROUPS[3], "solid", step=True)
        made.append(pane)
    for index, pane in enumerate(made):
        if pane is not strip:
            _bands(pane, timeline)
        pane.xaxis.visible = index == len(made) - 1
        pane.height += 22 if pane.xaxis.visible else 0
    if made:
        made[-1].xaxis.axis_label = word["chart.axis"]
    return made


def _pane(label: str, shared: Any, height: int, y_range: Any = None, log: bool = False) -> Any:
    options: dict[str, Any] = {"y_range": y_range} if y_range else {}
    pane: Any = figure(
        x_axis_type="datetime",
        y_axis_type="log" if log else "linear",
        x_range=shared,
        height=height,
        sizing_mode=STRETCH,
        tools="xpan,xbox_zoom,xwheel_zoom,reset",
        active_drag="xbox_zoom",
        background_fill_alpha=0,
        border_fill_alpha=0,
        outline_line_color=None,
        min_border_left=64,
        output_backend="canvas",
        **options,
    )
    pane.yaxis.axis_label = label
    for axis in pane.axis:
        axis.axis_label_text_color = TEXT
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "12px"
        axis.major_label_text_color = QUIET
        axis.major_label_text_font_size = "11px"
        axis.axis_line_color = axis.major_tick_line_color = RULE
        axis.minor_tick_line_color = None
    pane.xgrid.grid_line_color = None
    pane.ygrid.grid_line_color = GRID
    return pane


def _latency(timeline: Timeline, word: Mapping[str, str], shared: Any) -> Any:
    lowest, highest = min(p.ms for p in timeline.points) / 1.3, max(p.ms for p in timeline.points) * 1.3
    pane = _pane(f"{word['chart.latency']} (ms)", shared, 240, Range1d(start=lowest, end=highest), log=True)
    pane.yaxis.ticker = FixedTicker(ticks=_ticks(lowest, highest))
    pane.yaxis.formatter = NumeralTickFormatter(format="0,0.[00]")
    for group in dict.fromkeys(p.group for p in timeline.points):
        good = [p for p in timeline.points if p.ok and p.group == group]
        if good:
            drawn = pane.scatter(
                "t", "ms", source=_source(good), size=4, alpha=0.65, line_color=None,
                color=colour_of(group, timeline), legend_label=group,
            )  # fmt: skip
            pane.add_tools(_hover(drawn, word))
    bad = [p for p in timeline.points if not p.ok]
    if bad:
        drawn = pane.scatter(
            "t", "ms", source=_source(bad), size=9, marker="x", line_width=2, color=BAD,
            legend_label=word["chart.failed"],
        )  # fmt: skip
        pane.add_tools(_hover(drawn, word))
    return _legend(pane)


def _ticks(lowest: float, highest: float) -> list[float]:
    """Marks of a logarithmic axis: 1, 2 and 5 of every decade, or the decades alone when there are many."""
    low, high = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    steps = (1, 2, 5) if high - low <= 3 else (1,)
    marks = [step * 10.0**power for power in range(low, high + 1) for step in steps]
    return [mark for mark in marks if lowest <= mark <= highest]


def _source(points: Sequence[Any]) -> ColumnDataSource:
    return ColumnDataSource(
        {
            "t": [round(p.at_ms, 1) for p in points],
            "ms": [float(f"{p.ms:.4g}") for p in points],
            "told": [p.told for p in points],
        }
    )


def _hover(drawn: Any, word: Mapping[str, str]) -> HoverTool:
    tips = [("", "@told"), (word["chart.axis"], "@t{%T}"), ("ms", "@ms{0.[00]}")]
    return HoverTool(renderers=[drawn], tooltips=tips, formatters={"@t": "datetime"}, visible=False)


def _lines(
    pane: Any, series: Sequence[Series], label: str, colour: str, dash: str, *, step: bool = False, unit: str = ""
) -> None:
    for index, one in enumerate(series):
        values = [None if v != v else float(f"{v:.4g}") for v in one.values]
        data = {"t": [round(float(t), 1) for t in one.t_ms], "y": [float("nan") if v is None else v for v in values]}
        source = ColumnDataSource({name: _floats(column) for name, column in data.items()})
        name = label if len(series) == 1 else f"{label} {index + 1}"
        draw = pane.step if step else pane.line
        more = {"mode": "after"} if step else {}
        drawn = draw("t", "y", source=source, color=colour, line_width=1.6, line_dash=dash, legend_label=name, **more)
        tips = [(name, f"@y{{0.[00]}}{unit}"), ("", "@t{%T}")]
        pane.add_tools(
            HoverTool(renderers=[drawn], tooltips=tips, formatters={"@t": "datetime"}, mode="vline", visible=False)
        )
    for legend in pane.legend:
        legend.visible = False


def _floats(column: Sequence[float]) -> Any:
    return np.asarray(column, dtype=np.float64)


def _legend(pane: Any) -> Any:
    for legend in pane.legend:
        legend.visible = True
        legend.orientation = "horizontal"
        legend.location = "top_left"
        legend.background_fill_alpha = 0
        legend.border_line_color = None
        legend.label_text_color = TEXT
        legend.label_text_font_size = "11px"
        legend.padding = 2
        legend.spacing = 10
        legend.click_policy = "hide"
    pane.add_layout(pane.legend[0], "above")
    return pane


def _bands(pane: Any, timeline: Timeline) -> None:
    """Every second stage is a band, so that the eye keeps the stages apart in every pane."""
    for stage in timeline.stages[::2]:
        pane.add_layout(
            BoxAnnotation(
                left=stage.from_ms, right=stage.to_ms, fill_color=BAND, fill_alpha=1, line_color=None, level="image"
            )
        )


def _strip(timeline: Timeline, word: Mapping[str, str], shared: Any) -> Any:
    """The stages along the axis: their groups above, their steps below, names where they fit."""
    pane = _pane(word["label.stage"], shared, 64, Range1d(start=0, end=2))
    pane.yaxis.major_tick_line_color = pane.yaxis.major_label_text_color = None
    pane.yaxis.axis_line_color = None
    pane.ygrid.grid_line_color = None
    span = max(timeline.to_ms - timeline.from_ms, 1.0)
    rows: dict[str, list[Any]] = {name: [] for name in ("left", "right", "mid", "y", "colour", "name", "told")}
    for row, stages in ((0.55, timeline.stages), (1.5, _merged(timeline.stages))):
        for stage in stages:
            short = _short(stage.name) if row < 1 else group_of(stage.name)
            fits = (stage.to_ms - stage.from_ms) / span * CHART_CHARACTERS >= len(short)
            cells = (
                round(stage.from_ms, 1),
                round(stage.to_ms, 1),
                round((stage.from_ms + stage.to_ms) / 2, 1),
                row,
                colour_of(group_of(stage.name), timeline),
                short if fits else "",
                stage.name,
            )
            for name, cell in zip(rows, cells, strict=True):
                rows[name].append(cell)
    source = ColumnDataSource(rows)
    drawn = pane.hbar(
        y="y", left="left", right="right", height=0.84, source=source, fill_color="colour", fill_alpha=0.2,
        line_color="colour", line_alpha=0.5,
    )  # fmt: skip
    pane.text(
        "mid", "y", text="name", source=source, text_align="center", text_baseline="middle", text_font_size="11px",
        text_color=TEXT,
    )  # fmt: skip
    pane.add_tools(HoverTool(renderers=[drawn], tooltips=[("", "@told")], visible=False))
    return pane


def _merged(stages: Sequence[Stage]) -> list[Stage]:
    """Neighbouring stages of one group as one."""
    made: list[Stage] = []
    for stage in stages:
        if made and group_of(made[-1].name) == group_of(stage.name):
            made[-1] = Stage(name=made[-1].name, from_ms=made[-1].from_ms, to_ms=max(made[-1].to_ms, stage.to_ms))
        else:
            made.append(stage)
    return made


def _short(name: str) -> str:
    """What tells a stage from others of its group: the parts behind it."""
    parts = name.split(".")
    return (parts[-1] if len(parts) > 1 else name).replace("_", " ")


def _renamed(item: Any) -> Any:
    """The item with model ids in order of appearance: Bokeh counts them up over a process's life."""
    names: dict[str, str] = {}

    def walk(part: Any) -> Any:
        if isinstance(part, dict):
            return {key: name(value) if key in _ID_KEYS else walk(value) for key, value in part.items()}
        return [walk(value) for value in part] if isinstance(part, list) else part

    def name(value: Any) -> Any:
        if isinstance(value, str) and _MODEL_ID.fullmatch(value):
            return names.setdefault(value, f"m{len(names)}")
        return walk(value)

    return walk(item)


_ID_KEYS = {"id", "root_id"}

"""What happened over the run on one time axis, thinned so that a page stays small and extremes stay."""

import itertools
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.metrics import Floats, MetricTable
from signoff.core.record import Record
from signoff.core.words import State

POINTS_MAX = 3000
"""Requests drawn, failures first."""
LOOKED_AT_MAX = 60_000
"""Requests among which the ones to draw are looked for; of more, an even sample and every failure."""
SERIES_MAX = 1200
"""Scrapes drawn of one series."""
STAGES_MAX = 80


class Stage(Struct, frozen=True, kw_only=True):
    name: str
    from_ms: float
    to_ms: float


class Point(Struct, frozen=True, kw_only=True):
    """One request; `ms` is its TTFT, or for a failed one the time until it failed."""

    at_ms: float
    ms: float
    ok: bool
    group: str
    told: str


class Series(Struct, frozen=True, kw_only=True):
    """`t_ms` and `values` have shape (points,); NaN breaks the line."""

    name: str
    t_ms: Floats
    values: Floats


class Timeline(Struct, frozen=True, kw_only=True):
    """All instants are Unix milliseconds."""

    stages: tuple[Stage, ...]
    points: tuple[Point, ...]
    running: tuple[Series, ...]
    waiting: tuple[Series, ...]
    kv: tuple[Series, ...]
    preemptions: tuple[Series, ...]
    from_ms: float = 0.0
    to_ms: float = 0.0

    @property
    def empty(self) -> bool:
        return not (self.points or self.running or self.waiting or self.kv or self.preemptions)


def timeline(dossier: Dossier) -> Timeline:
    """The axis of one run."""
    tables = list(dossier.metrics.values())
    points = tuple(_points(dossier.records))
    stages = tuple(_stages(dossier))
    made = {
        "running": _each(tables, lambda t: _sum(t, "vllm:num_requests_running")),
        "waiting": _each(tables, lambda t: _sum(t, "vllm:num_requests_waiting")),
        "kv": _each(tables, lambda t: _times(t.highest("vllm:kv_cache_usage_perc"), 100)),
        "preemptions": _each(tables, lambda t: _steps(_sum(t, "vllm:num_preemptions_total"))),
    }
    ends = [p.at_ms for p in points] + [e for s in stages for e in (s.from_ms, s.to_ms)]
    ends += [float(t) for series in made.values() for s in series if len(s.t_ms) for t in (s.t_ms[0], s.t_ms[-1])]
    low, high = (min(ends), max(ends)) if ends else (0.0, 0.0)
    return Timeline(stages=stages, points=points, from_ms=low, to_ms=high, **made)


def group_of(stage: str) -> str:
    """The part of a stage name that gets one colour: `capacity.concurrency.16` is `concurrency`."""
    gate, _, rest = stage.partition(".")
    return rest.split(".")[0].replace("_", " ") if gate == "capacity" and rest else gate


def _points(records: Sequence[Record]) -> Iterable[Point]:
    made = [point for record in _looked_at(records) if (point := _point(record)) is not None]
    made.sort(key=lambda p: p.at_ms)
    if len(made) <= POINTS_MAX:
        return made
    bad = [p for p in made if not p.ok][:POINTS_MAX]
    good = [p for p in made if p.ok]
    room = max(POINTS_MAX - len(bad), 0)
    kept = [good[i] for i in _extremes(np.asarray([p.ms for p in good]), room)] if room and good else []
    return sorted([*bad, *kept], key=lambda p: p.at_ms)


def _looked_at(records: Sequence[Record]) -> Sequence[Record]:
    """All records, or of very many the failed ones and an even sample of the others."""
    if len(records) <= LOOKED_AT_MAX:
        return records
    good = [r for r in records if r.state is State.OK]
    bad = [r for r in records if r.state is not State.OK][:LOOKED_AT_MAX]
    return [*bad, *even(good, LOOKED_AT_MAX)]


def even(records: Sequence[Record], at_most: int) -> Sequence[Record]:
    """At most `at_most` of `records`, evenly spaced, the first among them."""
    return records[:: -(-len(records) // at_most)] if len(records) > at_most else records


def _point(record: Record) -> Point | None:
    good = record.state is State.OK
    took = record.ttft_ns if good else record.end_ns - record.sent_ns
    if good and took is None:  # not streamed: only its whole duration is known
        took = record.e2e_ns
    if took is None:
        return None
    told = f"{record.id} {record.state.replace('_', ' ')}"[:80]
    return Point(at_ms=record.sent_ns / 1e6, ms=max(took / 1e6, 0.01), ok=good, group=group_of(record.stage), told=told)


def _stages(dossier: Dossier) -> Iterable[Stage]:
    """Stages with both ends; a parent whose steps are there stands for them only where it has none."""
    ends = {e.stage: e.at_ns for e in dossier.events if isinstance(e, StageFinished)}
    begun = [e for e in dossier.events if isinstance(e, StageStarted) and e.stage in ends]
    names = {e.stage for e in begun}
    leaves = [e for e in begun if not any(other.startswith(e.stage + ".") for other in names)]
    for event in leaves[:STAGES_MAX]:
        yield Stage(name=event.stage, from_ms=event.at_ns / 1e6, to_ms=ends[event.stage] / 1e6)


def _each(tables: Iterable[MetricTable], of: Callable[[MetricTable], Floats | None]) -> tuple[Series, ...]:
    made = []
    for table in tables:
        values = of(table)
        if values is None or not len(table.t_ns) or np.isnan(values).all():
            continue
        kept = _extremes(np.nan_to_num(values, nan=-1.0), SERIES_MAX)
        made.append(Series(name=table.server, t_ms=table.t_ns[kept] / 1e6, values=values[kept]))
    return tuple(made)


def _sum(table: MetricTable, name: str) -> Floats | None:
    return table.total(name)


def _times(values: Floats | None, factor: float) -> Floats | None:
    return None if values is None else values * factor


def _steps(counter: Floats | None) -> Floats | None:
    """What a counter grew by since the first scrape that held it; a fall is a restart and starts again at zero."""
    if counter is None or np.isnan(counter).all():
        return None
    filled = counter.copy()
    known = ~np.isnan(filled)
    grown = np.diff(filled[known], prepend=filled[known][0])
    filled[known] = np.cumsum(np.where(grown < 0, filled[known], grown))
    return filled


def _extremes(values: Floats, at_most: int) -> list[int]:
    """Indexes of at most `at_most` values: of every stretch its first, lowest and highest, in order."""
    if len(values) <= at_most:
        return list(range(len(values)))
    cuts = np.linspace(0, len(values), max(at_most // 3, 1) + 1).astype(int)
    kept: set[int] = set()
    for low, high in itertools.pairwise(cuts):
        stretch = values[low:high]
        kept |= {int(low), int(low + stretch.argmin()), int(low + stretch.argmax())}
    return sorted(kept)

"""What the server's metrics say about a stretch of time: counters, gauges, histograms. Absence is never zero, except
that a counter nobody had touched yet is not published by every frontend, and then it began at zero.
"""

import re
from collections.abc import Iterable, Sequence

import numpy as np

from signoff.core.dossier import Dossier
from signoff.core.metrics import Floats, MetricTable
from signoff.core.words import Gate
from signoff.read.scrape import read_scrape

KV_NAMES = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
"""0 to 1; the second is what versions before 0.10 said."""
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
PREEMPTIONS = "vllm:num_preemptions_total"
QUEUE = "vllm:request_queue_time_seconds"
STEP_TOKENS = "vllm:iteration_tokens_total"
"""A histogram, whatever its name says: tokens of each engine step."""
QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
PROMPT_TOKENS = "vllm:prompt_tokens_total"
MEMORY = "process_resident_memory_bytes"
STARTED = "process_start_time_seconds"
KEPT = (*KV_NAMES, RUNNING, WAITING, PREEMPTIONS, QUEUE, STEP_TOKENS, QUERIES, HITS, PROMPT_TOKENS, MEMORY, STARTED)
LE = re.compile(r'[{,]le="([^"]+)"')
REACH_NS = 5 * 10**9
"""How far before or after a stretch a scrape may lie and still bound it."""


def kept(key: str) -> bool:
    """Whether a series belongs to this gate."""
    return key.split("{", 1)[0].startswith(KEPT)


def table_of(server: str, scrapes: Iterable[tuple[int, bytes]]) -> MetricTable:
    """The raw bodies of `/metrics` as one table; a body that is none of that leaves its row empty."""
    rows = sorted(scrapes, key=lambda row: row[0])
    columns: dict[str, Floats] = {}
    for index, (_, raw) in enumerate(rows):
        for key, value in read_scrape(raw).series.items():
            if kept(key):
                if key not in columns:
                    columns[key] = np.full(len(rows), np.nan)
                columns[key][index] = value
    return MetricTable(
        server=server,
        t_ns=np.array([at for at, _ in rows], dtype=np.int64),
        columns=columns,
        failed=np.array([], dtype=np.int64),
    )


def merged(first: MetricTable, second: MetricTable) -> MetricTable:
    """Both tables on one axis."""
    t_ns = np.concatenate([first.t_ns, second.t_ns])
    order = np.argsort(t_ns, kind="stable")
    columns: dict[str, Floats] = {}
    for key in sorted({*first.columns, *second.columns}):
        parts = [t.columns.get(key, np.full(len(t.t_ns), np.nan)) for t in (first, second)]
        columns[key] = np.concatenate(parts)[order]
    return MetricTable(
        server=first.server,
        t_ns=t_ns[order],
        columns=columns,
        failed=np.sort(np.concatenate([first.failed, second.failed])),
    )


def tables(dossier: Dossier) -> list[MetricTable]:
    """One table a server: what the scraper wrote, and the scrapes that the stages took at their borders."""
    found: dict[str, MetricTable] = {}
    for server, table in dossier.metrics.items():
        columns = {key: table.columns[key] for key in table.columns if kept(key)}
        found[server] = MetricTable(server=server, t_ns=table.t_ns, columns=columns, failed=table.failed)
    taken: dict[str, list[tuple[int, bytes]]] = {}
    for card in dossier.of_kind("scrape"):
        if card.digest and card.stage.startswith(Gate.CAPACITY):
            try:
                taken.setdefault(card.where, []).append((card.taken_ns, dossier.blob(card.digest)))
            except KeyError:
                continue
    for server, scrapes in taken.items():
        ours = table_of(server, scrapes)
        found[server] = merged(found[server], ours) if server in found else ours
    return [found[server] for server in sorted(found) if len(found[server].t_ns)]


def _border(table: MetricTable, at_ns: int, *, before: bool) -> int | None:
    """The scrape that bounds a stretch: the last at or before its begin, the first at or after its end; else the
    nearest inside. `None` when none lies within reach."""
    if not len(table.t_ns):
        return None
    index = (
        int(np.searchsorted(table.t_ns, at_ns, side="right")) - 1
        if before
        else int(np.searchsorted(table.t_ns, at_ns, side="left"))
    )
    index = min(max(index, 0), len(table.t_ns) - 1)
    return index if abs(int(table.t_ns[index]) - at_ns) <= REACH_NS else None


def _growth(table: MetricTable, column: Floats, from_ns: int, to_ns: int) -> float | None:
    first, last = _border(table, from_ns, before=True), _border(table, to_ns, before=False)
    if first is None or last is None or last <= first or not np.isfinite(column[last]):
        return None
    if not np.isfinite(column[first]):
        return float(column[last]) if not np.isfinite(column[:first]).any() else None
    grown = float(column[last] - column[first])
    return grown if grown >= 0 else None


def delta(found: Sequence[MetricTable], name: str, from_ns: int, to_ns: int) -> float | None:
    """How much a counter grew, all servers and engines; `None` when it was not seen at both ends, or fell."""
    grown = [_growth(t, column, from_ns, to_ns) for t in found for column in t.series(name).values()]
    if not grown:
        return 0.0 if name in (PREEMPTIONS, HITS) and _publishes_on_first_use(found, from_ns, to_ns) else None
    return None if any(g is None for g in grown) else float(sum(g for g in grown if g is not None))


def _publishes_on_first_use(found: Sequence[MetricTable], from_ns: int, to_ns: int) -> bool:
    """vLLM's Rust frontend publishes a counter when it first moves, and no `process_*` series ever; the Python
    frontend publishes both from the start. Source: vLLM repository, `rust/` metrics, read 2026-12-01."""
    gauges = gauge(found, (RUNNING,), from_ns - REACH_NS, to_ns + REACH_NS)
    return len(gauges) > 0 and not any(table.series(STARTED) for table in found)


def grown_inside(found: Sequence[MetricTable], name: str, from_ns: int, to_ns: int) -> float | None:
    """How much a counter grew between the first and the last scrape inside the stretch, nothing outside looked at;
    `None` when it was not seen twice there."""
    grown: list[float] = []
    for table in found:
        inside = (table.t_ns >= from_ns) & (table.t_ns <= to_ns)
        for column in table.series(name).values():
            seen = column[inside & np.isfinite(column)]
            if len(seen) < 2:
                return None
            grown.append(float(seen[-1] - seen[0]))
    return sum(grown) if grown else None


def histogram(found: Sequence[MetricTable], name: str, from_ns: int, to_ns: int) -> list[tuple[float, float]]:
    """`(upper bound, count at or under it)` of what was observed in the stretch, rising; empty when not seen."""
    counts: dict[float, float] = {}
    for table in found:
        for key, column in table.series(name + "_bucket").items():
            grown, bound = _growth(table, column, from_ns, to_ns), LE.search(key)
            if grown is None or bound is None:
                return []
            le = float("inf") if bound.group(1) == "+Inf" else float(bound.group(1))
            counts[le] = counts.get(le, 0.0) + grown
    return sorted(counts.items())


def gauge(found: Sequence[MetricTable], names: Sequence[str], from_ns: int, to_ns: int) -> Floats:
    """Every scrape's value of a gauge in the stretch, highest over engines, servers one after another; the first of
    `names` that is published counts."""
    values: list[Floats] = []
    for table in found:
        column = next((c for name in names if (c := table.highest(name)) is not None), None)
        if column is not None:
            inside = column[(table.t_ns >= from_ns) & (table.t_ns <= to_ns)]
            values.append(inside[np.isfinite(inside)])
    return np.concatenate(values) if values else np.array([], dtype=np.float64)


def highest(found: Sequence[MetricTable], names: Sequence[str], from_ns: int, to_ns: int) -> float | None:
    """The highest value of a gauge in the stretch."""
    values = gauge(found, names, from_ns, to_ns)
    return float(values.max()) if len(values) else None

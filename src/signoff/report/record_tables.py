"""Tables counted from records and scrapes: what the client saw of each capacity stage, prefix arm and agent lane."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from signoff.core.dossier import Dossier
from signoff.core.record import Record
from signoff.core.words import Gate, Outcome, State
from signoff.judge.summaries import Quantile, inter_token, latency, quantile, rate
from signoff.report.numbers import MISSING, digits, percent, quantity
from signoff.report.parts import Cell, Table
from signoff.report.timeline import even

Words = Mapping[str, str]
Key = TypeVar("Key", bound=Hashable)
STAGE_ROWS_MAX = 60
LATENCY_RECORDS_MAX = 5000
"""Requests of a stage whose latencies the table takes; of more an even sample, and the table says so."""


def stages(dossier: Dossier, word: Words) -> Table:
    """Every capacity stage: requests, failures and latency as the client saw them, and the server's peaks meanwhile."""
    groups = _grouped((r for r in dossier.records if r.gate == Gate.CAPACITY), lambda r: r.stage)
    heads = ("stage", "requests", "input", "ttft_p50", "ttft_p99", "itl_p99", "kv", "running", "waiting", "preempted")
    rows = tuple(
        (
            Cell(text=stage.removeprefix("capacity.").replace("_", " ").replace(".", " "), fixed=True),
            _counted(rs),
            _median(rs, lambda r: r.prompt_tokens),
            *_latencies(even(rs, LATENCY_RECORDS_MAX)),
            *_server(dossier, stage),
        )
        for stage, rs in list(groups.items())[:STAGE_ROWS_MAX]
    )
    columns = tuple(word[f"label.{head}"] for head in heads)
    note = word["table.capacity_note"]
    if any(len(rs) > LATENCY_RECORDS_MAX for rs in groups.values()):
        note += " " + word["table.sampled_note"].format(n=f"{LATENCY_RECORDS_MAX:,}")
    return Table(id="stages", caption=word["table.capacity"], columns=columns, rows=rows, note=note)


def arms(dossier: Dossier, word: Words) -> Table:
    """Every arm of the prefix gate: latency and the cached share of prompt tokens that the server told."""
    groups = _grouped(
        (r for r in dossier.records if r.gate == Gate.PREFIX), lambda r: r.labels.get("arm", r.stage.split(".")[-1])
    )
    heads = ("arm", "requests", "input", "ttft_p50", "cached")
    rows = tuple(
        (
            Cell(text=arm),
            _counted(records),
            _median(records, lambda r: r.prompt_tokens),
            _quantile(latency(records).ok.p50),
            _cached(records),
        )
        for arm, records in groups.items()
    )
    columns = tuple(word[f"label.{head}"] for head in heads)
    return Table(id="arms", caption=word["table.prefix"], columns=columns, rows=rows)


def kinds(dossier: Dossier, word: Words) -> Table:
    """Requests by kind of sample and lane: `k` of `n` finished, with the exact interval of the failure rate."""
    groups = _grouped((r for r in dossier.records if r.gate == Gate.AGENT), lambda r: (r.stage, _lane(r)))
    heads = ("kind", "lane", "passed", "failure_rate", "interval")
    rows = []
    for (stage, lane), records in groups.items():
        bad = sum(r.state is not State.OK for r in records)
        told = rate(bad, len(records))
        rows.append(
            (
                Cell(text=stage.removeprefix("agent.").replace("_", " ")),
                Cell(text=lane),
                Cell(text=f"{len(records) - bad:,} / {len(records):,}", number=True),
                Cell(text=MISSING if told.share is None else percent(told.share), number=True),
                Cell(text=f"{percent(told.low)} – {percent(told.high)}", number=True),
            )
        )
    columns = tuple(word[f"label.{head}"] for head in heads)
    return Table(
        id="kinds", caption=word["table.agent"], columns=columns, rows=tuple(rows), note=word["table.agent_note"]
    )


def _lane(record: Record) -> str:
    """What tells one lane of a kind from another: labels of few values, and whether it streamed."""
    told = [f"{name} {record.labels[name]}" for name in ("lane", "via", "thinking", "load") if name in record.labels]
    return ", ".join((*told, "streamed" if record.stream else "whole"))


def _grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> dict[Key, list[Record]]:
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _counted(records: Sequence[Record]) -> Cell:
    """How many were sent, and below it what became of those that failed."""
    states = dict.fromkeys(r.state for r in records if r.state is not State.OK)
    told = ", ".join(f"{sum(r.state is s for r in records)} {s.replace('_', ' ')}" for s in states)
    return Cell(text=digits(len(records)), note=told, tone=str(Outcome.FAIL) if states else "", number=True)


def _latencies(records: Sequence[Record]) -> tuple[Cell, ...]:
    first, gaps = latency(records).ok, inter_token(records).ok
    return _quantile(first.p50), _quantile(first.p99), _quantile(gaps.p99)


def _median(records: Sequence[Record], of: Callable[[Record], int | None]) -> Cell:
    told = [value for record in records if (value := of(record)) is not None]
    middle = quantile(told, 0.5).value
    return Cell(
        text=MISSING if middle is None else digits(middle), tone="missing" if middle is None else "", number=True
    )


def _server(dossier: Dossier, stage: str) -> tuple[Cell, ...]:
    """Highest cache use, running and waiting, and preemptions, over the scrapes taken between the stage's ends."""
    begun, ended = dossier.started(stage), dossier.finished(stage)
    peaks: dict[str, list[float]] = {"kv": [], "running": [], "waiting": [], "preempted": []}
    for table in dossier.metrics.values() if begun and ended else ():
        assert begun is not None
        assert ended is not None
        inside = (table.t_ns >= begun.at_ns) & (table.t_ns <= ended.at_ns)
        series = {
            "kv": table.highest("vllm:kv_cache_usage_perc"),
            "running": table.total("vllm:num_requests_running"),
            "waiting": table.total("vllm:num_requests_waiting"),
            "preempted": table.total("vllm:num_preemptions_total"),
        }
        for name, column in series.items():
            seen = column[inside] if column is not None else np.empty(0)
            seen = seen[~np.isnan(seen)]
            if len(seen):
                peaks[name].append(float(seen[-1] - seen[0] if name == "preempted" else seen.max()))
    return tuple(_peak(name, found) for name, found in peaks.items())


def _peak(name: str, found: Sequence[float]) -> Cell:
    if not found:
        return Cell(text=MISSING, tone="missing", number=True)
    return Cell(text=percent(max(found)) if name == "kv" else digits(max(found)), number=True)


def _quantile(told: Quantile) -> Cell:
    """A latency with its one-sided bounds; without an upper bound the samples are too few to say it."""
    if told.value is None:
        return Cell(text=MISSING, number=True, tone="missing")
    if told.low is None or told.high is None:
        return Cell(text=quantity("ms", told.value), note=f"n {told.n} < {told.needed}", number=True)
    bounds = f"{quantity('ms', told.low)} – {quantity('ms', told.high)}"
    return Cell(text=quantity("ms", told.value), note=bounds, number=True)


def _cached(records: Sequence[Record]) -> Cell:
    told = [(r.cached_tokens, r.prompt_tokens) for r in records if r.cached_tokens is not None and r.prompt_tokens]
    if not told:
        return Cell(text=MISSING, tone="missing", number=True)
    cached, asked = sum(c for c, _ in told), sum(p for _, p in told)
    note = f"{digits(cached)} / {digits(asked)}"
    return Cell(text=percent(min(1.0, cached / asked)), note=note, number=True)

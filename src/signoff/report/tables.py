"""Tables of a gate: what the client saw stage by stage, and findings that one code gives for several subjects."""

import re
from collections.abc import Iterable, Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.words import Bearing, Gate, Outcome, State
from signoff.judge.summaries import Quantile, e2e_ms, inter_token, latency, quantile, rate
from signoff.report.numbers import MISSING, digits, label_of, percent, quantity, with_interval
from signoff.report.parts import Cell, FindingView, Table

Words = Mapping[str, str]
STAGE_ROWS_MAX = 60
_OBSERVED = ("observed", "value", "version", "found", "seen")
_WITNESSES = ("source", "sources", "witness", "witnesses", "agreeing", "independent")


def anchor(finding: Finding) -> str:
    """The id of a finding on the page: its code and subject in letters that an id may hold."""
    return re.sub(r"[^a-z0-9]+", "-", f"f-{finding.code}-{finding.subject}".lower()).strip("-")


def of_gate(gate: Gate, shown: Sequence[FindingView], dossier: Dossier, word: Words) -> tuple[Table, ...]:
    """The tables of one gate, empty ones left out."""
    if gate is Gate.ENVIRONMENT:
        made = [chain(shown, word)]
    elif gate is Gate.CAPACITY:
        made = [stages(dossier, word)]
    elif gate is Gate.PREFIX:
        made = [arms(dossier, word)]
    else:
        made = [kinds(dossier, word)]
    others = [f for f in shown if gate is not Gate.ENVIRONMENT or f.finding.bearing is not Bearing.CHAIN]
    grouped = by_subject(others, word)
    return tuple(table for table in (*made, *grouped) if table.rows)


def chain(shown: Iterable[FindingView], word: Words) -> Table:
    """Every link: what is demanded, what was observed, by which sources, and the outcome."""
    heads = ("link", "demanded", "observed", "sources", "outcome")
    rows = [
        (
            Cell(text=f.title, note=f.finding.subject, href=f"#{f.anchor}"),
            Cell(text=_facts(f.finding.limit) or MISSING),
            _observed(f.finding),
            _witnesses(f.finding),
            Cell(text=f.outcome_word, tone=f.tone),
        )
        for f in shown
        if f.finding.bearing is Bearing.CHAIN
    ]
    return Table(
        id="chain",
        caption=word["table.chain"],
        columns=tuple(word[f"label.{head}"] for head in heads),
        rows=tuple(rows),
    )


def _facts(facts: Mapping[str, Value]) -> str:
    if len(facts) == 1:
        name, value = next(iter(facts.items()))
        return f"{label_of(name)} {quantity(name, value)}"
    return " · ".join(f"{label_of(name)} {quantity(name, value)}" for name, value in facts.items() if value is not None)


def _observed(finding: Finding) -> Cell:
    main = next((name for name in _OBSERVED if finding.values.get(name) is not None), "")
    rest = {n: v for n, v in finding.values.items() if n != main and not n.startswith(_WITNESSES) and v is not None}
    if main:
        return Cell(text=quantity(main, finding.values[main]), note=_facts(rest))
    return Cell(text=_facts(rest) or MISSING, tone="" if rest else "missing")


def _witnesses(finding: Finding) -> Cell:
    told = {name: value for name, value in finding.values.items() if name.startswith(_WITNESSES)}
    if told:
        return Cell(text=" · ".join(quantity(name, value) for name, value in told.items()))
    return Cell(text=digits(len(finding.evidence)) if finding.evidence else MISSING)


def by_subject(shown: Sequence[FindingView], word: Words) -> tuple[Table, ...]:
    """One table for each code that judged more than one subject: a row a subject, a column a value."""
    codes = dict.fromkeys(f.finding.code for f in shown)
    groups = {code: [f for f in shown if f.finding.code == code] for code in codes}
    return tuple(_subjects(code, group, word) for code, group in groups.items() if len(group) > 1)


def _subjects(code: str, group: Sequence[FindingView], word: Words) -> Table:
    values = dict.fromkeys(name for f in group for name in f.finding.values)
    folded = {f"{name}_{end}" for name in values for end in ("low", "high")}
    names = [name for name in values if name not in folded]
    limits = dict.fromkeys(name for f in group for name in f.finding.limit)
    apart = [name for name in limits if name not in values]
    ordered = sorted(group, key=lambda f: _natural(f.finding.subject))
    rows = tuple(
        (
            Cell(text=f.finding.subject or MISSING, href=f"#{f.anchor}"),
            *(_measured(name, f.finding, word) for name in names),
            *(Cell(text=quantity(name, f.finding.limit.get(name)), number=True) for name in apart),
            Cell(text=f.outcome_word, tone=f.tone),
        )
        for f in ordered
    )
    columns = ("", *(label_of(name) for name in names), *(label_of(name) for name in apart), "")
    return Table(id=f"t-{code.replace('.', '-')}", caption=group[0].title, columns=columns, rows=rows)


def _measured(name: str, finding: Finding, word: Words) -> Cell:
    value, limit = finding.values.get(name), finding.limit.get(name)
    note = f"{word['label.limit'].lower()} {quantity(name, limit)}" if limit is not None else ""
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return Cell(
        text=with_interval(name, finding.values), note=note, number=numeric, tone="" if value is not None else "missing"
    )


def _natural(text: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]


def stages(dossier: Dossier, word: Words) -> Table:
    """Every capacity stage: requests, failures and latency as the client saw them."""
    groups = _grouped((r for r in dossier.records if r.gate == Gate.CAPACITY), lambda r: r.stage)
    heads = ("stage", "requests", "ok", "ttft_p50", "ttft_p99", "itl_p99", "e2e_p50", "input", "output")
    rows = tuple(
        (Cell(text=stage.removeprefix("capacity.")), *_counts(rs), *_latencies(rs), *_sizes(rs))
        for stage, rs in list(groups.items())[:STAGE_ROWS_MAX]
    )
    columns = tuple(word[f"label.{head}"] for head in heads)
    return Table(
        id="stages", caption=word["table.capacity"], columns=columns, rows=rows, note=word["table.capacity_note"]
    )


def arms(dossier: Dossier, word: Words) -> Table:
    """Every arm of the prefix gate: latency and the cached share of prompt tokens that the server told."""
    groups = _grouped(
        (r for r in dossier.records if r.gate == Gate.PREFIX), lambda r: r.labels.get("arm", r.stage.split(".")[-1])
    )
    heads = ("arm", "requests", "ok", "ttft_p50", "e2e_p50", "input", "cached")
    rows = []
    for arm, records in groups.items():
        seen = latency(records).ok
        total = latency(records, e2e_ms).ok
        sizes = _sizes(records)
        row = (Cell(text=arm), *_counts(records), _quantile(seen.p50), _quantile(total.p50), sizes[0], _cached(records))
        rows.append(row)
    columns = tuple(word[f"label.{head}"] for head in heads)
    return Table(id="arms", caption=word["table.prefix"], columns=columns, rows=tuple(rows))


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


def _grouped(records: Iterable[Record], key):  # type: ignore[no-untyped-def]
    groups: dict[object, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return groups


def _counts(records: Sequence[Record]) -> tuple[Cell, Cell]:
    good = sum(r.state is State.OK for r in records)
    states = dict.fromkeys(r.state for r in records if r.state is not State.OK)
    told = ", ".join(f"{sum(r.state is s for r in records)} {s.replace('_', ' ')}" for s in states)
    tone = str(Outcome.FAIL) if states else ""
    return Cell(text=digits(len(records)), number=True), Cell(text=digits(good), note=told, tone=tone, number=True)


def _latencies(records: Sequence[Record]) -> tuple[Cell, ...]:
    first, gaps, total = latency(records).ok, inter_token(records).ok, latency(records, e2e_ms).ok
    return _quantile(first.p50), _quantile(first.p99), _quantile(gaps.p99), _quantile(total.p50)


def _quantile(told: Quantile) -> Cell:
    """A latency with its one-sided bounds; without an upper bound the samples are too few to say it."""
    if told.value is None:
        return Cell(text=MISSING, number=True, tone="missing")
    if told.low is None or told.high is None:
        return Cell(text=quantity("ms", told.value), note=f"n {told.n} < {told.needed}", number=True)
    bounds = f"{quantity('ms', told.low)} – {quantity('ms', told.high)}"
    return Cell(text=quantity("ms", told.value), note=bounds, number=True)


def _sizes(records: Sequence[Record]) -> tuple[Cell, Cell]:
    asked = quantile([r.prompt_tokens for r in records if r.prompt_tokens is not None], 0.5).value
    told = quantile([r.completion_tokens for r in records if r.completion_tokens is not None], 0.5).value
    return Cell(text=quantity("tokens", asked), number=True), Cell(text=quantity("tokens", told), number=True)


def _cached(records: Sequence[Record]) -> Cell:
    told = [(r.cached_tokens, r.prompt_tokens) for r in records if r.cached_tokens is not None and r.prompt_tokens]
    if not told:
        return Cell(text=MISSING, tone="missing", number=True)
    cached, asked = sum(c for c, _ in told), sum(p for _, p in told)
    note = f"{digits(cached)} / {digits(asked)}"
    return Cell(text=percent(min(1.0, cached / asked)), note=note, number=True)

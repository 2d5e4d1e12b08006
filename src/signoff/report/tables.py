"""Tables of a gate: what the client saw stage by stage, and findings that one code gives for several subjects."""

import re
from collections.abc import Iterable, Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.words import Bearing, Gate, Outcome, State
from signoff.judge.summaries import Quantile, e2e_ms, inter_token, latency, quantile, rate
from signoff.report.numbers import (
    MISSING,
    base_of,
    bounds_of,
    digits,
    is_empty,
    label_of,
    percent,
    quantity,
    with_interval,
)
from signoff.report.parts import Cell, FindingView, Table

Words = Mapping[str, str]
STAGE_ROWS_MAX = 60
COLUMNS_MAX = 9
"""Columns of values in a table of subjects; the findings below hold all."""
_CELLS = ("streamed", "whole", "alone", "together", "thinking_on", "thinking_off", "choice_auto", "choice_required")
_ABOUT_SOURCES = ("sources_least", "source")


def anchor(finding: Finding) -> str:
    """The id of a finding on the page: its code and subject in letters that an id may hold."""
    return re.sub(r"[^a-z0-9]+", "-", f"f-{finding.code}-{finding.subject}".lower()).strip("-")


def of_gate(gate: Gate, shown: Sequence[FindingView], dossier: Dossier, word: Words) -> tuple[Table, ...]:
    """The tables of one gate, empty ones left out."""
    if gate is Gate.ENVIRONMENT:
        made = [chain(shown, word)]
    elif gate is Gate.CAPACITY:
        made = [stages(dossier, word)]
    elif gate is Gate.PREFIX:  # the gate's own account of its arms is the better one
        made = [] if any(f.finding.code == "prefix.arm.measured" for f in shown) else [arms(dossier, word)]
    else:
        made = [rates(shown, word), kinds(dossier, word)]
    others = [f for f in shown if gate is not Gate.ENVIRONMENT or f.finding.bearing is not Bearing.CHAIN]
    grouped = by_subject(others, word)
    return tuple(table for table in (*made, *grouped) if table.rows)


def chain(shown: Iterable[FindingView], word: Words) -> Table:
    """Every link: what is demanded, what was observed, by which sources, and the outcome."""
    heads = ("link", "demanded", "observed", "sources", "outcome")
    rows = [
        (
            Cell(text=f.title, note=f.finding.subject, href=f"#{f.anchor}"),
            Cell(text=_facts({n: v for n, v in f.finding.limit.items() if n not in _ABOUT_SOURCES}) or MISSING),
            _observed(f.finding),
            _witnesses(f.finding, word),
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
    """What was observed, and below it the reason when it is no pass."""
    seen, reason = finding.values.get("observed"), finding.values.get("reason")
    note = str(reason) if reason and finding.outcome is not Outcome.PASS else ""
    return Cell(text=quantity("observed", seen), note=note, tone="missing" if seen is None else "")


def _witnesses(finding: Finding, word: Words) -> Cell:
    """How many independent sources said it, of how many that are demanded, and what each said."""
    agreeing, least = finding.values.get("sources"), finding.limit.get("sources_least")
    count = word["value.of"].format(k=quantity("n", agreeing), n=quantity("n", least)) if least else ""
    readings, gaps = finding.values.get("readings"), finding.values.get("missing")
    notes = [str(readings) if readings else "", f"{word['label.missing']}: {gaps}" if gaps else ""]
    return Cell(text=count or quantity("n", agreeing), note=" · ".join(note for note in notes if note))


def by_subject(shown: Sequence[FindingView], word: Words) -> tuple[Table, ...]:
    """One table for each code that judged more than one subject: a row a subject, a column a value."""
    codes = dict.fromkeys(f.finding.code for f in shown)
    groups = {code: [f for f in shown if f.finding.code == code] for code in codes}
    return tuple(_subjects(code, group, word) for code, group in groups.items() if len(group) > 1)


def _subjects(code: str, group: Sequence[FindingView], word: Words) -> Table:
    values = {name: value for f in group for name, value in f.finding.values.items()}
    folded = {end for name in values for end in bounds_of(name, values) or ()}
    said = {name for f in group for name, value in f.finding.values.items() if not is_empty(name, value)}
    names = [name for name in values if name in said - folded][:COLUMNS_MAX]
    limits = dict.fromkeys(name for f in group for name in f.finding.limit)
    apart = [name for name in limits if name not in {base_of(n) for n in values}][: COLUMNS_MAX - len(names)]
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
    value, limit = finding.values.get(name), finding.limit.get(base_of(name))
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


def rates(shown: Iterable[FindingView], word: Words) -> Table:
    """Every kind of agent sample: `k` of `n` failed, the rate with its interval and limit, and the same by lane."""
    chosen = [f for f in shown if f.finding.code.endswith(".rate") and f.finding.values.get("attempts")]
    cells = dict.fromkeys(name for f in chosen for name in _CELLS if f.finding.values.get(name) is not None)
    rows = []
    for f in chosen:
        values = f.finding.values
        failed = word["value.of"].format(k=quantity("n", values.get("failed")), n=quantity("n", values["attempts"]))
        limit = f.finding.limit.get("failure_rate")
        note = "" if limit is None else f"{word['label.limit'].lower()} {quantity('failure_rate', limit)}"
        rows.append(
            (
                Cell(text=f.title, href=f"#{f.anchor}"),
                Cell(text=failed, number=True),
                Cell(text=with_interval("failed_share", values), note=note, number=True),
                *(Cell(text=quantity(name, values.get(name)), number=True) for name in cells),
                Cell(text=f.outcome_word, tone=f.tone),
            )
        )
    heads = (word["label.kind"], word["label.failed"], word["label.failure_rate"])
    columns = (*heads, *(label_of(name) for name in cells), word["label.outcome"])
    return Table(
        id="rates", caption=word["table.rates"], columns=columns, rows=tuple(rows), note=word["table.rates_note"]
    )


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

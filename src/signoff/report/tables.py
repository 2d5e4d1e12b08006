"""Tables of a gate's findings: the chain, rates by kind, and codes that judged several subjects."""

import re
from collections.abc import Iterable, Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Gate, Outcome
from signoff.report import record_tables
from signoff.report.numbers import (
    MISSING,
    base_of,
    beside_label,
    bounds_of,
    interval,
    is_empty,
    label_of,
    quantity,
)
from signoff.report.parts import Cell, FindingView, Table

Words = Mapping[str, str]
COLUMNS_MAX = 9
"""Columns of values in a table of subjects; the findings below hold all."""
_CELLS = ("streamed", "whole", "alone", "together", "thinking_on", "thinking_off", "choice_auto", "choice_required")
_ABOUT_READINGS = ("observed", "sources", "readings", "missing", "reason")
_ABOUT_SOURCES = ("sources_least", "source")


def anchor(finding: Finding) -> str:
    """The id of a finding on the page: its code and subject in letters that an id may hold."""
    return re.sub(r"[^a-z0-9]+", "-", f"f-{finding.code}-{finding.subject}".lower()).strip("-")


def of_gate(gate: Gate, shown: Sequence[FindingView], dossier: Dossier, word: Words) -> tuple[Table, ...]:
    """The tables of one gate, empty ones left out."""
    if gate is Gate.ENVIRONMENT:
        made = [chain(shown, word)]
    elif gate is Gate.CAPACITY:
        made = [record_tables.stages(dossier, word)]
    elif gate is Gate.PREFIX:  # the gate's own account of its arms is the better one
        made = (
            [] if any(f.finding.code == "prefix.arm.measured" for f in shown) else [record_tables.arms(dossier, word)]
        )
    else:
        judged = rates(shown, word)
        made = [judged if judged.rows else record_tables.kinds(dossier, word)]
    grouped = () if gate is Gate.ENVIRONMENT else by_subject(shown, word)
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
    rest = {name: v for name, v in finding.values.items() if name not in _ABOUT_READINGS and not is_empty(name, v)}
    text = quantity("observed", seen) if seen is not None else _facts(rest) or MISSING
    return Cell(text=text, note=note, tone="missing" if text == MISSING else "")


def _witnesses(finding: Finding, word: Words) -> Cell:
    """How many independent sources said it, of how many that are demanded, and what each said."""
    agreeing, least = finding.values.get("sources"), finding.limit.get("sources_least")
    count = word["value.sources"].format(k=quantity("n", agreeing), n=quantity("n", least)) if least else ""
    readings, gaps = finding.values.get("readings"), finding.values.get("missing")
    notes = str(readings).split("; ") if readings else []
    notes += [f"{word['label.missing']}: {gaps}"] if gaps and gaps != "nothing" else []
    return Cell(text=count or quantity("n", agreeing), note="\n".join(notes))


def by_subject(shown: Sequence[FindingView], word: Words) -> tuple[Table, ...]:
    """One table for each code that judged more than one subject: a row a subject, a column a value."""
    codes = dict.fromkeys(f.finding.code for f in shown)
    groups = {code: [f for f in shown if f.finding.code == code] for code in codes}
    largest_first = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(_subjects(code, group, word) for code, group in largest_first if len(group) > 1)


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
            Cell(text=f.finding.subject.replace("_", " ") or word["value.all"], href=f"#{f.anchor}"),
            *(_measured(name, f.finding, word) for name in names),
            *(Cell(text=quantity(name, f.finding.limit.get(name)), number=True) for name in apart),
            Cell(text=f.outcome_word, tone=f.tone),
        )
        for f in ordered
    )
    heads = (label_of(name) for name in (*names, *apart))
    columns = (word["label.what"], *heads, word["label.outcome"])
    return Table(id=f"t-{code.replace('.', '-')}", caption=group[0].title, columns=columns, rows=rows)


def _measured(name: str, finding: Finding, word: Words) -> Cell:
    value, limit = finding.values.get(name), finding.limit.get(base_of(name))
    told = f"{word['label.limit'].lower()} {quantity(name, limit)}" if limit is not None else ""
    note = " · ".join(part for part in (interval(name, finding.values), told) if part)
    numeric = not isinstance(value, str | bool)
    return Cell(text=beside_label(name, value), note=note, number=numeric, tone="" if value is not None else "missing")


def _natural(text: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", text)
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in parts if part]


def rates(shown: Iterable[FindingView], word: Words) -> Table:
    """Every kind of agent sample: `k` of `n` failed, the rate with its interval and limit, and the same by lane."""
    chosen = [f for f in shown if f.finding.code.endswith(".rate") and f.finding.values.get("attempts")]
    cells = dict.fromkeys(name for f in chosen for name in _CELLS if f.finding.values.get(name) is not None)
    rows = []
    for f in chosen:
        values = f.finding.values
        failed = word["value.of"].format(k=quantity("n", values.get("failed")), n=quantity("n", values["attempts"]))
        limit = f.finding.limit.get("failure_rate")
        bound = "" if limit is None else f"{word['label.limit'].lower()} {quantity('failure_rate', limit)}"
        note = " · ".join(part for part in (interval("failed_share", values), bound) if part)
        rows.append(
            (
                Cell(text=f.title, href=f"#{f.anchor}"),
                Cell(text=failed, number=True),
                Cell(text=quantity("failed_share", values.get("failed_share")), note=note, number=True),
                *(Cell(text=quantity(name, values.get(name)), number=True) for name in cells),
                Cell(text=f.outcome_word, tone=f.tone),
            )
        )
    heads = (word["label.kind"], word["label.failed"], word["label.failure_rate"])
    columns = (*heads, *(label_of(name) for name in cells), word["label.outcome"])
    return Table(
        id="rates", caption=word["table.rates"], columns=columns, rows=tuple(rows), note=word["table.rates_note"]
    )

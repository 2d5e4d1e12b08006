"""Evidence on the page: what was observed, what could not be, and raw examples, all bounded."""

from collections.abc import Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence
from signoff.core.record import Record
from signoff.core.words import Gate, Outcome, State
from signoff.report.numbers import MISSING, instant, label_of, quantity, short_digest, size
from signoff.report.parts import Cell, Example, Table

Words = Mapping[str, str]
ROWS_MAX = 200
EXAMPLE_CHARACTERS_MAX = 4000
EXAMPLES_MAX = 10


def citation(reference: str) -> Cell:
    """A reference of a finding, shortened for the eye; the whole is its title."""
    if reference.startswith("sha256:"):
        digest, _, line = reference.partition("#")
        text = f"{digest[:19]}…" + (f" {line}" if line else "")
        return Cell(text=text, title=reference)
    return Cell(text=reference if len(reference) <= 72 else f"{reference[:71]}…", title=reference)


def span(dossier: Dossier) -> tuple[str, str] | None:
    """The first and last instant that evidence speaks of."""
    instants = [e.taken_ns for e in dossier.evidence] + [r.sent_ns for r in dossier.records]
    instants += [r.end_ns for r in dossier.records]
    return (instant(min(instants)), instant(max(instants))) if instants else None


def observed(dossier: Dossier, word: Words) -> Table:
    """Observed evidence, oldest first; of many of one kind, place and stage the first stands here."""
    seen = [e for e in dossier.evidence if e.digest]
    groups: dict[tuple[str, str, str], list[Evidence]] = {}
    for evidence in seen:
        groups.setdefault((evidence.kind, evidence.where, evidence.stage), []).append(evidence)
    rows = [_observation(group, word) for group in list(groups.values())[:ROWS_MAX]]
    heads = ("evidence", "source", "where", "time", "size", "digest")
    columns = tuple(word[f"label.{head}"] for head in heads)
    left = sum(len(group) for group in list(groups.values())[ROWS_MAX:])
    note = word["value.more"].format(n=f"{left:,}") if left else ""
    return Table(id="observed", caption=word["table.evidence"], columns=columns, rows=tuple(rows), note=note)


def _observation(group: list[Evidence], word: Words) -> tuple[Cell, ...]:
    """The first evidence of one kind, place and stage; a reader wants every kind, not a thousand exchanges."""
    first, more = group[0], len(group) - 1
    return (
        Cell(text=first.kind.replace("_", " "), note=_conditions(first)),
        Cell(text=first.source),
        Cell(text=first.where, note=first.stage),
        Cell(text=instant(first.taken_ns), fixed=True),
        Cell(text=size(first.bytes), number=True),
        Cell(
            text=short_digest(first.digest),
            title=first.digest,
            note=word["value.more"].format(n=f"{more:,}") if more else "",
            fixed=True,
        ),
    )


def cited(references: Sequence[str], word: Words, at_most: int) -> tuple[Cell, ...]:
    """The first citations, and how many more there are."""
    told = tuple(citation(reference) for reference in references[:at_most])
    more = len(references) - at_most
    return (*told, Cell(text=word["value.more"].format(n=more))) if more > 0 else told


def missing(dossier: Dossier, word: Words) -> Table:
    """What could not be observed, and why."""
    lost = [e for e in dossier.evidence if not e.digest]
    rows = tuple(
        (Cell(text=e.kind.replace("_", " ")), Cell(text=e.source), Cell(text=e.where), Cell(text=e.missing or MISSING))
        for e in lost[:ROWS_MAX]
    )
    heads = ("evidence", "source", "where", "missing")
    left = len(lost) - len(rows)
    return Table(
        id="missing",
        caption=word["label.missing"],
        columns=tuple(word[f"label.{head}"] for head in heads),
        rows=rows,
        note=word["value.more"].format(n=f"{left:,}") if left > 0 else "",
    )


def _conditions(evidence: Evidence) -> str:
    return " · ".join(f"{label_of(name)} {quantity(name, value)}" for name, value in evidence.conditions.items())


def examples(dossier: Dossier, word: Words) -> tuple[Example, ...]:
    """One kept exchange a kind of agent sample, a failed one first."""
    kept: dict[str, Record] = {}
    for record in dossier.records:
        if record.gate != Gate.AGENT or not (record.request_digest or record.response_digest):
            continue
        known = kept.get(record.stage)
        if known is None or (known.state is State.OK and record.state is not State.OK):
            kept[record.stage] = record
    return tuple(_example(record, dossier, word) for record in list(kept.values())[:EXAMPLES_MAX])


def _example(record: Record, dossier: Dossier, word: Words) -> Example:
    good = record.state is State.OK
    kind = record.stage.removeprefix("agent.").replace("_", " ")
    labels = ", ".join(f"{name} {value}" for name, value in sorted(record.labels.items()))
    return Example(
        title=f"{kind}: {record.state.replace('_', ' ')}",
        tone=str(Outcome.PASS if good else Outcome.FAIL),
        request=_bounded(record.request_digest, dossier, word),
        response=_bounded(record.response_digest, dossier, word),
        note=" · ".join(part for part in (record.id, labels, record.error[:200]) if part),
    )


def _bounded(digest: str, dossier: Dossier, word: Words) -> str:
    if not digest:
        return word["value.not_kept"]
    try:
        raw = dossier.blob(digest)
    except KeyError:
        return word["value.not_kept"]
    text = raw[: EXAMPLE_CHARACTERS_MAX * 4].decode("utf-8", "replace")
    if len(text) <= EXAMPLE_CHARACTERS_MAX:
        return text
    return f"{text[:EXAMPLE_CHARACTERS_MAX]}\n… {word['value.cut'].format(n=f'{EXAMPLE_CHARACTERS_MAX:,}')}"

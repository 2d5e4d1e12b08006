"""The parts a view is made of: cells, tables, findings; text and tone only."""

from msgspec import Struct

from signoff.core.finding import Finding
from signoff.core.words import Gate, Outcome


class Cell(Struct, frozen=True, kw_only=True):
    text: str
    note: str = ""
    """Said below, smaller: an interval, a limit, a source."""
    tone: str = ""
    """An outcome word, `warn`, `missing`, or nothing."""
    href: str = ""
    """An anchor of the page, with `#`; never an address that the service gave."""
    title: str = ""
    """The whole of what `text` shortens."""
    number: bool = False
    fixed: bool = False
    """Not to be broken over lines: an instant, a digest."""


class Row(Struct, frozen=True, kw_only=True):
    """A labelled fact."""

    key: str
    label: str
    text: str
    note: str = ""
    tone: str = ""


class Table(Struct, frozen=True, kw_only=True):
    """`rows` has shape (rows, columns)."""

    id: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""


class FindingView(Struct, frozen=True, kw_only=True):
    finding: Finding
    anchor: str
    title: str
    outcome: Outcome
    tone: str
    outcome_word: str
    severity: str
    sentence: str
    english: str
    next_step: str
    english_step: str
    cause: str
    phase: str
    rows: tuple[Row, ...]
    evidence: tuple[Cell, ...]


class ReasonView(Struct, frozen=True, kw_only=True):
    code: str
    title: str
    anchor: str
    outcome: Outcome
    tone: str
    outcome_word: str
    severity: str
    message: str
    next_step: str
    cause: str
    phase: str
    evidence: tuple[Cell, ...]


class Example(Struct, frozen=True, kw_only=True):
    """A raw exchange, bounded; untrusted text."""

    title: str
    tone: str
    request: str
    response: str
    note: str = ""


class GateView(Struct, frozen=True, kw_only=True):
    gate: Gate
    title: str
    question: str
    outcome: Outcome
    outcome_word: str
    summary: str
    findings: tuple[FindingView, ...]
    """Those that need eyes first; quiet passes are apart, in `passed`."""
    passed: tuple[FindingView, ...]
    passed_summary: str
    tables: tuple[Table, ...]
    examples: tuple[Example, ...] = ()

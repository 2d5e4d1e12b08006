"""Clue: what one place in one file speaks for, and how loudly. The case weighs them against each other."""

from msgspec import Struct

from signoff.core.words import Cause, Phase, Severity, VerdictName

DECIDES = 20
"""A clue below this weight is said, and never decides by itself."""


class Clue(Struct, frozen=True, kw_only=True):
    """`weight` compares clues: 90 and more for what a file states outright, 60 to 89 for what follows from figures,
    20 to 59 for what is likely, below for what is only worth saying."""

    kind: str
    """Key of the remedy, and one word for the summary's readers."""
    cause: Cause = Cause.NONE
    phase: Phase = Phase.NA
    verdict: VerdictName = VerdictName.REWORK
    weight: int = 0
    severity: Severity = Severity.INFO
    file: str = ""
    line: int = 0
    """From 1; 0 when the whole file is meant."""
    text: str = ""
    why: str = ""


def failing(
    kind: str,
    cause: Cause,
    phase: Phase,
    verdict: VerdictName,
    weight: int,
    file: str,
    line: int,
    text: str,
    why: str,
) -> Clue:
    """A clue of something wrong."""
    return Clue(
        kind=kind,
        cause=cause,
        phase=phase,
        verdict=verdict,
        weight=weight,
        severity=Severity.FAIL if weight >= DECIDES else Severity.WARN,
        file=file,
        line=line,
        text=text[:500],
        why=why,
    )


def harmless(kind: str, phase: Phase, file: str, line: int, text: str, why: str) -> Clue:
    """A clue that what is seen is in order."""
    return Clue(kind=kind, phase=phase, verdict=VerdictName.GO, file=file, line=line, text=text[:500], why=why)


def line_with(text: str, part: str) -> tuple[int, str]:
    """Number and text of the first line that holds `part`; (0, "") when none does."""
    at = text.find(part) if part else -1
    if at < 0:
        return 0, ""
    left, right = text.rfind("\n", 0, at) + 1, text.find("\n", at)
    row = text[left : right if right >= 0 else len(text)]
    shown = row if len(row) <= 500 else row[max(0, at - left - 200) : at - left + 300]
    return text.count("\n", 0, left) + 1, shown.strip()

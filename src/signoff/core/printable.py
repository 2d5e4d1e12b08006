"""What others wrote, made safe to show: a name or a log line must not steer a terminal or turn its text around."""

import unicodedata

REPLACED = "?"


def printable(text: str, *, newlines: bool = False) -> str:
    """`text` with every control, format (bidirectional marks among them), private, unassigned and surrogate character
    as `?`. A tab becomes a space, spaces of every width stay, and newlines stay only with `newlines`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _shown(c, newlines) for c in text)


def _shown(c: str, newlines: bool) -> str:
    if c == "\n" and newlines:
        return c
    if c == "\t":
        return " "
    return c if unicodedata.category(c) == "Zs" else REPLACED

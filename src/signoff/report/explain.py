"""One finding code in words: what was checked, why it matters, how it was measured, what would change it."""

import difflib

from signoff.core.printable import printable
from signoff.errors import SignoffError
from signoff.judge.catalogue import ALL, CATALOGUE
from signoff.judge.catalogue.entry import Entry
from signoff.report.words import words

NEAREST_MAX, CODE_CHARS_MAX = 4, 100


def explain(code: str, lang: str = "en") -> str:
    """The catalogue's page of `code`; SignoffError that names the nearest codes when there is none."""
    if code not in CATALOGUE:
        near = nearest(code)
        hint = f"Nearest: {', '.join(near)}. All stand in docs/findings.md and, beside their findings, in every report."
        raise SignoffError(f"`{printable(code[:CODE_CHARS_MAX])}` is no finding code", hint)
    entry, word = CATALOGUE[code], words(lang)
    parts = [f"{entry.code}: {entry.title}"]
    for label, text in sections(entry, word):
        parts += ["", label, f"  {text}"]
    told = [f"  {word[f'outcome.{outcome}']}: {text}" for outcome, text in entry.sentences.items()]
    parts += ["", word["label.sentences"], *told]
    steps = [f"  {word[f'outcome.{outcome}']}: {text}" for outcome, text in entry.next_step.items()]
    return "\n".join([*parts, *(["", word["label.next_step"], *steps] if steps else [])])


def sections(entry: Entry, word) -> tuple[tuple[str, str], ...]:  # type: ignore[no-untyped-def]
    """The four questions with their answers, in order."""
    told = (("checked", entry.checked), ("matters", entry.matters), ("how", entry.measured), ("changes", entry.changes))
    return tuple((word[f"label.{key}"], text) for key, text in told)


def nearest(code: str) -> list[str]:
    """Codes that hold the words of `code` or look like it, best first; never none."""
    codes = list(CATALOGUE)
    close = difflib.get_close_matches(code[:CODE_CHARS_MAX], codes, n=NEAREST_MAX, cutoff=0.0)
    held = [known for known in codes if code and code in known]
    return list(dict.fromkeys([*held, *close]))[:NEAREST_MAX]


def findings_page() -> str:
    """`docs/findings.md`: every code of the catalogue, in Markdown."""
    word = words("en")
    lines = [
        "# Findings",
        "",
        "Every code that a report can hold: what was checked, why it matters, how it was measured and what would "
        "change it. `signoff explain CODE` prints the same. This page is written from the catalogue; "
        "a test keeps it equal to it.",
    ]
    gate = ""
    for entry in sorted(ALL, key=lambda e: (e.code.split(".")[0], e.code)):
        first = entry.code.split(".")[0]
        if first != gate:
            gate = first
            lines += ["", f"## {word[f'gate.{gate}'] if f'gate.{gate}' in word else gate.title()}"]
        lines += ["", f"### `{entry.code}`", "", f"{entry.title}.", ""]
        lines += [f"- **{label}:** {text}" for label, text in sections(entry, word)]
        lines += [
            f"- **{word[f'outcome.{o}']}:** {text.replace('{', '‹').replace('}', '›')}"
            for o, text in entry.sentences.items()
        ]
        lines += [
            f"- **{word['label.next_step']} ({word[f'outcome.{o}']}):** {text.replace('{', '‹').replace('}', '›')}"
            for o, text in entry.next_step.items()
        ]
    return "\n".join(lines) + "\n"

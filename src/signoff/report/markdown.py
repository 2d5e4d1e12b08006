"""The report as Markdown: the page's content, compact."""

import re
from collections.abc import Iterable

from signoff.core.words import Outcome
from signoff.report.parts import FindingView, Row, Table
from signoff.report.view import View

MARKS = {"pass": "✓", "fail": "✗", "inconclusive": "?", "not_run": "–", "not_applicable": "∅", "warn": "!"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!$&])")


def safe(text: str) -> str:
    """`text` as inline Markdown that means itself: one line, no markup, no HTML."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split(" ")).replace("\r", " ").replace("\n", " "))


def markdown(view: View) -> str:
    """Verdict first, then reasons, gates, checklist, conditions, evidence."""
    word = view.words
    lines = [f"> **{safe(banner.text)}**" for banner in view.banners]
    scope = f" · {safe(view.scope)}" if view.scope else ""
    lines += ["", f"# {safe(view.word)}{scope}: {safe(view.plan_name)}", "", safe(view.means), ""]
    lines += [f"- **{word['label.reason']}:** {safe(view.first_reason)}"]
    lines += [f"- **{word['label.next_step']}:** {safe(view.next_step)}", "", *_facts(view.subject), ""]
    lines += [*_facts(view.accepted), "", *_gates(view)]
    if view.reasons:
        lines += ["", f"## {word['section.reasons']}", ""]
        for number, reason in enumerate(view.reasons, 1):
            lines.append(f"{number}. {MARKS[reason.tone]} {safe(reason.message)} (`{reason.code}`)")
            if reason.next_step:
                lines.append(f"   - {word['label.next_step']}: {safe(reason.next_step)}")
    if view.unrun:
        lines += ["", view.unrun_summary + ":", "", *(f"- {safe(r.message)} (`{r.code}`)" for r in view.unrun)]
    if view.conditions:
        lines += ["", f"## {word['section.conditions']}", ""]
        lines += [
            f"- {safe(r.label)}: {safe(r.text)}" + (f" ({safe(r.note)})" if r.note else "") for r in view.conditions
        ]
    if view.would_change:
        lines += ["", f"## {word['section.would_change']}", "", *(f"- {safe(text)}" for text in view.would_change)]
    for gate in view.gates:
        lines += ["", f"## {gate.title}: {gate.outcome_word}", "", *_findings((*gate.findings, *gate.passed))]
        for table in gate.tables:
            lines += ["", *_table(table)]
    lines += ["", f"## {word['gate.run']}", "", *_findings(view.run)]
    lines += ["", f"## {word['section.checklist']}", "", *_table(view.checklist)]
    lines += ["", f"## {word['section.evidence']}", "", *_table(view.evidence)]
    if view.missing.rows:
        lines += ["", *_table(view.missing)]
    lines += ["", f"## {word['section.about']}", "", *_facts(view.about)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _facts(rows: Iterable[Row]) -> list[str]:
    return [f"- {safe(row.label)}: {safe(row.text)}" for row in rows]


def _gates(view: View) -> list[str]:
    word = view.words
    lines = [f"| {word['section.gates']} | {word['label.outcome']} | |", "|---|---|---|"]
    return lines + [
        f"| {gate.title} | {MARKS[gate.outcome]} {gate.outcome_word} | {safe(gate.summary)} |" for gate in view.gates
    ]


def _findings(findings: Iterable[FindingView]) -> list[str]:
    lines = []
    for shown in findings:
        subject = f" ({safe(shown.finding.subject)})" if shown.finding.subject else ""
        lines.append(f"- {MARKS[shown.tone]} **{safe(shown.title)}**{subject}: {safe(shown.sentence)}")
        if shown.next_step and shown.outcome is not Outcome.PASS:
            lines.append(f"  - {safe(shown.next_step)}")
    return lines


def _table(table: Table) -> list[str]:
    lines = [f"**{safe(table.caption)}**", "", "| " + " | ".join(safe(c) for c in table.columns) + " |"]
    lines.append("|" + "---|" * len(table.columns))
    for row in table.rows:
        cells = [safe(cell.text) + (f" ({safe(cell.note)})" if cell.note else "") for cell in row]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, *(["", safe(table.note)] if table.note else [])]

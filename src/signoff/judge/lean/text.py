"""A diagnosis as plain text for a terminal: verdict first, then why, what to do, and the lines that say so."""

from signoff.core.printable import printable
from signoff.core.words import Severity
from signoff.judge.lean.diagnosis import Diagnosis, DiagnosisFinding

SHOWN_MAX = 20
_LABELS = {Severity.FAIL: "FAIL", Severity.WARN: "warn", Severity.INFO: "info"}


def _row(finding: DiagnosisFinding) -> list[str]:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    rows = [f"  {_LABELS[finding.severity]}  {place}  {finding.why}"]
    if finding.text:
        rows.append(f"        {finding.text[:160]}")
    return rows


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """The whole text, ending with a line end."""
    rows = [
        f"Verdict: {diagnosis.verdict}   cause: {diagnosis.cause}   phase: {diagnosis.phase}",
        diagnosis.summary,
        f"Do: {diagnosis.remedy}",
    ]
    if diagnosis.findings:
        rows.append("")
    for finding in diagnosis.findings[:SHOWN_MAX]:
        rows += _row(finding)
    if len(diagnosis.findings) > SHOWN_MAX:
        rows.append(f"  and {len(diagnosis.findings) - SHOWN_MAX} more; --json has all")
    return "\n".join(printable(row) for row in rows) + "\n"

"""A diagnosis as plain text for a terminal: verdict first, then why, what to do, and the lines that say so."""

from signoff.core.words import Severity
from signoff.judge.lean.diagnosis import Diagnosis, DiagnosisFinding

SHOWN_MAX = 20
_LABELS = {Severity.FAIL: "FAIL", Severity.WARN: "warn", Severity.INFO: "info"}


def _printable(text: str) -> str:
    """Control characters of untrusted lines would act upon the terminal."""
    return "".join(c if c.isprintable() else " " for c in text)


def _row(finding: DiagnosisFinding) -> list[str]:
    place = f"{finding.file}:{finding.line}" if finding.line else finding.file
    rows = [f"  {_LABELS[finding.severity]}  {_printable(place)}  {finding.why}"]
    if finding.text:
        rows.append(f"        {_printable(finding.text[:160])}")
    return rows


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """The whole text, ending with a line end."""
    rows = [
        f"Verdict: {diagnosis.verdict}   cause: {diagnosis.cause}   phase: {diagnosis.phase}",
        _printable(diagnosis.summary),
        f"Do: {diagnosis.remedy}",
    ]
    if diagnosis.findings:
        rows.append("")
    for finding in diagnosis.findings[:SHOWN_MAX]:
        rows += _row(finding)
    if len(diagnosis.findings) > SHOWN_MAX:
        rows.append(f"  and {len(diagnosis.findings) - SHOWN_MAX} more; --json has all")
    return "\n".join(rows) + "\n"

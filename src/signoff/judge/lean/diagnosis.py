"""Diagnosis: the judgement of files alone, as `signoff diagnose --json` prints it."""

from msgspec import Struct

from signoff.core.words import Cause, Phase, Severity, VerdictName


class DiagnosisFinding(Struct, frozen=True, kw_only=True):
    file: str
    line: int
    """From 1; 0 when the whole file is meant."""
    text: str
    severity: Severity
    cause: Cause
    why: str


class Diagnosis(Struct, frozen=True, kw_only=True):
    cause: Cause
    phase: Phase
    verdict: VerdictName
    summary: str
    remedy: str
    findings: tuple[DiagnosisFinding, ...] = ()

"""Verdict: what `verdict.json` holds; its keys are fixed."""

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.words import Cause, Outcome, Phase, Scope, Severity, VerdictName

RULES = "signoff-rules/1"
EXIT_CODES = {
    VerdictName.GO: 0,
    VerdictName.LIMITED: 10,
    VerdictName.REWORK: 11,
    VerdictName.SCALE: 12,
    VerdictName.INCOMPLETE: 13,
}


class Subject(Struct, frozen=True, kw_only=True):
    """What the verdict is about; it holds for nothing else. `None`: could not be established."""

    model: str | None = None
    image_digest: str | None = None
    driver: str | None = None
    gpus: str | None = None
    layout: str | None = None
    launch_digest: str | None = None
    platform: str | None = None
    simulated: bool = False


class Accepted(Struct, frozen=True, kw_only=True):
    """Loads in concurrent requests, window in tokens. `held`: the highest load that held."""

    target: int | None = None
    floor: int | None = None
    held: int | None = None
    window: int | None = None


class Gates(Struct, frozen=True, kw_only=True):
    environment: Outcome
    capacity: Outcome
    prefix: Outcome
    agent: Outcome


class Reason(Struct, frozen=True, kw_only=True):
    """One finding that bears on the verdict, in the order of the table."""

    code: str
    outcome: Outcome
    severity: Severity
    cause: Cause
    phase: Phase
    message: str
    evidence: tuple[str, ...] = ()


class ChecklistItem(Struct, frozen=True, kw_only=True):
    item: int
    outcome: Outcome
    condition: str
    result: str
    time: str | None
    """ISO 8601 UTC, of the newest evidence behind it."""
    reviewer: str | None
    evidence: tuple[str, ...] = ()


class Verdict(Struct, frozen=True, kw_only=True):
    schema: str = "signoff/verdict/1"
    rules: str = RULES
    verdict: VerdictName
    scope: Scope | None = None
    subject: Subject
    accepted: Accepted
    gates: Gates
    reasons: tuple[Reason, ...]
    checklist: tuple[ChecklistItem, ...]
    conditions: tuple[dict[str, Value], ...] = ()
    would_change: tuple[str, ...] = ()
    valid_until: str | None = None
    plan_digest: str
    evidence_digest: str

"""What every finding of this gate has in common, and what stands when there is nothing to look at."""

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity

ITEMS: dict[str, tuple[int, ...]] = {
    "prefix.caching.on": (9,),
    "prefix.unit.known": (9,),
    "prefix.hits.expected": (9, 10),
    "prefix.control.zero": (9,),
    "prefix.control.valid": (9,),
    "prefix.gateway.hits": (9,),
    "prefix.channels.agree": (10,),
    "prefix.latency.effect": (9,),
    "prefix.quiet": (9, 10),
    "prefix.output.same": (9,),
}
"""Every code that a run of this gate always yields, with the checklist items it speaks to."""

BEARINGS = {
    "prefix.caching.on": Bearing.LAUNCH,
    "prefix.hits.expected": Bearing.HITS,
    "prefix.gateway.hits": Bearing.HITS,
    "prefix.control.zero": Bearing.SERVICE,
    "prefix.output.same": Bearing.SERVICE,
    "prefix.arm.measured": Bearing.NOTE,
}
"""The others bear on the evidence."""


def made(
    code: str,
    outcome: Outcome,
    values: dict[str, Value] | None = None,
    *,
    limit: dict[str, Value] | None = None,
    evidence: tuple[str, ...] = (),
    subject: str = "",
    required: bool = True,
    severity: Severity = Severity.FAIL,
    bearing: Bearing | None = None,
    cause: Cause | None = None,
) -> Finding:
    """A finding of this gate; a failing one is laid to the prefix cache unless another `cause` is given."""
    return Finding(
        code=code,
        gate=Gate.PREFIX,
        outcome=outcome,
        bearing=bearing or BEARINGS.get(code, Bearing.EVIDENCE),
        severity=severity,
        required=required,
        subject=subject,
        cause=cause or (Cause.PREFIX_CACHE if outcome is Outcome.FAIL else Cause.NONE),
        phase=Phase.PREFIX,
        values=values or {},
        limit=limit or {},
        evidence=evidence,
        items=ITEMS.get(code, ()),
    )


def nothing(outcome: Outcome) -> list[Finding]:
    """Every code once: `not_run`, or `not_applicable`."""
    return [made(code, outcome) for code in ITEMS]


def caching_needed(dossier: Dossier) -> bool:
    """Whether plan or profile counts on the prefix cache."""
    return dossier.profile.cache.caching_required or bool(dossier.plan.load.reuse_share)


def rounds_needed(dossier: Dossier) -> int:
    """Rounds asked for; the plan may ask for more than the profile's floor, never for less."""
    return max(dossier.plan.prefix.rounds or 0, dossier.profile.floors.prefix_rounds)

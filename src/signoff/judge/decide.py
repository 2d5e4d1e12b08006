"""The verdict, decided once: the first row that holds.

1  a link proved wrong, a contradicting or illegal launch, broken host or GPU     rework
2  dies, hangs, leaks, degrades or answers wrongly, resources not exhausted       rework (software)
3  critical calls fail at every load, an effect twice, the floor lost to those    rework (interface, launch)
4  a link not proved                                                              incomplete
5  no legal layout; no load from the floor up held, saturated; the cap fell too   scale
6  required evidence missing, or a failure without a located cause                incomplete
7  a load from the floor up held but not the target; minor things open            limited
8  every required item passes                                                     go
9  nothing above                                                                  incomplete: a defect of ours
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Outcome, Scope, VerdictName

LOST_TO = {
    Cause.PREFIX_CACHE: Scope.LAUNCH,
    Cause.TOPOLOGY: Scope.LAUNCH,
    Cause.GATEWAY: Scope.INTERFACE,
    Cause.CLIENT: Scope.INTERFACE,
    Cause.MODEL_PARSER: Scope.INTERFACE,
}
"""A floor that failed without a saturated resource, by cause: lost hits or a launch value, retries or a cut."""

SCOPES = {
    Bearing.CHAIN: Scope.ENVIRONMENT,
    Bearing.LAUNCH: Scope.LAUNCH,
    Bearing.HOST: Scope.HARDWARE,
    Bearing.SERVICE: Scope.SOFTWARE,
    Bearing.CALLS: Scope.INTERFACE,
    Bearing.EFFECT: Scope.INTERFACE,
}


class Decision(Struct, frozen=True, kw_only=True):
    row: int
    verdict: VerdictName
    scope: Scope | None
    deciding: tuple[Finding, ...]
    """The findings that made the row hold, in their order; empty for rows 8 and 9."""


def fails(finding: Finding, *bearings: Bearing) -> bool:
    return finding.outcome is Outcome.FAIL and finding.bearing in bearings


def is_open(finding: Finding) -> bool:
    """Required and not settled either way."""
    return (
        finding.required
        and finding.bearing is not Bearing.NOTE
        and finding.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_RUN)
    )


def _lost_floor(finding: Finding) -> bool:
    """Lost to something by its cause, or because the finding itself says what must be reworked."""
    said = finding.cause in LOST_TO or finding.scope is not None
    return fails(finding, Bearing.FLOOR) and not finding.resource and said


def _saturated(finding: Finding) -> bool:
    return fails(finding, Bearing.LAYOUT, Bearing.CAP) or (fails(finding, Bearing.FLOOR) and bool(finding.resource))


def _unlocated(finding: Finding) -> bool:
    return fails(finding, Bearing.FLOOR) and not finding.resource and not _lost_floor(finding)


def _row_1(finding: Finding) -> bool:
    return fails(finding, Bearing.CHAIN, Bearing.LAUNCH, Bearing.HOST)


def _row_2(finding: Finding) -> bool:
    return fails(finding, Bearing.SERVICE)


def _row_3(finding: Finding) -> bool:
    return fails(finding, Bearing.CALLS, Bearing.EFFECT) or _lost_floor(finding)


def _row_4(finding: Finding) -> bool:
    return finding.bearing is Bearing.CHAIN and is_open(finding)


def _row_6(finding: Finding) -> bool:
    return is_open(finding) or fails(finding, Bearing.EVIDENCE) or _unlocated(finding)


def _row_7(finding: Finding) -> bool:
    return fails(finding, Bearing.TARGET, Bearing.HITS, Bearing.MINOR)


ROWS: tuple[tuple[int, VerdictName, Callable[[Finding], bool]], ...] = (
    (1, VerdictName.REWORK, _row_1),
    (2, VerdictName.REWORK, _row_2),
    (3, VerdictName.REWORK, _row_3),
    (4, VerdictName.INCOMPLETE, _row_4),
    (5, VerdictName.SCALE, _saturated),
    (6, VerdictName.INCOMPLETE, _row_6),
    (7, VerdictName.LIMITED, _row_7),
)


def row_of(finding: Finding) -> int:
    """The first row that this finding makes hold; 8 when it passes or is not weighed."""
    return next((row for row, _, holds in ROWS if holds(finding)), 8)


def scope_of(finding: Finding) -> Scope | None:
    """What a rework by this finding must rework."""
    return finding.scope or SCOPES.get(finding.bearing) or LOST_TO.get(finding.cause)


def decide(findings: Sequence[Finding]) -> Decision:
    """The verdict of settled findings. An empty sequence is no evidence: `incomplete`.

    A layout that no arithmetic can save (row 5a) needs only proved GPU and checkpoint facts, so an open chain (row 4)
    does not hide it."""
    if not findings:
        return Decision(row=6, verdict=VerdictName.INCOMPLETE, scope=None, deciding=())
    impossible = tuple(f for f in findings if fails(f, Bearing.LAYOUT))
    for row, verdict, holds in ROWS:
        deciding = tuple(f for f in findings if holds(f))
        if row == 4 and deciding and impossible:
            return Decision(row=5, verdict=VerdictName.SCALE, scope=None, deciding=impossible)
        if deciding:
            scope = scope_of(deciding[0]) if verdict is VerdictName.REWORK else None
            return Decision(row=row, verdict=verdict, scope=scope, deciding=deciding)
    if all(_quiet(f) for f in findings):
        return Decision(row=8, verdict=VerdictName.GO, scope=None, deciding=())
    return Decision(row=9, verdict=VerdictName.INCOMPLETE, scope=None, deciding=())


def _quiet(finding: Finding) -> bool:
    """Does not stand against `go`."""
    return (
        finding.outcome in (Outcome.PASS, Outcome.NOT_APPLICABLE)
        or finding.bearing is Bearing.NOTE
        or (not finding.required and finding.outcome is not Outcome.FAIL)
    )

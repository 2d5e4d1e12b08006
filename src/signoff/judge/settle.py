"""Settling: what happened to the run as a whole can take a finding's certainty away, never give it any.

Measurements in a window with other traffic prove neither way. A client that was itself late is settled load by load in
the capacity gate, which knows what lateness can and cannot have caused.
"""

from collections.abc import Collection, Sequence

from msgspec.structs import replace

from signoff.core.finding import Finding
from signoff.core.words import Bearing, Gate, Outcome, Severity

MEASURED = (Bearing.FLOOR, Bearing.TARGET, Bearing.CAP, Bearing.HITS)
SERVER_SEEN = ("capacity.soak.kv_idle", "capacity.soak.drift", "capacity.soak.memory")
"""Read from the server's own series or pace, which other traffic moves as ours does."""
SPOILERS = {
    "run.traffic.exclusive": (Gate.CAPACITY, Gate.PREFIX),
}


def settle(findings: Sequence[Finding], expected: Collection[tuple[Gate, str]]) -> list[Finding]:
    """The findings as they count: measured ones are inconclusive where the run spoiled them, and every expected code
    that is absent is there as not run."""
    outcomes = {finding.code: finding.outcome for finding in findings}
    spoiled = {
        gate: code for code, gates in SPOILERS.items() if outcomes.get(code) is Outcome.INCONCLUSIVE for gate in gates
    }
    settled = [_spoil(finding, spoiled.get(finding.gate, "")) for finding in findings]
    absent = sorted((gate, code) for gate, code in expected if code not in outcomes)
    return settled + [
        Finding(code=code, gate=gate, outcome=Outcome.NOT_RUN, bearing=Bearing.EVIDENCE, severity=Severity.FAIL)
        for gate, code in absent
    ]


def _spoil(finding: Finding, by: str) -> Finding:
    measured = finding.bearing in MEASURED or finding.code in SERVER_SEEN
    if not by or not measured or finding.outcome not in (Outcome.PASS, Outcome.FAIL):
        return finding
    return replace(
        finding,
        outcome=Outcome.INCONCLUSIVE,
        values=finding.values | {"unsettled_outcome": str(finding.outcome), "unsettled_by": by},
    )

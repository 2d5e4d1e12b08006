"""Judgement: a dossier in, findings and verdict out. Pure: the same dossier gives the same bytes on any machine."""

from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.plan import ALL_GATES
from signoff.core.verdict import RULES, Gates, Reason, Verdict
from signoff.core.words import Gate, Outcome, Severity
from signoff.judge import agent, capacity, environment, overall, prefix
from signoff.judge.catalogue import ALL, next_step, sentence
from signoff.judge.checklist import checklist
from signoff.judge.decide import Decision, decide, row_of
from signoff.judge.settle import settle
from signoff.judge.subject import accepted, conditions, subject, valid_until

JUDGES = {
    Gate.ENVIRONMENT: environment.findings,
    Gate.CAPACITY: capacity.findings,
    Gate.PREFIX: prefix.findings,
    Gate.AGENT: agent.findings,
}
WOULD_CHANGE_MAX = 12


class FindingsFile(Struct, frozen=True, kw_only=True):
    """`findings.json`."""

    schema: str = "signoff/findings/1"
    rules: str = RULES
    row: int
    """The row of the verdict table that held."""
    findings: tuple[Finding, ...]


class Judgement(Struct, frozen=True, kw_only=True):
    findings: tuple[Finding, ...]
    verdict: Verdict
    row: int
    deciding: tuple[Finding, ...]

    def as_findings_file(self) -> FindingsFile:
        return FindingsFile(row=self.row, findings=self.findings)


def judge(dossier: Dossier) -> Judgement:
    """Every finding of the planned gates, settled, and the verdict they come to."""
    found = overall.findings(dossier)
    for gate in dossier.plan.gates:
        found += JUDGES[gate](dossier)
    expected = {(entry.gate, entry.code) for entry in ALL if entry.always and entry.gate in dossier.plan.gates}
    settled = settle(found, expected)
    decision = decide(settled)
    return Judgement(
        findings=tuple(settled),
        verdict=_verdict(dossier, settled, decision),
        row=decision.row,
        deciding=decision.deciding,
    )


def gate_outcome(dossier: Dossier, gate: Gate, findings: list[Finding]) -> Outcome:
    """The worst of a gate's weighed findings: fail, then inconclusive, then not run."""
    if gate not in dossier.plan.gates:
        return Outcome.NOT_APPLICABLE
    weighed = [f for f in findings if f.gate is gate and not f.code.startswith("run.") and row_of(f) < 8]
    outcomes = {f.outcome for f in weighed}
    for worst in (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN):
        if worst in outcomes:
            return worst
    return Outcome.PASS


def _reasons(findings: list[Finding], decision: Decision) -> tuple[Reason, ...]:
    """What bears on the verdict: the deciding row first, then the other rows in order, then warnings that passed."""
    rows = {id(f): row_of(f) for f in findings}
    deciding = {id(f) for f in decision.deciding}
    bearing = sorted(
        (f for f in findings if rows[id(f)] < 8),
        key=lambda f: (id(f) not in deciding, rows[id(f)]),
    )
    warned = [f for f in findings if rows[id(f)] == 8 and f.severity is Severity.WARN and f.outcome is not Outcome.PASS]
    return tuple(
        Reason(
            code=f.code,
            outcome=f.outcome,
            severity=f.severity,
            cause=f.cause,
            phase=f.phase,
            message=sentence(f),
            evidence=f.evidence,
        )
        for f in (*bearing, *warned)
    )


def _verdict(dossier: Dossier, findings: list[Finding], decision: Decision) -> Verdict:
    from_row = sorted((f for f in findings if row_of(f) < 8), key=row_of)
    steps = [next_step(f) for f in (*decision.deciding, *from_row)]
    return Verdict(
        verdict=decision.verdict,
        scope=decision.scope,
        subject=subject(dossier, findings),
        accepted=accepted(dossier, findings),
        gates=Gates(**{str(gate): gate_outcome(dossier, gate, findings) for gate in ALL_GATES}),
        reasons=_reasons(findings, decision),
        checklist=checklist(dossier, findings),
        conditions=conditions(dossier, findings, decision),
        would_change=tuple(dict.fromkeys(step for step in steps if step))[:WOULD_CHANGE_MAX],
        valid_until=valid_until(dossier, decision),
        plan_digest=dossier.plan_digest,
        evidence_digest=dossier.evidence_digest,
    )

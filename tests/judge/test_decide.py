"""The verdict table: a test a row, then properties over drawn findings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Scope, VerdictName
from signoff.judge.decide import decide, row_of
from signoff.judge.settle import settle


def finding(bearing, outcome=Outcome.PASS, **more):
    return Finding(
        code=more.pop("code", f"capacity.{bearing}.x"),
        gate=more.pop("gate", Gate.CAPACITY),
        outcome=outcome,
        bearing=bearing,
        **more,
    )


HEALTHY = [finding(bearing) for bearing in Bearing if bearing is not Bearing.NOTE]
FAIL, BLIND, NOT_RUN = Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN


def with_(*changed):
    return [f for f in HEALTHY if f.bearing not in {c.bearing for c in changed}] + list(changed)


@pytest.mark.parametrize(
    ("changed", "row", "verdict", "scope"),
    [
        ([finding(Bearing.CHAIN, FAIL)], 1, "rework", Scope.ENVIRONMENT),
        ([finding(Bearing.LAUNCH, FAIL)], 1, "rework", Scope.LAUNCH),
        ([finding(Bearing.HOST, FAIL)], 1, "rework", Scope.HARDWARE),
        ([finding(Bearing.SERVICE, FAIL)], 2, "rework", Scope.SOFTWARE),
        ([finding(Bearing.CALLS, FAIL)], 3, "rework", Scope.INTERFACE),
        ([finding(Bearing.EFFECT, FAIL)], 3, "rework", Scope.INTERFACE),
        ([finding(Bearing.FLOOR, FAIL, cause=Cause.PREFIX_CACHE)], 3, "rework", Scope.LAUNCH),
        ([finding(Bearing.FLOOR, FAIL, cause=Cause.GATEWAY)], 3, "rework", Scope.INTERFACE),
        ([finding(Bearing.CHAIN, BLIND)], 4, "incomplete", None),
        ([finding(Bearing.CHAIN, NOT_RUN)], 4, "incomplete", None),
        ([finding(Bearing.LAYOUT, FAIL)], 5, "scale", None),
        ([finding(Bearing.LAYOUT, FAIL), finding(Bearing.CHAIN, BLIND)], 5, "scale", None),
        ([finding(Bearing.FLOOR, FAIL, cause=Cause.CONCURRENCY, resource="kv")], 5, "scale", None),
        ([finding(Bearing.CAP, FAIL, resource="kv")], 5, "scale", None),
        ([finding(Bearing.FLOOR, FAIL, cause=Cause.CONCURRENCY)], 6, "incomplete", None),
        ([finding(Bearing.FLOOR, BLIND)], 6, "incomplete", None),
        ([finding(Bearing.EVIDENCE, FAIL)], 6, "incomplete", None),
        ([finding(Bearing.EVIDENCE, NOT_RUN)], 6, "incomplete", None),
        ([finding(Bearing.TARGET, FAIL)], 7, "limited", None),
        ([finding(Bearing.HITS, FAIL)], 7, "limited", None),
        ([finding(Bearing.MINOR, FAIL)], 7, "limited", None),
        ([], 8, "go", None),
        ([finding(Bearing.EVIDENCE, BLIND, required=False)], 8, "go", None),
        ([finding(Bearing.NOTE, FAIL)], 8, "go", None),
        ([finding(Bearing.SERVICE, FAIL), finding(Bearing.CHAIN, FAIL)], 1, "rework", Scope.ENVIRONMENT),
        ([finding(Bearing.TARGET, FAIL), finding(Bearing.EVIDENCE, BLIND)], 6, "incomplete", None),
    ],
)
def test_each_row(changed, row, verdict, scope):
    decision = decide(with_(*changed))
    assert (decision.row, decision.verdict, decision.scope) == (row, verdict, scope)
    assert row == 8 or decision.deciding


def test_no_findings_are_no_verdict():
    assert decide([]).verdict is VerdictName.INCOMPLETE


def test_an_expected_code_that_is_absent_is_not_run():
    settled = settle(HEALTHY, {(Gate.CAPACITY, "capacity.soak.kv_idle")})
    assert decide(settled).verdict is VerdictName.INCOMPLETE


def test_foreign_traffic_takes_certainty_from_measurements_and_from_nothing_else():
    alone = finding(Bearing.EVIDENCE, BLIND, code="run.traffic.exclusive", gate=Gate.ENVIRONMENT)
    settled = settle([*HEALTHY, alone], set())
    by_bearing = {f.bearing: f for f in settled if f.code != alone.code}
    assert by_bearing[Bearing.FLOOR].outcome is BLIND
    assert by_bearing[Bearing.FLOOR].values["unsettled_by"] == "run.traffic.exclusive"
    assert by_bearing[Bearing.CHAIN].outcome is Outcome.PASS


FINDINGS = st.lists(
    st.builds(
        finding,
        st.sampled_from(list(Bearing)),
        st.sampled_from(list(Outcome)),
        cause=st.sampled_from(list(Cause)),
        resource=st.sampled_from(["", "kv"]),
        required=st.booleans(),
    ),
    min_size=1,
    max_size=8,
)
RANK = {VerdictName.GO: 2, VerdictName.LIMITED: 1}


@given(FINDINGS)
def test_missing_evidence_never_gives_go_and_some_row_always_holds(findings):
    decision = decide(findings)
    assert decision.row != 9
    unknown = [f for f in findings if f.required and f.bearing is not Bearing.NOTE and f.outcome in (BLIND, NOT_RUN)]
    if unknown:
        assert decision.verdict not in (VerdictName.GO, VerdictName.LIMITED)


@given(FINDINGS, st.data())
def test_worse_or_missing_evidence_never_moves_the_verdict_up(findings, data):
    before = decide(findings).verdict
    index = data.draw(st.integers(0, len(findings) - 1))
    victim = findings[index]
    passed = victim.required and victim.outcome is Outcome.PASS
    if passed:
        worse = data.draw(st.sampled_from([FAIL, BLIND, NOT_RUN]))
        after = decide([*findings[:index], replace(victim, outcome=worse), *findings[index + 1 :]]).verdict
        assert RANK.get(after, 0) <= RANK.get(before, 0)
    expected = {(f.gate, f.code) for f in findings}
    rest = [f for f in findings if f.code != victim.code]
    assert RANK.get(decide(settle(rest, expected)).verdict, 0) <= 0


def test_every_bearing_has_a_row_when_it_fails():
    for bearing in Bearing:
        row = row_of(finding(bearing, FAIL))
        assert (row < 8) == (bearing is not Bearing.NOTE)

"""The truth about faults: every one is ruled, strengths count, and the worst of several decides."""

import pytest

from signoff.core.words import Cause, Scope, VerdictName
from signoff.errors import SignoffError
from signoff.sim.faults import FAULTS
from signoff.sim.scenarios import SCENARIOS
from signoff.sim.truth import truth


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS])
def test_every_fault_is_ruled(fault):
    ruled = truth([fault])
    assert ruled.why
    assert ruled.verdict not in ruled.also
    assert (ruled.scope is None) == (ruled.verdict is not VerdictName.REWORK)


@pytest.mark.parametrize("scenario", list(VerdictName))
def test_a_scenario_deserves_its_name(scenario):
    assert truth(SCENARIOS[scenario]).verdict == scenario


def test_nothing_wrong_is_go():
    assert (truth([]).verdict, truth([]).cause) == (VerdictName.GO, Cause.NONE)


def test_the_lowest_row_decides():
    assert truth(["conc-kv-small", "env-driver-570"]).scope is Scope.ENVIRONMENT
    assert truth(["prefix-silent-off", "conc-kv-small"]).verdict is VerdictName.SCALE
    assert truth(["prefix-silent-off", "soak-foreign-traffic"]).verdict is VerdictName.INCOMPLETE
    assert truth(["soak-foreign-traffic", "soak-leak-kv"]).scope is Scope.SOFTWARE


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("conc-kv-small=2", "scale"),
        ("conc-kv-small=5", "limited"),
        ("conc-kv-small=40", "go"),
        ("conc-errors=20", "limited"),
        ("conc-errors=40", "go"),
        ("tool-none=0.01", "go"),
        ("tool-none=0.5", "rework"),
        ("soak-inband-error=0.001", "go"),
        ("soak-inband-error=0.2", "rework"),
        ("long-wrong=200000", "go"),
    ],
)
def test_strengths_count(fault, verdict):
    assert truth([fault]).verdict == verdict


def test_an_unknown_fault_is_refused():
    with pytest.raises(SignoffError):
        truth(["nope"])

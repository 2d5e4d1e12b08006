"""The planned looks keep the promise of the plan's confidence, counted out exactly."""

import math

import pytest
from agent_dossier import PACK, plan, profile
from scipy import stats

from signoff.core.plan import FailureRate
from signoff.core.words import Outcome
from signoff.judge.agent.contrast import Contrast
from signoff.judge.agent.next_step import Looks, attempts_wanted, looked_at, looks, planned_looks, settled


def decided_share(plan: Looks, p: float) -> dict[Outcome, float]:
    """Chance that the loop ends with each outcome when attempts fail with probability `p`, by exact enumeration."""
    alive = {0: 1.0}
    shares = {Outcome.PASS: 0.0, Outcome.FAIL: 0.0, Outcome.INCONCLUSIVE: 0.0}
    before = 0
    for size in plan.sizes:
        step = size - before
        grown: dict[int, float] = {}
        for failed, chance in alive.items():
            for more in range(step + 1):
                weight = math.comb(step, more) * p**more * (1 - p) ** (step - more)
                grown[failed + more] = grown.get(failed + more, 0.0) + chance * weight
        alive = {}
        for failed, chance in grown.items():
            outcome = settled(failed, size, plan)[0]
            if outcome is Outcome.INCONCLUSIVE and size != plan.sizes[-1]:
                alive[failed] = chance
            else:
                shares[outcome] += chance
        before = size
    return shares


@pytest.mark.parametrize(("limit", "floor"), [(0.1, 20), (0.05, 20), (0.2, 5)])
def test_looking_several_times_never_passes_or_fails_by_chance_more_often_than_promised(
    limit: float, floor: int
) -> None:
    plan = looks(FailureRate(limit=limit), floor)
    assert len(plan.sizes) == 3
    assert decided_share(plan, limit)[Outcome.FAIL] <= 0.05
    assert decided_share(plan, limit + 1e-9)[Outcome.PASS] <= 0.05
    assert decided_share(plan, 0.0)[Outcome.PASS] == 1.0
    assert decided_share(plan, 2 * limit + 0.3)[Outcome.FAIL] > 0.9


def test_the_first_look_can_prove_the_limit_without_failures() -> None:
    for limit in (0.01, 0.05, 0.1, 0.5):
        plan = looks(FailureRate(limit=limit), 1)
        assert settled(0, plan.sizes[0], plan)[0] is Outcome.PASS
        assert all(size % 2 == 0 for size in plan.sizes)


def test_the_plan_bounds_the_attempts_and_then_some_limits_cannot_be_proved() -> None:
    plan = looks(FailureRate(limit=0.01, attempts_max=30), 20)
    assert plan.sizes == (60,)
    assert settled(0, 60, plan)[0] is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("most", "sizes"), [(1, (2,)), (3, (6,)), (20, (40,)), (30, (40, 60)), (None, (40, 80, 160))])
def test_the_plans_bound_is_of_a_lane_and_never_lowers_the_profiles_floor(
    most: int | None, sizes: tuple[int, ...]
) -> None:
    plan = looks(FailureRate(limit=0.5, attempts_max=most), 20)
    assert plan.sizes == sizes
    assert plan.floor == 20
    assert looks(FailureRate(limit=None, attempts_max=most), 20).sizes == sizes[:1]


def test_a_confidence_of_one_is_no_error_of_arithmetic() -> None:
    assert looks(FailureRate(limit=0.5, confidence=1.0), 20).sizes[0] == 40


def test_a_full_matrix_needs_every_sample_under_every_option() -> None:
    made, full = plan(), plan(matrix="full")
    assert planned_looks(made, profile(), PACK).sizes[0] == 40
    assert planned_looks(full, profile(), PACK).sizes[0] == 2 * 8 * 5
    assert planned_looks(full, profile(), None).sizes[0] == 40


def test_without_a_limit_there_is_one_look_and_no_judgement() -> None:
    plan = looks(FailureRate(), 20)
    assert plan.sizes == (40,)
    assert settled(0, 40, plan)[0] is Outcome.INCONCLUSIVE
    assert attempts_wanted(0, 40, plan) == 40


def test_more_is_asked_only_while_undecided() -> None:
    plan = looks(FailureRate(limit=0.1), 20)
    first, second, last = plan.sizes
    assert attempts_wanted(0, 0, plan) == first
    assert attempts_wanted(0, first, plan) == first
    assert attempts_wanted(first, first, plan) == first
    assert attempts_wanted(4, first, plan) == second
    assert attempts_wanted(last // 10, last, plan) == last
    assert [looked_at(n, plan) for n in (0, first - 1, first, second + 3, last + 9)] == [0, 0, first, second, last]


@pytest.mark.parametrize("cells", [(0, 20, 5, 20), (3, 40, 0, 20), (10, 10, 0, 10), (1, 7, 2, 9), (0, 5, 0, 5)])
def test_the_contrast_is_fishers_exact_test(cells: tuple[int, int, int, int]) -> None:
    a_failed, a, b_failed, b = cells
    reference = stats.fisher_exact([[a_failed, a - a_failed], [b_failed, b - b_failed]]).pvalue
    chance = Contrast(a_failed=a_failed, a=a, b_failed=b_failed, b=b).chance
    assert chance == pytest.approx(reference, rel=1e-4)


def test_a_contrast_without_data_is_chance() -> None:
    assert Contrast(a_failed=0, a=0, b_failed=3, b=3).chance == 1.0
    assert not Contrast(a_failed=3, a=3, b_failed=3, b=3).differ()

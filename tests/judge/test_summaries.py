"""Intervals that must cover what they claim, and failures that must not vanish from a latency."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from signoff.core.record import Record
from signoff.core.words import Gate, State
from signoff.judge.summaries import (
    _binomial_quantile,
    e2e_ms,
    inter_token,
    latency,
    paired_difference,
    quantile,
    quantile_floor,
    rate,
)


def record(start_ms: float, first_ms: float, end_ms: float, state: State = State.OK, disqualified: str = "") -> Record:
    at = [int(1e6 * (start_ms + first_ms)), int(1e6 * end_ms)]
    return Record(
        id=f"r{start_ms}",
        gate=Gate.CAPACITY,
        stage="capacity.concurrency.1",
        state=state,
        planned_ns=int(1e6 * start_ms),
        sent_ns=int(1e6 * start_ms),
        written_ns=int(1e6 * start_ms),
        first_content_ns=at[0] if state is State.OK else None,
        chunk_ns=at if state is State.OK else [],
        end_ns=int(1e6 * end_ms),
        disqualified=disqualified,
    )


@given(st.integers(0, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_rate_is_clopper_pearson(case: tuple[int, int]) -> None:
    k, n = case
    found = rate(k, n)
    assert 0 <= found.low <= found.high <= 1
    if n:
        truth = stats.binomtest(k, n).proportion_ci(0.95, "exact")
        assert found.low == pytest.approx(truth.low, rel=1e-5, abs=1e-9)
        assert found.high == pytest.approx(truth.high, rel=1e-5)


def test_no_tries_prove_nothing() -> None:
    found = rate(0, 0)
    assert (found.share, found.low, found.high) == (None, 0, 1)


@pytest.mark.parametrize(("q", "floor"), [(0.5, 5), (0.95, 59), (0.99, 299), (0.999, 2995)])
def test_quantile_floor_is_where_the_upper_bound_appears(q: float, floor: int) -> None:
    assert quantile_floor(q) == floor
    assert quantile(range(floor - 1), q).high is None
    assert quantile(range(floor), q).high == floor - 1
    assert quantile(range(floor - 1), q).value is not None


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [60, 400, 1000])
def test_bounds_cover_and_are_not_wider_than_they_must(q: float, n: int) -> None:
    draws = np.random.default_rng(7).random((4000, n))
    found = [quantile(row, q) for row in draws]
    if found[0].high is not None:
        assert np.mean([f.high >= q for f in found]) >= 0.94
    if found[0].low is not None:
        assert np.mean([f.low <= q for f in found]) >= 0.94


def test_quantile_says_where_infinity_begins() -> None:
    assert quantile([1.0] * 100, 0.5).infinite_from == ""
    half_dead = quantile([1.0] * 40 + [math.inf] * 60, 0.5)
    assert half_dead.value is None
    assert half_dead.infinite_from in ("low", "value")
    assert quantile([math.inf] * 100, 0.5).within(1e9) is False


def test_within_needs_proof_either_way() -> None:
    few = quantile([1.0] * 20, 0.99)
    assert few.within(2) is None
    assert quantile([1.0] * 299, 0.99).within(2) is True
    assert quantile([3.0] * 299, 0.99).within(2) is False
    assert quantile([], 0.99).within(2) is None


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        quantile([1.0, math.nan], 0.5)


def test_paired_difference_known_interval() -> None:
    # n = 8: the exact test leaves out the 3 outermost Walsh averages on each side (P(T <= 3) = 5/256 <= 0.025)
    gaps = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0])
    walsh = np.sort([(x + y) / 2 for i, x in enumerate(gaps) for y in gaps[i:]])
    found = paired_difference(np.zeros(8), gaps)
    assert (found.low, found.high) == (walsh[3], walsh[-4])
    assert found.value == np.median(walsh)


def test_paired_difference_needs_six_pairs() -> None:
    assert paired_difference([0.0] * 5, [1.0] * 5).low is None
    assert paired_difference([0.0] * 6, [1.0] * 6).low == 1
    assert paired_difference([], []).value is None


@pytest.mark.parametrize("n", [10, 40, 400])
def test_paired_difference_covers(n: int) -> None:
    draw = np.random.default_rng(3)
    held = 0
    for _ in range(400):
        found = paired_difference(draw.normal(0, 1, n), draw.normal(0.5, 3, n))
        held += found.low <= 0.5 <= found.high
    assert held / 400 >= 0.92


def test_failures_count_as_infinite_beside_the_successes() -> None:
    records = [record(i, 10, i + 20) for i in range(90)]
    records += [record(i, 0, i + 1, State.RESET) for i in range(10)]
    seen = latency(records)
    assert seen.ok.p99.value == 10
    assert (seen.ok.p99.n, seen.every.p99.n) == (90, 100)
    assert seen.every.p99.value is None
    assert seen.every.p50.value == 10
    assert latency(records, e2e_ms).every.p99.infinite_from


def test_our_own_faults_are_in_neither_view() -> None:
    records = [record(0, 1, 2, State.ABORTED), record(1, 5, 9, disqualified="loop lag"), record(2, 5, 9)]
    seen = latency(records)
    assert (seen.ok.p50.n, seen.every.p50.n, seen.left_out) == (1, 1, 2)


def test_inter_token_gap_of_a_broken_stream_never_ends() -> None:
    seen = inter_token([record(0, 10, 30), record(0, 0, 5, State.STALLED)])
    assert seen.ok.p50.value == 20
    assert seen.every.p99.value is None


@given(st.integers(1, 3000), st.sampled_from([0.5, 0.9, 0.95, 0.99]), st.sampled_from([0.01, 0.025, 0.05, 0.95, 0.99]))
def test_binomial_quantile(n: int, p: float, chance: float) -> None:
    assert _binomial_quantile(chance, n, p) == int(stats.binom.ppf(chance, n, p))

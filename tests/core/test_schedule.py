"""Planned instants: the right number, in order, and the same for one seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.schedule import poisson, spread, steady


def test_spread() -> None:
    assert spread(4, 100, 2e-9) == [100, 100, 101, 102]
    assert spread(3, 7, 0) == [7, 7, 7]
    assert spread(0, 7, 1) == []


@given(st.floats(0.1, 1000), st.floats(0, 20))
def test_steady_keeps_its_rate(rate: float, lasts_s: float) -> None:
    planned = steady(rate, 10**18, lasts_s)
    assert len(planned) == pytest.approx(rate * lasts_s, abs=1)
    assert all(0 <= at - 10**18 < lasts_s * 1e9 + 1 for at in planned)
    assert planned == sorted(planned)


def test_steady_ends_before_its_end() -> None:
    assert steady(10, 0, 0.3) == [0, 100_000_000, 200_000_000]


def test_poisson_is_seeded_and_keeps_its_mean() -> None:
    planned = poisson(200, 0, 100, "a", 1)
    assert planned == poisson(200, 0, 100, "a", 1)
    assert planned != poisson(200, 0, 100, "a", 2)
    assert len(planned) == pytest.approx(20_000, rel=0.05)
    gaps = np.diff(planned) / 1e9
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize("make", [steady, poisson])
def test_a_rate_that_sends_nothing_is_an_error(make) -> None:
    with pytest.raises(ValueError, match="sends nothing"):
        make(0, 0, 1)

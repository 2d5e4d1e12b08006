"""The unit and the prompt's length."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.judge.prefix.next_step import measured_unit, next_length, prompt_tokens


def replayed(tokens: int, unit: int, drop: bool = False) -> int:
    hit = (tokens - 1) // unit * unit
    return max(0, hit - unit) if drop else hit


@settings(deadline=None)
@given(st.integers(16, 12_000), st.integers(-3, 3))
def test_the_ladder_finds_any_unit(unit: int, noise: int) -> None:
    pairs: list[tuple[int, int]] = []
    while (length := next_length(pairs, None)) is not None:
        tokens = length + noise  # whole words seldom fit exactly
        pairs.append((tokens, replayed(tokens, unit)))
        assert len(pairs) < 12
    found = measured_unit(pairs)
    hits = [hit for _, hit in pairs if hit]
    assert found is None or (found % unit == 0 and all(hit % found == 0 for hit in hits))
    if len(hits) >= 2 and hits[0] == unit:
        assert found == unit


def test_replays_that_never_hit_tell_no_unit() -> None:
    pairs: list[tuple[int, int]] = []
    while (length := next_length(pairs, 4096)) is not None:
        pairs.append((length, 0))
    assert pairs[-1][0] <= 4096
    assert measured_unit(pairs) is None


def test_hits_that_no_unit_explains_tell_none() -> None:
    assert measured_unit([(1000, 100), (2000, 130)]) is None
    assert measured_unit([(1000, 960)]) is None


@settings(deadline=None)
@given(st.integers(1, 20_000), st.one_of(st.none(), st.integers(1, 200_000)))
def test_prompts_end_in_the_middle_of_a_unit(unit: int, asked: int | None) -> None:
    wanted = prompt_tokens(unit, asked, None, 16)
    assert wanted >= 3 * unit + unit // 2
    assert wanted % unit == unit // 2
    assert wanted + unit > min(asked or 1024, wanted + unit - 1)


def test_a_small_pool_holds_the_prompts_of_a_round() -> None:
    assert prompt_tokens(32, None, 2048, 16, pool=4096) * 4 < 4096
    assert prompt_tokens(32, 1024, 2048, 16, pool=4096) == 1040  # the plan's wish is kept
    assert prompt_tokens(1536, None, None, 16, pool=5000) == 5376  # three units are the least that tells anything
    assert prompt_tokens(32, None, None, 16, pool=10**7) == 1040


@settings(deadline=None)
@given(st.integers(1, 5_000), st.integers(64, 8_000))
def test_prompts_stay_inside_the_window(unit: int, window: int) -> None:
    wanted = prompt_tokens(unit, None, window, 16)
    assert 1 <= wanted <= window - 16

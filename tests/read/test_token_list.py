"""Token ids as stored: what is packed comes back, and nothing that is not whole does."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.token_list import pack, unpack

ids = st.lists(st.integers(0, 2**40), max_size=40)


@settings(deadline=None)
@given(ids, ids)
def test_a_difference_comes_back(base: list[int], prompt: list[int]) -> None:
    raws = {"a": pack(base), "b": pack(prompt, "a", base)}
    assert unpack(raws["a"], raws.get) == base
    assert unpack(raws["b"], raws.get) == prompt


def test_a_difference_is_short() -> None:
    base = list(range(100_000, 105_000))
    assert len(pack([*base[:4900], 1, 2, 3], "a", base)) < 100


def test_a_missing_or_endless_base_gives_nothing() -> None:
    raw = pack([1, 2, 3, 9], "a", [1, 2, 3, 4])
    assert unpack(raw, {}.get) is None
    assert unpack(raw, {"a": raw}.get) is None
    assert unpack(raw, {"a": pack([1])}.get) is None


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_survived(raw: bytes) -> None:
    unpack(raw, {"a": raw}.get)

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.printable import printable


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("kimi-k3", "kimi-k3"),
        ("\x1b[2Jgone", "?[2Jgone"),
        ("\x1b]0;title\x07", "?]0;title?"),
        ("\x9b31m", "?31m"),
        ("a\rb\nc", "a?b?c"),
        ("a\tb", "a b"),
        ("pass\u202elost", "pass?lost"),
        ("\u2066x\u2069", "?x?"),
        ("zero\u200bwidth", "zero?width"),
        ("模型\u3000名", "模型\u3000名"),
        ("a\u00a0b", "a\u00a0b"),
        ("line\u2028line", "line?line"),
        ("\ud800", "?"),
    ],
)
def test_what_steers_is_replaced(raw: str, shown: str) -> None:
    assert printable(raw) == shown


def test_newlines_stay_only_where_wanted() -> None:
    assert printable("a\nb\x1b", newlines=True) == "a\nb?"


@given(st.text())
def test_nothing_that_acts_is_left_and_nothing_is_lost(text: str) -> None:
    shown = printable(text)
    assert len(shown) == len(text)
    assert all(unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029" for c in shown)
    assert printable(shown) == shown

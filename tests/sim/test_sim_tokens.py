"""The tokeniser reads back what it wrote, quickly, and no text becomes a control token."""

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.workload import words
from signoff.sim.exposition import number
from signoff.sim.http1 import BODY_BYTES_MAX
from signoff.sim.template import render, text_of
from signoff.sim.tokens import SPECIAL, decode, encode, pieces

texts = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@given(texts)
def test_text_reads_back(text):
    assert decode(encode(text)) == text
    assert "".join(piece for _, piece in pieces(text)) == text


@given(st.text())
def test_no_text_becomes_a_control_token(text):
    assert not set(encode(text + "<|open|>").tolist()) & set(SPECIAL.values())


@given(texts, texts)
def test_a_shared_head_gives_shared_tokens(head, tail):
    whole, part = encode(head + "\n" + tail), encode(head)
    shared = int(np.argmin(np.append(whole[: len(part)] == part[: len(whole)], False)))
    assert shared >= len(part) - 4  # only a run that goes on can be cut elsewhere


@given(st.lists(st.integers(-(2**40), 2**40)))
def test_any_ids_decode(ids):
    assert isinstance(decode(np.array(ids, dtype=np.int64)), str)


def test_131072_tokens_take_well_under_a_tenth_of_a_second():
    text = words(70_000, "speed")
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        made = encode(text)
        best = min(best, time.perf_counter() - began)
    assert len(made) > 131_072
    assert best < 0.1


def test_messages_end_where_they_end():
    one = render([{"role": "user", "content": "a"}], None, thinking=True)
    two = render([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], None, thinking=True)
    assert one[:8].tolist() == two[:8].tolist()
    assert text_of([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]) == "ab"
    assert text_of(None) == ""


def test_a_body_of_the_largest_window_fits():
    assert BODY_BYTES_MAX > 1_048_576 * 20


def test_numbers_look_as_the_python_client_writes_them():
    shown = {0: "0.0", 1.5: "1.5", 999999: "999999.0", 1e6: "1e+06", 1796097309.25: "1.79609730925e+09"}
    assert {value: number(value) for value in shown} == shown
    assert [number(float("inf")), number(float("-inf")), number(float("nan"))] == ["+Inf", "-Inf", "NaN"]

"""The cache model: published sequences, and properties that hold for any prompts."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.judge.prefix.expected import CacheModel, Ids, Rule, lawful, shared_tokens

GOLDEN = json.loads((Path(__file__).parents[1] / "golden_prefix" / "sequences.json").read_text())


def ids_of(step: dict[str, Any]) -> Ids:
    """A prompt of its family; behind `shared` tokens it goes its own way."""
    whole = np.arange(step["tokens"], dtype=np.int64) + 1_000_000 * ord(step["family"])
    if "shared" in step:
        whole[step["shared"] :] += 500_000 + 50_000 * step.get("branch", 1)
    return whole


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda golden: golden["name"])
def test_published_sequences(golden: dict[str, Any]) -> None:
    model = CacheModel(Rule(unit=golden["unit"], retention=golden["retention"]))
    for step in golden["steps"]:
        if step.get("reset"):
            model.reset()
            continue
        expected = model.expect(ids_of(step), step.get("key", ""))
        assert lawful(step["hit"], expected, golden["unit"]) is step.get("lawful", True), expected
        model.send(ids_of(step), step.get("key", ""))


prompts = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=24), min_size=1, max_size=8)
units = st.integers(1, 6)
retentions = st.sampled_from(["dense", "sparse", "unknown"])


@settings(deadline=None)
@given(prompts, units, retentions, st.booleans())
def test_bounds_hold_for_any_prompts(sent: list[list[int]], unit: int, retention: Any, drop: bool) -> None:
    model = CacheModel(Rule(unit=unit, retention=retention, may_drop_unit=drop))
    for tokens in sent:
        prompt = np.asarray(tokens, dtype=np.int64)
        expected = model.expect(prompt)
        assert list(expected.allowed) == sorted(set(expected.allowed))
        assert expected.best == expected.allowed[-1]
        assert all(hit % unit == 0 and 0 <= hit <= min(expected.shared, len(prompt) - 1) for hit in expected.allowed)
        assert expected.best + unit > min(expected.shared, len(prompt) - 1)
        model.send(prompt)


@settings(deadline=None)
@given(prompts, units)
def test_dense_is_the_formula(sent: list[list[int]], unit: int) -> None:
    model, before = CacheModel(Rule(unit=unit)), []
    for tokens in sent:
        longest = max(
            (
                next((i for i, (a, b) in enumerate(zip(tokens, o, strict=False)) if a != b), min(len(tokens), len(o)))
                for o in before
            ),
            default=0,
        )
        expected = model.expect(np.asarray(tokens, dtype=np.int64))
        assert expected.allowed == (min(longest, len(tokens) - 1) // unit * unit,)
        model.send(np.asarray(tokens, dtype=np.int64))
        before.append(tokens)


@settings(deadline=None)
@given(prompts, units)
def test_sparse_may_serve_less_and_never_more(sent: list[list[int]], unit: int) -> None:
    dense, sparse = CacheModel(Rule(unit=unit)), CacheModel(Rule(unit=unit, retention="sparse"))
    for tokens in sent:
        prompt = np.asarray(tokens, dtype=np.int64)
        assert sparse.expect(prompt).best == dense.expect(prompt).best
        assert sparse.expect(prompt).least <= dense.expect(prompt).least
        dense.send(prompt)
        sparse.send(prompt)


@settings(deadline=None)
@given(prompts, units)
def test_another_key_shares_nothing(sent: list[list[int]], unit: int) -> None:
    model = CacheModel(Rule(unit=unit))
    for tokens in sent:
        model.send(np.asarray(tokens, dtype=np.int64), "a")
        assert model.expect(np.asarray(tokens, dtype=np.int64), "b").allowed == (0,)


@settings(deadline=None)
@given(st.lists(st.integers(0, 3), max_size=20), st.lists(st.integers(0, 3), max_size=20))
def test_shared_tokens_is_symmetric_and_exact(one: list[int], other: list[int]) -> None:
    a, b = np.asarray(one, dtype=np.int64), np.asarray(other, dtype=np.int64)
    length = shared_tokens(a, b)
    assert length == shared_tokens(b, a)
    assert one[:length] == other[:length]
    assert length == min(len(one), len(other)) or one[length] != other[length]


def test_a_prompt_that_was_cut_off_may_have_been_cached_in_part() -> None:
    model = CacheModel(Rule(unit=4))
    prompt = np.arange(18, dtype=np.int64)
    model.send(prompt, complete=False)
    expected = model.expect(prompt)
    assert (expected.least, expected.best, expected.reasons) == (0, 16, ("cut_off",))
    assert [lawful(hit, expected, 4) for hit in (0, 4, 6, 12, 16, 20)] == [True, True, False, True, True, False]


def test_speculation_may_drop_one_unit_and_no_more() -> None:
    model = CacheModel(Rule(unit=4, may_drop_unit=True))
    prompt = np.arange(18, dtype=np.int64)
    model.send(prompt)
    expected = model.expect(prompt)
    assert expected.allowed == (12, 16)
    assert not lawful(8, expected, 4)


def test_unknown_retention_gates_the_third_question_as_strictly_as_dense() -> None:
    model = CacheModel(Rule(unit=4, retention="unknown"))
    asked = [np.concatenate([np.arange(14), np.full(3, 100 + k)]).astype(np.int64) for k in range(3)]
    allowed = []
    for prompt in asked:
        allowed.append(model.expect(prompt).allowed)
        model.send(prompt)
    assert allowed[0] == (0,)
    assert allowed[1] == (0, 12)
    assert allowed[2] == (12,)

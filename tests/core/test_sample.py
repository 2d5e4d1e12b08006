"""Nonces stand at the end and can be mistaken for nothing; a pack's digest is its content."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from signoff.core.sample import NONCE_LETTERS, tail_nonce, with_nonce
from signoff.run.packs import load_packs


@given(st.text(max_size=20), st.integers())
def test_a_nonce_holds_no_digit_quote_or_vowel(run: str, number: int) -> None:
    nonce = tail_nonce(run, number)
    assert len(nonce) == 12
    assert set(nonce) <= set(NONCE_LETTERS)
    assert nonce == tail_nonce(run, number)
    assert nonce != tail_nonce(run, number + 1)


def test_the_nonce_stands_at_the_end_of_the_last_user_message_and_nothing_else_changes() -> None:
    for sample in load_packs(()).samples:
        sent = with_nonce(sample.messages, "bcdf")
        changed = [i for i, (a, b) in enumerate(zip(sample.messages, sent, strict=True)) if a != b]
        last = max(i for i, m in enumerate(sample.messages) if m["role"] == "user")
        assert changed == [last]
        assert sent[last]["content"] == sample.messages[last]["content"] + "\n\n(reference bcdf)"


def test_a_changed_word_changes_the_digest() -> None:
    pack = load_packs(())
    assert pack.digest() == load_packs(("fixed",)).digest()
    assert replace(pack, about="other").digest() != pack.digest()

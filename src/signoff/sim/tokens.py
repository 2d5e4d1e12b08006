"""A quick tokeniser: pieces of up to four bytes, an id a piece, both ways.

A piece is a run of letters, digits, blanks or other bytes, cut every four bytes; one blank before letters belongs to
them. The id of a piece is its bytes read as a little-endian number, so ids are the same in every process and read back
exactly; control tokens lie above all of them. Half a megabyte takes some ten milliseconds, for all of it is numpy.
"""

import codecs

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

SPECIAL = {
    "<|open|>": (1 << 32) + 1,
    "<|close|>": (1 << 32) + 2,
    "<|sep|>": (1 << 32) + 3,
    "<|end_of_msg|>": (1 << 32) + 4,
    "<|begin|>": (1 << 32) + 5,
}
"""Control tokens; text never becomes one of them."""
_SPECIAL_TEXT = {number: text for text, number in SPECIAL.items()}
_OTHER, _LETTER, _DIGIT, _BLANK = 0, 1, 2, 3
_MASK = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF], dtype=np.uint32)


def _classes() -> NDArray[np.uint8]:
    kinds = np.zeros(256, dtype=np.uint8)
    for byte in range(256):
        letter = chr(byte)
        if byte >= 128 or letter.isalpha():
            kinds[byte] = _LETTER
        elif letter.isdigit():
            kinds[byte] = _DIGIT
        elif letter in " \n\t\r":
            kinds[byte] = _BLANK
    return kinds


_CLASS = _classes()


def encode(text: str) -> Ids:
    """The ids of `text`, shape (tokens,)."""
    raw = np.frombuffer(text.encode("utf-8", "replace"), dtype=np.uint8)
    if raw.size == 0:
        return np.zeros(0, dtype=np.int64)
    starts = _starts(raw)
    lengths = np.diff(starts, append=raw.size)
    padded = np.concatenate([raw, np.zeros(4, dtype=np.uint8)])
    windows = np.ndarray(shape=(raw.size,), dtype="<u4", buffer=padded.data, strides=(1,))
    return (windows[starts] & _MASK[lengths]).astype(np.int64)


def raw_of(number: int) -> bytes:
    """The bytes of one id; nothing for a number that is none."""
    if number in _SPECIAL_TEXT:
        return _SPECIAL_TEXT[number].encode()
    if not 0 <= number < 1 << 32:
        return b""
    return number.to_bytes(4, "little").rstrip(b"\0") or b"\0"


def decode(ids: Ids) -> str:
    """The text of `ids`; bytes that are not UTF-8 are replaced."""
    if ids.size and ids.min() > 0 and ids.max() < 1 << 32:
        return bytes(ids.astype("<u4").tobytes()).replace(b"\0", b"").decode("utf-8", "replace")
    return b"".join(raw_of(number) for number in ids.tolist()).decode("utf-8", "replace")


def pieces(text: str) -> list[tuple[int, str]]:
    """`text` as (id, text) per token; a token that ends inside a character has empty text until it is whole."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [(number, decoder.decode(raw_of(number))) for number in encode(text).tolist()]


def _starts(raw: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Where pieces begin."""
    kind = _CLASS[raw]
    begins = np.empty(raw.size, dtype=bool)
    begins[0] = True
    blank, letter = kind == _BLANK, kind == _LETTER
    np.not_equal(kind[1:], kind[:-1], out=begins[1:])
    begins[1:] &= ~(blank[:-1] & letter[1:])
    begins[:-1] |= blank[:-1] & letter[1:]  # the blank that a word takes along leaves its run of blanks
    places = np.arange(raw.size, dtype=np.int32)
    run_start = np.maximum.accumulate(np.where(begins, places, 0))
    return np.flatnonzero(((places - run_start) & 3) == 0)

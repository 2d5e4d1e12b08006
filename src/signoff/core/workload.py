"""Seeded text for prompts: pure, the same on every machine, never the same for two seeds."""

import hashlib
import random

_ONSETS = (
    "b",
    "br",
    "c",
    "cl",
    "d",
    "dr",
    "f",
    "g",
    "gr",
    "h",
    "k",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
    "w",
)
_VOWELS = ("a", "e", "i", "o", "u", "ai", "ea", "oo")
_CODAS = ("", "l", "n", "nd", "r", "rt", "s", "st", "t", "ck", "m")


def rng(*seed: object) -> random.Random:  # pure: seeded, no state outside
    """A generator seeded by the text of `seed`, independent of the process."""
    text = "\x1f".join(str(part) for part in seed)
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def nonce(*seed: object) -> str:
    """Sixteen hex digits for the very start of a prompt, so that no other prompt shares its first tokens."""
    return hashlib.sha256(("nonce\x1f" + "\x1f".join(str(part) for part in seed)).encode()).hexdigest()[:16]


def words(count: int, *seed: object) -> str:
    """`count` invented lower-case words, sentences of eight to sixteen, about 2 to 3 tokens a word."""
    draw = rng("words", *seed)
    made: list[str] = []
    until = draw.randint(8, 16)
    for index in range(count):
        word = draw.choice(_ONSETS) + draw.choice(_VOWELS) + draw.choice(_CODAS)
        if draw.random() < 0.4:
            word += draw.choice(_ONSETS) + draw.choice(_VOWELS)
        until -= 1
        if until == 0 or index == count - 1:
            word, until = word + ".", draw.randint(8, 16)
        made.append(word)
    return " ".join(made)

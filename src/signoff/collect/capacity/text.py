"""Text: prompts of an exact number of tokens, made quickly, none of which shares its first tokens with another.

One seeded text is made once; a prompt is a slice of it at an offset of its own. What the server's tokeniser makes of it
is learned once (tokens for each word), so that a prompt of any length needs one or two counts.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from signoff.collect.control import Control
from signoff.collect.tokenize import Message, token_ids
from signoff.core.workload import rng, words

TEXT_WORDS = 24_000
PROBE_WORDS = 600
GUESSED_TOKENS_PER_WORD = 2.2
SHORT_BY_MAX = 4
"""Tokens that a prompt may be shorter than asked: whole words."""
COUNTS_MAX = 6


class Corpus:
    """One seeded text; slices begin at an offset drawn from the slice's own seed and go round its end."""

    def __init__(self, *seed: object) -> None:
        self._words = words(TEXT_WORDS, *seed).split(" ")
        twice = itertools.chain(self._words, self._words)
        self._starts = list(itertools.accumulate((len(word) + 1 for word in twice), initial=0))
        self._text = " ".join(self._words) + " "
        self._twice = self._text * 2

    def slice(self, count: int, *seed: object) -> str:
        """`count` words, beginning anywhere; two slices of the same seed begin at the same word."""
        if count <= 0:
            return ""
        offset = rng("slice", *seed).randrange(len(self._words))
        rounds, rest = divmod(count, len(self._words))
        begin = self._starts[offset]
        whole = self._twice[begin : self._starts[offset + len(self._words)]]
        return (whole * rounds + self._twice[begin : self._starts[offset + rest]]).rstrip()


class Ruler(msgspec.Struct, frozen=True, kw_only=True):
    """How the server's tokeniser measures the corpus."""

    tokens_per_word: float
    exact: bool
    """Whether the server counts tokens for us at all."""


async def calibrate(control: Control, model: str, corpus: Corpus) -> Ruler:
    """One count of a long slice and one of nothing."""
    long_, none = await asyncio.gather(
        token_ids(control, model, [{"role": "user", "content": corpus.slice(PROBE_WORDS, "ruler")}]),
        token_ids(control, model, [{"role": "user", "content": ""}]),
    )
    if long_ is None or none is None or len(long_) <= len(none):
        return Ruler(tokens_per_word=GUESSED_TOKENS_PER_WORD, exact=False)
    return Ruler(tokens_per_word=(len(long_) - len(none)) / PROBE_WORDS, exact=True)


async def fitted(
    control: Control,
    model: str,
    ruler: Ruler,
    build: Callable[[int], list[Message]],
    tokens: int,
    tools: Sequence[dict[str, Any]] = (),
) -> tuple[int, int | None]:
    """`(words, tokens)`: how many words make `build(words)` as long as `tokens`, never longer, and its exact count;
    `None` when the server does not count, or refuses to count so much, and then the words are a guess.

    A prompt that is too long even without words comes back as zero words with its true count."""
    size = max(0, round(tokens / ruler.tokens_per_word))
    if not ruler.exact:
        return size, None
    under, over = -1, 10**9
    best: tuple[int, int | None] = (0, None)
    for _ in range(COUNTS_MAX):
        ids = await token_ids(control, model, build(size), list(tools) or None)
        if ids is None:
            return size, None
        if len(ids) <= tokens:
            under, best = size, (size, len(ids))
        else:
            over = size
            if size == 0:
                return 0, len(ids)
        if 0 <= tokens - len(ids) <= SHORT_BY_MAX or over - under <= 1:
            break
        moved = size + int((tokens - len(ids)) / ruler.tokens_per_word) + (-1 if len(ids) > tokens else 0)
        size = min(max(moved, under + 1, 0), over - 1)
    return best

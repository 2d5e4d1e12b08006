"""How many prompt tokens a prefix cache must, and at most may, serve: a model of the cache, and no observation.

    hit = floor(min(L, P - 1) / A) * A        dense retention

`P` prompt tokens, `L` longest common token prefix with a prompt sent before under the same key, `A` alignment unit. The
last prompt token is always computed, hence `P - 1`. Sources: vLLM 0.32 `v1/core/kv_cache_manager.py` and
`scheduler.py`; retention in hybrids: pull request 52216; the dropped unit: EAGLE-like speculative decoding.

Sparse retention keeps a recurrent state only at the last boundary of every prompt, and at a junction once a second
prompt has run over it: a different question behind a shared prefix may miss the first time and must hit the second.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Ids: TypeAlias = NDArray[np.int64]
Retention: TypeAlias = Literal["dense", "sparse", "unknown"]


def shared_tokens(one: Ids, other: Ids) -> int:
    """Length of the longest common prefix of two prompts, in tokens."""
    length = min(len(one), len(other))
    differs = np.flatnonzero(one[:length] != other[:length])
    return int(differs[0]) if len(differs) else length


class Rule(Struct, frozen=True, kw_only=True):
    """What is known of the cache."""

    unit: int
    """Alignment unit in tokens, at least 1."""
    retention: Retention = "dense"
    may_drop_unit: bool = False
    """Whether speculative decoding may match one unit more and then drop it."""

    def aligned(self, tokens: int) -> int:
        return max(0, tokens) // self.unit * self.unit


class Expected(Struct, frozen=True, kw_only=True):
    """The lawful hits of one request, in tokens."""

    shared: int
    """`L` over everything that was sent before under the same key."""
    best: int
    """More than this no lawful cache can serve."""
    allowed: tuple[int, ...]
    """Rising; a hit that is none of these is unlawful unless `loose`."""
    loose: bool = False
    """A prompt sent before was cut off: any whole number of units between the ends of `allowed` is lawful."""
    reasons: tuple[str, ...] = ()
    """Why there is more than one: `boundary`, `retention`, `dropped_unit`, `cut_off`."""

    @property
    def least(self) -> int:
        """The least that a working cache serves."""
        return self.allowed[0]


class CacheModel:
    """What a lawful cache holds after the prompts that were sent, in order. A replay, not a formula of one pair."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._sent: list[tuple[str, Ids, bool]] = []

    def send(self, prompt: Ids, key: str = "", complete: bool = True) -> None:
        """`prompt` was sent under `key` (salt, rank); `complete` is false when it was cut off while running."""
        self._sent.append((key, prompt, complete))

    def reset(self) -> None:
        """The cache was emptied."""
        self._sent.clear()

    def expect(self, prompt: Ids, key: str = "") -> Expected:
        """The lawful hits of `prompt` under `key` now, before it is sent."""
        rule, most = self.rule, len(prompt) - 1
        priors = [(shared_tokens(prompt, sent), len(sent), complete) for k, sent, complete in self._sent if k == key]
        shared = max((length for length, _, _ in priors), default=0)
        best = rule.aligned(min(shared, most))
        complete = [(length, size) for length, size, whole in priors if whole]
        sure = rule.aligned(min(max((length for length, _ in complete), default=0), most))
        reasons: list[str] = []
        allowed = {sure, best}
        if sure < best:
            reasons.append("cut_off")
        if rule.retention != "dense" and sure:
            kept, why = self._kept(complete, sure, most)
            allowed |= kept
            reasons += why
            if rule.retention == "sparse" and why == ["boundary"]:
                allowed.discard(0)
        if rule.may_drop_unit and best:
            allowed |= {max(0, hit - rule.unit) for hit in allowed}
            reasons.append("dropped_unit")
        return Expected(
            shared=shared,
            best=best,
            allowed=tuple(sorted(allowed)),
            loose=sure < best,
            reasons=tuple(reasons),
        )

    def _kept(self, priors: Sequence[tuple[int, int]], sure: int, most: int) -> tuple[set[int], list[str]]:
        """Further lawful hits under sparse retention; priors are (shared, size) of complete prompts."""
        aligned = self.rule.aligned
        if sum(length >= sure for length, _ in priors) >= 2:
            return set(), []  # the second prompt over this junction made it kept
        resumed = [aligned(size - 1) for length, size in priors if length >= size - 1 and length <= most + 1]
        if resumed:  # identical replay or growth at the end: the last boundary of the earlier prompt is kept
            state = max(resumed)
            return ({state}, ["boundary"]) if state < sure else (set(), [])
        states = {aligned(size - 1) for length, size in priors if aligned(size - 1) <= min(length, most)}
        return states | {0}, ["retention"]


def lawful(hit: int, expected: Expected, unit: int) -> bool:
    """Whether a cache that works and only as it should can have served `hit` tokens."""
    if hit in expected.allowed:
        return True
    return expected.loose and expected.least < hit < expected.best and hit % unit == 0

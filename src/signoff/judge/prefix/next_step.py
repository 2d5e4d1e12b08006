"""What the loop must decide while running: the alignment unit, the prompt's length, what to measure next. Pure."""

import math
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from signoff.core.profile import Profile
from signoff.judge.prefix.expected import Retention
from signoff.read.prefix_cache import CacheConfig

Pair: TypeAlias = tuple[int, int]
"""Prompt tokens and hit tokens of an identical replay."""
PROMPT_TOKENS_MIN = 1024
"""Shorter prompts save too little time to be seen on a clock."""
UNITS_MIN = 3
PROMPTS_HELD = 6
"""A round sends four prompts that share nothing; so many and some room the pool should hold."""
LADDER_FIRST_TOKENS, LADDER_LAST_TOKENS = 64, 32_768


class Unit(Struct, frozen=True, kw_only=True):
    """The alignment unit of prefix hits and where it was learnt. `tokens` is `None` when nobody knows."""

    tokens: int | None
    source: Literal["server", "profile", "measured", "none"]
    label: str = ""
    """The server's label, for `server`."""


def unit_of(config: CacheConfig | None, profile: Profile, pairs: Sequence[Pair] = ()) -> Unit:
    """The server's word first, then a profile that knows one unit only, then what replays show."""
    if config is not None and config.unit is not None:
        return Unit(tokens=config.unit, source="server", label=config.unit_label)
    if len(profile.cache.units) == 1:
        return Unit(tokens=profile.cache.units[0], source="profile")
    measured = measured_unit(pairs)
    if measured is not None:
        return Unit(tokens=measured, source="measured")
    return Unit(tokens=None, source="none")


def retention_of(config: CacheConfig | None, profile: Profile) -> Retention:
    """The server's word first, then the profile's."""
    if config is not None and config.retention != "unknown":
        return config.retention
    return profile.cache.retention


def measured_unit(pairs: Sequence[Pair]) -> int | None:
    """The one unit that explains every replay, `None` while fewer than two hit or none explains them.

    Every hit is a whole number of units, and less than one unit of the prompt (two, when speculation drops one) was
    missed."""
    hits = [hit for _, hit in pairs if hit > 0]
    if len(hits) < 2:
        return None
    unit = math.gcd(*hits)
    missed = [tokens - 1 - hit for tokens, hit in pairs]
    return unit if all(0 <= left < 2 * unit for left in missed) and min(missed) < unit else None


def next_length(pairs: Sequence[Pair], window: int | None) -> int | None:
    """The next prompt length to replay, each twice the last; `None`: nothing more to learn.

    Goes one step beyond the first hit, so that two hits tell the unit."""
    if sum(hit > 0 for _, hit in pairs) >= 2:
        return None
    wanted = LADDER_FIRST_TOKENS if not pairs else 2 * pairs[-1][0]
    most = min(LADDER_LAST_TOKENS, (window or LADDER_LAST_TOKENS) - 64)
    return wanted if wanted <= most else None


def prompt_tokens(unit: int, asked: int | None, window: int | None, output_tokens: int, pool: int | None = None) -> int:
    """Prompt length: at least three units, ending in the middle of one so that no boundary case is met.

    `asked` tokens where that is more, else 1,024 or what the pool of `pool` tokens holds six of: a round's own prompts
    must not evict each other. Never beyond the window with its output; that may be too short for any hit, and the
    judge says so."""
    wished = asked or min(PROMPT_TOKENS_MIN, (pool or PROMPT_TOKENS_MIN * PROMPTS_HELD) // PROMPTS_HELD)
    units = max(UNITS_MIN, wished // unit)
    wanted = units * unit + unit // 2
    if window is None or wanted + output_tokens <= window:
        return wanted
    most = window - output_tokens
    fitting = (most - unit // 2) // unit * unit + unit // 2
    return fitting if fitting > unit else max(1, most - 8)

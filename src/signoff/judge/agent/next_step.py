"""How many attempts a kind needs, and when it is decided. Pure: the loop asks before it sends, the judge afterwards.

A rate is looked at only at a few sizes that plan and profile fix beforehand. The error that the plan allows (1 minus
its confidence) is shared equally among the looks, so by the union bound the chance of ever passing a service whose true
rate is above the limit, however often it is looked at, stays under that error; the same for failing one that is at or
under it. Looking after every attempt with an undivided interval would break that promise.
"""

import math

from msgspec import Struct

from signoff.core.plan import FailureRate, Plan
from signoff.core.profile import Profile
from signoff.core.sample import KINDS, Pack
from signoff.core.words import Outcome
from signoff.judge.summaries import Rate, rate

LOOKS = 3
LANES = 2
"""Streamed and whole."""
ATTEMPTS_MAX = 200
"""Attempts per kind and lane where the plan gives no number and its limit needs no more without failures."""


class Looks(Struct, frozen=True, kw_only=True):
    """When a kind is looked at and how wide the interval is then."""

    sizes: tuple[int, ...]
    """Attempts at each look, rising, even: streamed and whole in equal parts."""
    confidence: float
    """Of the two-sided interval at each look, so that either of its bounds alone keeps the plan's promise."""
    limit: float | None
    floor: int
    """Attempts in each lane below which nothing passes, whatever the plan's `attempts_max`."""


def looks(asked: FailureRate, floor: int) -> Looks:
    """The looks for a limit and at least `floor` attempts in each lane.

    `attempts_max` bounds a lane. One below the floor is obeyed, and then nothing can pass."""
    floor = max(1, floor)
    first, given = LANES * floor, asked.attempts_max
    if asked.limit is None:
        first = first if given is None else min(first, LANES * given)
        return Looks(sizes=(first,) if first > 0 else (), confidence=asked.confidence, limit=None, floor=floor)
    share = (1 - asked.confidence) / LOOKS
    if 0 < asked.limit < 1 and share > 0:
        first = max(first, _even(math.ceil(round(math.log(share) / math.log(1 - asked.limit), 9))))
    most = LANES * given if given is not None else max(first, LANES * ATTEMPTS_MAX)
    sizes = tuple(dict.fromkeys(min(first * 2**k, most) for k in range(LOOKS)))
    return Looks(
        sizes=tuple(size for size in sizes if size > 0), confidence=1 - 2 * share, limit=asked.limit, floor=floor
    )


def planned_looks(plan: Plan, profile: Profile, pack: Pack | None) -> Looks:
    """The looks of a run. In a full matrix every sample of a kind is sent under each of its eight options."""
    floor = profile.floors.agent_attempts
    if plan.agent.matrix == "full" and pack is not None:
        floor = max(floor, 8 * max((len(pack.of_kind(kind)) for kind in KINDS), default=0))
    return looks(plan.agent.failure_rate, floor)


def _even(count: int) -> int:
    return count + count % 2


def settled(failed: int, tried: int, plan: Looks) -> tuple[Outcome, Rate]:
    """Pass when the rate is proved at or under the limit, fail when proved above, else inconclusive."""
    measured = rate(failed, tried, plan.confidence)
    if plan.limit is None or not tried:
        return Outcome.INCONCLUSIVE, measured
    if measured.high <= plan.limit:
        return Outcome.PASS, measured
    if measured.low > plan.limit:
        return Outcome.FAIL, measured
    return Outcome.INCONCLUSIVE, measured


def attempts_wanted(failed: int, tried: int, plan: Looks) -> int:
    """How many attempts there should be in all: the present number when nothing more is to be learnt."""
    if not plan.sizes or tried < plan.sizes[0]:
        return plan.sizes[0] if plan.sizes else 0
    if settled(failed, tried, plan)[0] is not Outcome.INCONCLUSIVE:
        return tried
    return next((size for size in plan.sizes if size > tried), tried)


def looked_at(tried: int, plan: Looks) -> int:
    """The largest look that `tried` attempts reached, 0 when they reached none: what came after it is not counted."""
    return max((size for size in plan.sizes if size <= tried), default=0)

"""What the concurrency loop tries next, from what was seen. Pure: it sends nothing and knows no clock."""

from collections.abc import Sequence

from msgspec import Struct

from signoff.core.plan import Plan
from signoff.core.profile import Profile
from signoff.core.words import Outcome
from signoff.judge.capacity.level import Level
from signoff.judge.capacity.sizes import Sizes

CLIMB, CAP = "capacity.concurrency", "capacity.cap"
BELOW_FLOOR_HOLD_SHARE = 0.25
"""Loads under the floor are no load worth going live with; they are steps on the way, held shorter."""


class Try(Struct, frozen=True, kw_only=True):
    """One load to hold."""

    stage: str
    streams: int
    hold_s: float
    requests_min: int
    """Requests after the first wave that the load must see before it ends."""


def next_try(seen: Sequence[Level], sizes: Sizes, plan: Plan, profile: Profile) -> Try | None:
    """Climb the ladder. After the first load that fails (and the floor, where that was lower) hold the highest that did
    not fail, as often as the profile says. `None` when nothing is left to try: a cap under the floor carries no traffic
    whatever it holds."""
    tried = {level.streams for level in seen if level.stage.startswith(CLIMB)}
    over, floor = overload(seen), plan.objective.concurrency.floor
    if over is None:
        return next((_climb(n, sizes, plan, profile) for n in sizes.levels if n not in tried), None)
    if over.streams < floor and floor not in tried and not over.stopped:
        return _climb(floor, sizes, plan, profile)  # a short step that failed proves nothing about the floor yet
    cap = candidate(seen)
    held = sum(level.stage.startswith(CAP) for level in seen)
    if cap is None or cap < floor or held >= profile.floors.holds_after_overload:
        return None
    return Try(
        stage=f"{CAP}.{cap}.{held + 1}",
        streams=cap,
        hold_s=sizes.hold_s,
        requests_min=requests_min(cap, plan, profile),
    )


def requests_min(streams: int, plan: Plan, profile: Profile) -> int:
    """Requests that a load must see to be judged: the profile's, and under the floor one for each stream."""
    least = profile.floors.concurrency_requests
    return least if streams >= plan.objective.concurrency.floor else min(least, max(2, streams))


def hold_s(streams: int, sizes: Sizes, plan: Plan) -> float:
    """Seconds for which a load is held."""
    worth = streams >= plan.objective.concurrency.floor
    return sizes.hold_s if worth else sizes.hold_s * BELOW_FLOOR_HOLD_SHARE


def _climb(streams: int, sizes: Sizes, plan: Plan, profile: Profile) -> Try:
    return Try(
        stage=f"{CLIMB}.{streams}",
        streams=streams,
        hold_s=hold_s(streams, sizes, plan),
        requests_min=requests_min(streams, plan, profile),
    )


def overload(seen: Sequence[Level]) -> Level | None:
    """The first load on the way up that failed, or that ended early because the service stopped answering."""
    return next(
        (level for level in seen if level.stage.startswith(CLIMB) and (broke(level) or gone(level))),
        None,
    )


def broke(level: Level) -> bool:
    """Failed its limits, or took the service with it. A load that found the service gone says nothing about itself."""
    return level.outcome is Outcome.FAIL or (gone(level) and level.requests > 0)


def gone(level: Level) -> bool:
    """The service stopped answering, in this load or before it."""
    return level.stopped in ("service_lost", "service_stalled")


def candidate(seen: Sequence[Level]) -> int | None:
    """The highest load under the overload that did not fail: the cap to try. `None` when there is none."""
    over = overload(seen)
    if over is None:
        return None
    below = [x.streams for x in seen if x.stage.startswith(CLIMB) and x.streams < over.streams and not broke(x)]
    return max(below, default=None)


def held(seen: Sequence[Level]) -> int | None:
    """The highest load that held every time it was tried, and after an overload none above the cap: what held once
    above a load that failed is no load to carry. `None` when none did."""
    failed = {level.streams for level in seen if broke(level)}
    passed = [x.streams for x in seen if x.outcome is Outcome.PASS and x.streams not in failed]
    if overload(seen) is not None:
        cap = candidate(seen)
        passed = [streams for streams in passed if cap is not None and streams <= cap]
    return max(passed, default=None)


def soak_streams(seen: Sequence[Level], sizes: Sizes, floor: int) -> int | None:
    """The load of the soak: the plan's, cut to the cap after an overload; `None` when no load from the floor up held,
    for then there is none to soak."""
    if overload(seen) is None:
        return sizes.soak_streams
    cap = candidate(seen)
    return None if cap is None or cap < floor else min(cap, sizes.soak_streams)

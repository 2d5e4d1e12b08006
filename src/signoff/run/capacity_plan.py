"""What the capacity gate is about to send, for the announcement before it: an estimate of the quiet case."""

import math

from msgspec import Struct

from signoff.core.plan import Plan
from signoff.core.profile import Profile
from signoff.judge.capacity.next_step import BELOW_FLOOR_HOLD_SHARE, requests_min
from signoff.judge.capacity.sizes import Sizes, prompt_tokens, sizes
from signoff.run.capacity_stage import REST_SAMPLES

TOKEN_S, FIRST_S, PREFILL_TOKENS_PER_S = 0.03, 0.3, 8000.0
"""What a typical server takes, only to say how large the work is."""


SMALL_TOKENS = 200
"""Of the requests on an idle server, prompt and output."""


class Planned(Struct, frozen=True, kw_only=True):
    """At least so much, when nothing fails; an overload adds the holds at the cap."""

    requests: int
    tokens: int
    """Prompt and output."""
    concurrency: int
    """The most requests at once."""
    seconds: float


def planned(plan: Plan, profile: Profile, max_model_len: int | None) -> Planned:
    """Requests, tokens, peak concurrency and time of a run without trouble, the plan's guard rails applied."""
    size = sizes(plan, profile, max_model_len)
    turn_tokens = size.input_tokens + size.output_tokens
    turn_s = FIRST_S + size.output_tokens * TOKEN_S
    around = 2 * (1 + REST_SAMPLES)
    requests, tokens, seconds = around, around * SMALL_TOKENS, around * turn_s / 4
    for index, rung in enumerate(size.rungs):
        sent = 4 if index == 0 else 2
        requests += sent
        tokens += sent * (prompt_tokens(rung, size) + size.long_output_tokens)
        seconds += sent * (rung / PREFILL_TOKENS_PER_S + size.long_output_tokens * TOKEN_S)
    for streams in size.levels:
        worth = streams >= plan.objective.concurrency.floor
        hold_s = size.hold_s * (1.0 if worth else BELOW_FLOOR_HOLD_SHARE)
        rounds = max(math.ceil(hold_s / turn_s), 1 + math.ceil(requests_min(streams, plan, profile) / streams))
        requests += streams * rounds
        tokens += streams * rounds * turn_tokens
        seconds += max(hold_s, rounds * turn_s)
    soaked, soaked_tokens = _soak(size, turn_s, turn_tokens)
    caps = plan.caps
    return Planned(
        requests=min(requests + soaked, caps.requests or requests + soaked),
        tokens=min(tokens + soaked_tokens, caps.tokens or tokens + soaked_tokens),
        concurrency=max(*size.levels, size.soak_streams),
        seconds=min(seconds + size.soak_s + size.idle_s, (caps.minutes or math.inf) * 60),
    )


def _soak(size: Sizes, turn_s: float, turn_tokens: int) -> tuple[int, int]:
    requests = size.soak_streams * max(1, math.ceil(size.soak_s / turn_s))
    return requests, requests * turn_tokens

"""What a run is about to send, said before the first request: requests, tokens, peak concurrency, time."""

from typing import Any

from signoff.core.plan import Plan
from signoff.core.printable import printable
from signoff.core.words import Gate
from signoff.judge.agent.next_step import looks
from signoff.judge.capacity.sizes import sizes
from signoff.run.agent import STREAMS_MAX
from signoff.run.capacity_plan import Planned, planned
from signoff.run.prefix import ARMS
from signoff.run.prepare import Setup

UNITS_A_PROMPT = 3.5
"""Alignment units in a prompt of the prefix gate."""
UNIT_TOKENS = 128
"""Unit of a server that does not say its own, for this estimate only."""
SAMPLE_TOKENS = 900
"""A sample of the agent packs with tools and answer, roughly."""
SAMPLE_S = 2.0
KINDS = 5
UNUSED = (
    "service.gpu_metrics",
    "start",
    "load.mix",
    "agent.caller",
    "controls",
    "review.roles",
    "rollback.minutes",
    "rollback.rehearsed",
    "retest_of",
)
"""Keys that a plan may say, that stand in the bundle with it, and that nothing reads yet."""


def announcement(setup: Setup) -> str:
    """Some lines of text; numbers are of the quiet case, and an overload adds the holds at the cap."""
    parts = {gate: _of(gate, setup) for gate in setup.gates}
    requests = sum(part.requests for part in parts.values())
    tokens = sum(part.tokens for part in parts.values())
    peak = max((part.concurrency for part in parts.values()), default=0)
    seconds = sum(part.seconds for part in parts.values())
    plan, profile = setup.plan, setup.profile
    lines = [
        f"plan {plan.name}: {setup.model} at {plan.service.base_url}",
        f"profile {profile.name} ({profile.status}, {profile.scope}), sources read {profile.checked_on}",
        f"about to send {requests:,} requests, {tokens:,} tokens, up to {peak} at once, in about {_time(seconds)}",
    ]
    if Gate.CAPACITY in setup.gates:
        size = sizes(plan, profile, setup.max_model_len)
        lines.append(f"the soak alone takes {_time(size.soak_s)}, and {_time(size.idle_s)} of rest after it")
    if said := unused(plan):
        lines.append(f"said in the plan, not used yet: {', '.join(said)}")
    if profile.scope == "simulated" or plan.service.simulated:
        lines.append("simulated service: what follows proves nothing about real hardware")
    lines.append("Ctrl-C stops; what was measured until then is kept and judged")
    return "\n".join(printable(line) for line in lines)


def unused(plan: Plan) -> tuple[str, ...]:
    """The keys of `UNUSED` that this plan sets."""
    return tuple(key for key in UNUSED if _at(plan, key))


def _at(plan: Plan, key: str) -> Any:
    value: Any = plan
    for step in key.split("."):
        value = getattr(value, step)
    return value


def _of(gate: Gate, setup: Setup) -> Planned:
    plan, profile = setup.plan, setup.profile
    if gate is Gate.CAPACITY:
        return planned(plan, profile, setup.max_model_len)
    if gate is Gate.PREFIX:
        requests = 2 + (plan.prefix.rounds or profile.floors.prefix_rounds) * ARMS
        unit = profile.cache.units[0] if profile.cache.units else UNIT_TOKENS
        tokens = requests * (plan.prefix.prompt_tokens or int(unit * UNITS_A_PROMPT))
        return Planned(requests=requests, tokens=tokens, concurrency=1, seconds=requests * 0.5)
    if gate is Gate.AGENT:
        sizes = looks(plan.agent.failure_rate, profile.floors.agent_attempts).sizes
        requests = KINDS * (sizes[0] if sizes else 0)
        return Planned(
            requests=requests,
            tokens=requests * SAMPLE_TOKENS,
            concurrency=min(STREAMS_MAX, plan.objective.concurrency.target),
            seconds=requests * SAMPLE_S / STREAMS_MAX,
        )
    return Planned(requests=0, tokens=0, concurrency=0, seconds=5.0)


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"

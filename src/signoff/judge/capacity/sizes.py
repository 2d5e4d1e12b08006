"""Sizes: how large, how many and how long the capacity stages are, by plan, profile and declared window. Pure."""

from msgspec import Struct

from signoff.core.plan import Plan
from signoff.core.profile import Profile

OUTPUT_TOKENS, LONG_OUTPUT_TOKENS = 128, 32
LOAD_OUTPUT_TOKENS, REST_OUTPUT_TOKENS, PROBE_OUTPUT_TOKENS = 8, 32, 4
"""Of the first completion, of the requests on the idle server, and of one that only asks whether it answers."""
LONG_OUTPUTS = 4
"""Times the output of the others that the long turns of the soak ask for."""
INPUT_TOKENS = 2048
UNITS_PER_PROMPT = 3
"""A prompt spans several units of the prefix cache, or its shared part could never be hit."""
SHORT_TOKENS = 512
"""The first rung of the long-input ladder: what the model can recall at all is learned here."""
RUNG_MIN, RUNGS_MAX = 1024, 8
TEMPLATE_TOKENS = 64
"""Left free for a chat template that adds more than the tokeniser endpoint counts."""
REUSE_SHARE = 0.0
"""When the plan names no reuse, no help of the cache is assumed."""


class Sizes(Struct, frozen=True, kw_only=True):
    """Tokens, requests at once, and seconds."""

    window: int | None
    """The window that the server declares; `None` when it declares none."""
    input_tokens: int
    shared_tokens: int
    """The part of `input_tokens` that every request shares."""
    output_tokens: int
    long_output_tokens: int
    rungs: tuple[int, ...]
    """Input lengths, rising. A rung that leaves no room for its output is sent shorter by that output."""
    levels: tuple[int, ...]
    """Requests at once, rising."""
    hold_s: float
    soak_streams: int
    soak_s: float
    idle_s: float


def sizes(plan: Plan, profile: Profile, max_model_len: int | None) -> Sizes:
    """What this plan asks of this service."""
    load, floors = plan.load, profile.floors
    window = max_model_len or plan.objective.input_tokens.target
    output = min(load.concurrency.output_tokens or OUTPUT_TOKENS, max(1, window // 4))
    wanted = load.concurrency.input_tokens or max(INPUT_TOKENS, UNITS_PER_PROMPT * max(profile.cache.units, default=0))
    prompt = max(16, min(wanted, window - output - min(TEMPLATE_TOKENS, window // 8)))
    share = REUSE_SHARE if load.reuse_share is None else load.reuse_share
    return Sizes(
        window=max_model_len,
        input_tokens=prompt,
        shared_tokens=int(prompt * share),
        output_tokens=output,
        long_output_tokens=min(load.long_input.output_tokens or LONG_OUTPUT_TOKENS, max(1, window // 8)),
        rungs=rungs(plan, max_model_len),
        levels=levels(plan),
        hold_s=max(plan.objective.concurrency.hold_s, floors.hold_s),
        soak_streams=load.soak.concurrency or plan.objective.concurrency.floor,
        soak_s=max(floors.soak_s, (load.soak.hours or 0.0) * 3600),
        idle_s=max(floors.soak_idle_s, load.soak.idle_s or 0.0),
    )


def rungs(plan: Plan, max_model_len: int | None) -> tuple[int, ...]:
    """Input lengths up to the target, or to the declared window where that is smaller; floor and top included."""
    wanted = plan.objective.input_tokens
    top = min(wanted.target, max_model_len or wanted.target)
    chosen = {top, min(wanted.floor, top), min(SHORT_TOKENS, top)} | set(plan.load.long_input.steps)
    rung = top // 2
    while not plan.load.long_input.steps and rung >= RUNG_MIN and len(chosen) < RUNGS_MAX:
        chosen.add(rung)
        rung //= 2
    return tuple(sorted(tokens for tokens in chosen if 0 < tokens <= top))


def levels(plan: Plan) -> tuple[int, ...]:
    """Requests at once: the plan's steps, or doublings from one; floor and target included."""
    load = plan.objective.concurrency
    chosen = {load.floor, load.target} | {step for step in plan.load.concurrency.steps if step > 0}
    step = 1
    while not plan.load.concurrency.steps and step < load.target:
        chosen.add(step)
        step *= 2
    return tuple(sorted(chosen))


def prompt_tokens(rung: int, sizes_: Sizes) -> int:
    """How long the prompt of a rung is: the rung, less its output where the window would be passed."""
    room = (sizes_.window or rung + sizes_.long_output_tokens) - sizes_.long_output_tokens
    return max(1, min(rung, room))

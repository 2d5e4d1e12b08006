"""Soak: steady traffic of short and long turns with prefixes that come again, then silence, then one more request."""

from functools import partial

from signoff.collect.capacity import prompts
from signoff.core.record import Request
from signoff.core.words import State
from signoff.judge.capacity.level import RAMP
from signoff.judge.capacity.sizes import LONG_OUTPUTS
from signoff.run.capacity_stage import REST_SAMPLES, Stage
from signoff.run.capacity_work import Turns, Work
from signoff.run.session import Events

SENTINELS = 2
CYCLE = 8
"""Of eight requests one is a sentinel, one is long, the others are short."""
KEPT_MAX = 400
"""Answers that are kept and compared, spread over the soak."""
IDLE_LOOKS = 6


async def soak(work: Work) -> Events:
    """The soak at its load, and the idle phase after it; where no load from the floor up held, the idle phase alone."""
    streams = work.soak_streams
    if streams is None:
        if not work.over:
            async for event in idle(work):
                yield event
        return
    turns, size, clock = await work.turns(), work.sizes, work.session.clock
    stage = work.stage("capacity.soak", streams)
    yield stage.begin(
        streams=streams,
        planned_s=size.soak_s,
        input_tokens=size.input_tokens,
        shared_tokens=size.shared_tokens,
        output_tokens=size.output_tokens,
    )
    async for event in stage.comes_back(partial(work.probe, stage.name)):
        yield event
    async for evidence in stage.scrape("before"):
        yield evidence
    begun_ns = clock.now_ns()
    maker = Mixing(work, stage, streams, turns, begun_ns)
    if not stage.ended:
        until_ns = begun_ns + int(size.soak_s * 1e9)
        async for event in stage.load(maker, streams=streams, until_ns=until_ns):
            yield event
    async for evidence in stage.scrape("after"):
        yield evidence
    yield stage.finish(held_s=round((clock.now_ns() - begun_ns) / 1e9, 3))
    if not work.over:
        async for event in idle(work):
            yield event


async def idle(work: Work) -> Events:
    """No request, the metrics watched; at the end one request, which must still be answered."""
    stage, clock = work.stage("capacity.idle"), work.session.clock
    yield stage.begin(1 + REST_SAMPLES, planned_s=work.sizes.idle_s)
    begun_ns = clock.now_ns()
    for look in range(IDLE_LOOKS + 1):
        await _until(stage, begun_ns + int(work.sizes.idle_s * 1e9 * look / IDLE_LOOKS))
        if stage.ended:
            break
        async for evidence in stage.scrape("idle"):
            yield evidence
    quiet_ns = clock.now_ns()
    if not stage.ended:
        async for event in stage.single(work.probe(stage.name, 0)):
            yield event
        if stage.records and stage.records[-1].state is State.OK:
            async for event in stage.at_rest(work.rest):
                yield event
    async for evidence in stage.scrape("after"):
        yield evidence
    yield stage.finish(idle_s=round((quiet_ns - begun_ns) / 1e9, 3), quiet_until_ns=quiet_ns)


async def _until(stage: Stage, at_ns: int) -> None:
    """Sleep, in steps short enough that an interrupt is heard."""
    clock = stage.session.clock
    while not stage.ended and clock.now_ns() < at_ns:
        await clock.sleep_until(min(at_ns, clock.now_ns() + 250_000_000))


class Mixing:
    """Makes the mix. Sentinels come round in turn; kept answers are spread evenly over the soak."""

    def __init__(self, work: Work, stage: Stage, streams: int, turns: Turns, begun_ns: int) -> None:
        self._work, self._stage, self._streams, self._turns = work, stage, streams, turns
        self._made = 0
        self._keep_next_ns = begun_ns
        self._keep_step_ns = int(work.sizes.soak_s * 1e9 / KEPT_MAX)

    def __call__(self, _: int) -> Request:
        index, run, size = self._made, self._work.session.run_id, self._work.sizes
        self._made += 1
        now_ns = self._work.session.clock.now_ns()
        keep = now_ns >= self._keep_next_ns
        if keep:
            self._keep_next_ns = now_ns + self._keep_step_ns
        arm = {CYCLE - 1: "long", CYCLE // 2: "sentinel"}.get(index % CYCLE, "short")
        labels = {"wave": RAMP if index < self._streams else "steady", "arm": arm}
        output = size.output_tokens * LONG_OUTPUTS if arm == "long" else size.output_tokens
        if arm == "sentinel":
            which = index // CYCLE % SENTINELS
            fact = prompts.needle(run, "sentinel", which)
            labels["sentinel"] = str(which)
            messages = prompts.sentinel_messages(
                self._work.corpus, self._turns.sentinel, fact, run, which, index // CYCLE
            )
        else:
            fact = prompts.needle(run, self._stage.name, index)
            own = self._turns.long_own if arm == "long" else self._turns.own
            messages = prompts.turn_messages(
                self._work.corpus, self._turns.shared, own, fact, run, self._stage.name, index
            )
        if keep:
            labels["expect"] = fact.value
        return self._work.request(self._stage.name, messages, output, labels, keep=keep)

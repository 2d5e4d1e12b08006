"""Concurrency: more and more requests at once, and after an overload the candidate cap, held again and again.

What is tried next is `judge.capacity.next_step`'s to say; this loop sends, stores and asks.
"""

from collections.abc import AsyncIterator
from functools import partial

from signoff.collect.capacity import prompts
from signoff.core.events import Event
from signoff.core.record import Record, Request
from signoff.core.words import Outcome
from signoff.judge.capacity import window
from signoff.judge.capacity.honest import honest
from signoff.judge.capacity.level import RAMP, Level, client_tests, level, spoiled
from signoff.judge.capacity.next_step import Try, next_try, soak_streams
from signoff.run.capacity_stage import Stage
from signoff.run.capacity_work import Turns, Work
from signoff.run.session import Events

CHECK_EVERY, CHECKS_MAX = 8, 40
"""Every eighth answer is kept, to a bound, and compared with what was asked; of one stream, the control, each is."""
ATTEMPTS_MAX, ATTEMPT_S_MAX = 3, 20.0
"""Holds of one load, when the client itself was the bottleneck in those before and they were short."""
LONGEST_HOLDS, LONGEST_S = 10.0, 600.0
"""A load that does not see its requests within so many holds, or seconds, ends with those it saw."""


async def climb(work: Work) -> Events:
    turns = await work.turns()
    seen: list[Level] = []
    records: list[Record] = []
    profile, plan = work.session.profile, work.session.plan
    while not work.over and (wanted := next_try(seen, work.sizes, plan, profile)) is not None:
        stage = work.stage(wanted.stage, wanted.streams)
        async for event in hold(work, stage, wanted, turns):
            yield event
        records += stage.records
        sent = honest(records, work.sizes)
        seen.append(
            level(
                wanted.stage,
                wanted.streams,
                [r for r in sent if r.stage == stage.name and r.labels.get("arm") != "probe"],
                [window.table_of(url, scrapes) for url, scrapes in stage.scrapes.items()],
                plan.objective.limits,
                requests_min=wanted.requests_min,
                samples_min=min(profile.floors.latency_samples, wanted.requests_min),
                hold_s=wanted.hold_s,
                input_tokens=work.sizes.input_tokens,
                stopped=stage.stopped,
            )
        )
    work.soak_streams = soak_streams(seen, work.sizes, plan.objective.concurrency.floor)


async def hold(work: Work, stage: Stage, wanted: Try, turns: Turns) -> AsyncIterator[Event]:
    """One load, for its time and until it has seen its requests."""
    clock, size = work.session.clock, work.sizes
    yield stage.begin(
        wanted.streams + wanted.requests_min,
        streams=wanted.streams,
        hold_s=wanted.hold_s,
        requests_min=wanted.requests_min,
        input_tokens=size.input_tokens,
        shared_tokens=size.shared_tokens,
        output_tokens=size.output_tokens,
    )
    async for event in stage.comes_back(partial(work.probe, stage.name)):
        yield event
    async for evidence in stage.scrape("before"):
        yield evidence
    begun_ns = clock.now_ns()
    maker = Turning(work, stage, wanted.streams, turns)
    for attempt in range(1, ATTEMPTS_MAX + 1):
        maker.attempt(attempt)
        tried_ns = clock.now_ns()
        async for event in _attempt(work, stage, wanted, maker):
            yield event
        long_ = clock.now_ns() - tried_ns > ATTEMPT_S_MAX * 1e9
        own = _of(work, stage, attempt)
        if stage.ended or long_ or not spoiled(own) or not _undecided(work, own, wanted):
            break
    async for evidence in stage.scrape("after"):
        yield evidence
    yield stage.finish(held_s=round((clock.now_ns() - begun_ns) / 1e9, 3))


async def _attempt(work: Work, stage: Stage, wanted: Try, maker: "Turning") -> AsyncIterator[Event]:
    """The hold, and then as many more requests as are missing."""
    clock, begun_ns = work.session.clock, work.session.clock.now_ns()
    last_ns = begun_ns + int(max(LONGEST_HOLDS * wanted.hold_s, LONGEST_S) * 1e9)
    if not stage.ended:
        until_ns = begun_ns + int(wanted.hold_s * 1e9)
        async for event in stage.load(maker, streams=wanted.streams, until_ns=until_ns):
            yield event
    for _ in range(2):
        missing = _missing(work, _of(work, stage, maker.number), wanted)
        if stage.ended or not missing or clock.now_ns() >= last_ns:
            return
        maker.ramp()
        async for event in stage.load(maker, streams=wanted.streams, requests=wanted.streams + missing):
            yield event


def _of(work: Work, stage: Stage, attempt: int) -> list[Record]:
    return [r for r in honest(stage.records, work.sizes) if r.labels.get("attempt") == str(attempt)]


def _missing(work: Work, records: list[Record], wanted: Try) -> int:
    """Requests that this load still must see: its least number, and as many again while the client's own numbers leave
    a limit undecided."""
    steady = [r for r in records if r.labels.get("wave") != RAMP]
    if len(steady) < wanted.requests_min:
        return wanted.requests_min - len(steady)
    return len(steady) if _undecided(work, records, wanted) and not spoiled(records) else 0


def _undecided(work: Work, records: list[Record], wanted: Try) -> bool:
    limits = work.session.plan.objective.limits
    samples_min = min(work.session.profile.floors.latency_samples, wanted.requests_min)
    tests = client_tests(records, limits, wanted.requests_min, samples_min)
    return any(t.outcome is Outcome.INCONCLUSIVE and t.limit is not None for t in tests)


class Turning:
    """Makes the turns of one load: the first of each wave are its ramp, every eighth answer is kept and compared."""

    def __init__(self, work: Work, stage: Stage, streams: int, turns: Turns) -> None:
        self._work, self._stage, self._streams, self._turns = work, stage, streams, turns
        self._made = self._kept = 0
        self._ramp_until = streams
        self.number = 1

    def attempt(self, number: int) -> None:
        """Begin the load again: what the client itself spoiled proves nothing."""
        self.number = number
        self.ramp()

    def ramp(self) -> None:
        """The next requests start together again."""
        self._ramp_until = self._made + self._streams

    def __call__(self, _: int) -> Request:
        index, run = self._made, self._work.session.run_id
        self._made += 1
        every = CHECK_EVERY if self._streams > 1 else 1
        keep = index % every == 0 and self._kept < CHECKS_MAX
        self._kept += keep
        fact = prompts.needle(run, self._stage.name, index)
        messages = prompts.turn_messages(
            self._work.corpus, self._turns.shared, self._turns.own, fact, run, self._stage.name, index
        )
        labels = {"wave": RAMP if index < self._ramp_until else "steady", "attempt": str(self.number)}
        if keep:
            labels["expect"] = fact.value
        return self._work.request(self._stage.name, messages, self._work.sizes.output_tokens, labels, keep=keep)

"""The agent gate's loop: are tools taken and rendered, then every kind in both lanes, the gateway, and the effects.

agent.template   two counts of the prompt, with tools and without; one request that offers tools
agent.<kind>     a few attempts alone, the rest together, more only while the rate is undecided
agent.gateway    the same samples through the gateway, counters of the server before and after
agent.effects    a small tool loop with a ledger of what was asked and what was carried out
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from msgspec import Struct
from msgspec.structs import replace

from signoff.collect.agent.attempts import (
    LABORATORY_TOKENS,
    PLAIN_TOKENS,
    THINKING_TOKENS,
    Options,
    attempts,
    request_of,
)
from signoff.collect.agent.effects import INTENTS, EffectLoop
from signoff.collect.agent.effects import STAGE as EFFECTS
from signoff.collect.agent.gateway import STAGE as GATEWAY
from signoff.collect.agent.gateway import counters, gateway_request
from signoff.collect.agent.template import STAGE as TEMPLATE
from signoff.collect.agent.template import probe_request, probe_sample, tokenize_tools
from signoff.collect.client import HttpClient
from signoff.collect.control import Control
from signoff.collect.load import closed_loop, send_or_stop
from signoff.core.codec import to_json
from signoff.core.events import EvidenceTaken, Progress, RecordTaken, StageFinished, StageStarted
from signoff.core.evidence import Value
from signoff.core.profile import Profile
from signoff.core.protocols import Client
from signoff.core.record import Exchange, Request
from signoff.core.sample import KINDS, Kind, Pack
from signoff.core.words import Gate, State
from signoff.judge.agent.attempt import failure_in
from signoff.judge.agent.next_step import Looks, attempts_wanted, planned_looks
from signoff.read.completion import read_completion
from signoff.run.packs import load_packs
from signoff.run.rails import Rails
from signoff.run.session import Events, Session

STREAMS_MAX = 8
ALONE = 2
"""Attempts of a kind that are sent with nothing else in flight: one streamed, one whole."""
SETTLE_S = 0.3
"""Time that counters get after the last answer before they are read."""


class Course(Struct, frozen=True, kw_only=True):
    """What the loop's parts share."""

    session: Session
    pack: Pack
    options: Options
    plan: Looks
    rails: Rails

    @property
    def streams(self) -> int:
        return max(1, min(STREAMS_MAX, self.session.plan.objective.concurrency.target))


def course_of(session: Session, rails: Rails) -> Course:
    """What plan and profile make of the gate."""
    agent, profile = session.plan.agent, session.profile
    pack = load_packs(agent.packs)
    return Course(
        session=session,
        pack=pack,
        options=Options(
            model=session.model,
            run_id=session.run_id,
            seed=session.plan.seed,
            thinking=bool(profile.thinking_efforts),
            tokens=budget(profile, thinks=False),
            full=agent.matrix == "full",
        ),
        plan=planned_looks(session.plan, profile, pack),
        rails=rails,
    )


def budget(profile: Profile, *, thinks: bool) -> int:
    """Output tokens of a request; `thinks`: the probe's answer held thoughts though the profile tells of none."""
    if profile.thinking_efforts or profile.reasoning_parser or thinks:
        return THINKING_TOKENS
    return LABORATORY_TOKENS if profile.scope == "laboratory" else PLAIN_TOKENS


async def run_agent(session: Session, gateway: Client | None = None) -> Events:
    """Runs the gate; ends within two seconds of `session.stop`. `gateway` takes the place of an own client to it."""
    with Rails(session) as rails:
        async for event in _gate(course_of(session, rails), gateway):
            yield event


async def _gate(course: Course, gateway: Client | None) -> Events:
    session, halt = course.session, course.rails.halt
    taken = session.store.keep(
        to_json(course.pack),
        kind="agent_pack",
        source=", ".join(session.plan.agent.packs) or "the samples that come with the product",
        where=session.plan.service.base_url,
        taken_ns=session.clock.now_ns(),
        conditions={"name": course.pack.name, "version": course.pack.version, "samples": len(course.pack.samples)},
        media_type="application/json",
    )
    yield EvidenceTaken(evidence=taken)
    template = Template(course)
    async for event in template.run():
        yield event
    options = replace(course.options, auto=template.tools_taken, tokens=budget(session.profile, thinks=template.thinks))
    course = replace(course, options=options)
    async for event in _count(course, "direct", "before"):
        yield event
    for kind in KINDS:
        if not halt.is_set() and (kind == "structured" or not template.refused):
            async for event in _kind(course, kind):
                yield event
    async for event in _count(course, "direct", "after"):
        yield event
    if template.refused or halt.is_set():
        return
    async for event in _by_production(course, gateway):
        yield event


def _begin(session: Session, stage: str, planned: int, **conditions: Value) -> StageStarted:
    event = StageStarted(
        stage=stage,
        gate=Gate.AGENT,
        at_ns=session.clock.now_ns(),
        conditions=conditions,
        planned_requests=planned,
    )
    session.store.note(event)
    return event


def _end(course: Course, stage: str, **conditions: Value) -> StageFinished:
    session = course.session
    event = StageFinished(
        stage=stage,
        gate=Gate.AGENT,
        at_ns=session.clock.now_ns(),
        stopped=course.rails.why,
        conditions=conditions,
    )
    session.store.note(event)
    return event


def _take(course: Course, exchange: Exchange) -> RecordTaken:
    record = course.session.store.take(exchange, keep=True)
    course.rails.add(record)
    return RecordTaken(exchange=replace(exchange, record=record))


class Template:
    """The stage `agent.template`; afterwards it knows whether tools are taken, and how."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.tools_taken = True
        """Whether tool choice `auto` is."""
        self.refused = False
        """Whether tools are refused however they are offered."""
        self.thinks = False
        """Whether the answer held thoughts, in their field or not."""

    async def run(self) -> Events:
        session, pack = self.course.session, self.course.pack
        sample = probe_sample(pack)
        if sample is None or self.course.rails.halt.is_set():
            return
        yield _begin(session, TEMPLATE, 2, sample=sample.id)
        async with Control(session.plan.service) as control:
            cards = await tokenize_tools(control, session.store, session.clock, session.model, pack, sample)
        for card in cards:
            yield EvidenceTaken(evidence=card)
        asked = [("auto", True, "auto", 64)]
        if any(card.missing for card in cards):
            asked += [("usage_with", True, "auto", 1), ("usage_without", False, "auto", 1)]
        for what, tools, choice, tokens in asked:
            exchange = await self._send(what, tools, choice, tokens)
            if exchange is not None:
                yield _take(self.course, exchange)
                if what == "auto":
                    self.tools_taken = not _refuses(exchange)
                    answer = read_completion(exchange.response)
                    self.thinks = bool(answer.reasoning) or "<think>" in (answer.content or "")
        if not self.tools_taken:
            exchange = await self._send("required", True, "required", 64)
            if exchange is not None:
                yield _take(self.course, exchange)
            self.refused = exchange is None or _refuses(exchange)
        yield _end(self.course, TEMPLATE)

    async def _send(self, what: str, tools: bool, choice: str, tokens: int) -> Exchange | None:
        session, pack = self.course.session, self.course.pack
        sample = probe_sample(pack)
        assert sample is not None
        request = probe_request(
            pack, sample, session.model, session.run_id, what=what, tools=tools, choice=choice, tokens=tokens
        )
        return await send_or_stop(session.client, request, session.clock.now_ns(), self.course.rails.halt)


def _refuses(exchange: Exchange) -> bool:
    """The server said that it does not take such a request; anything else is no refusal."""
    record = exchange.record
    return record.state is State.HTTP_ERROR and record.status in (400, 404, 422, 501)


async def _kind(course: Course, kind: Kind) -> Events:
    """One kind: alone, together, and on while undecided."""
    session = course.session
    stage = f"agent.{kind}"
    if not course.pack.of_kind(kind):
        return
    yield _begin(
        session,
        stage,
        course.plan.sizes[0] if course.plan.sizes else 0,
        pack=course.pack.name,
        pack_digest=course.pack.digest(),
        streams=course.streams,
        attempts_max=course.plan.sizes[-1] if course.plan.sizes else 0,
        thinking_varied=course.options.thinking,
    )
    failed = tried = 0
    wanted = attempts_wanted(0, 0, course.plan)
    while tried < wanted and not course.rails.halt.is_set():
        before = tried
        async for exchange, event in _batch(course, kind, tried, wanted):
            yield event
            if exchange.record.state is not State.ABORTED:
                tried += 1
                failed += failure_in(event.exchange.record, exchange.response, course.pack) is not None
                yield Progress(stage=stage, done=tried, planned=wanted)
        if tried == before:
            break
        wanted = max(wanted, attempts_wanted(failed, tried, course.plan))
    yield _end(course, stage, attempts=tried)


async def _batch(course: Course, kind: Kind, first: int, end: int) -> AsyncIterator[tuple[Exchange, RecordTaken]]:
    """Attempts `first` to `end` of a kind: the first two of all alone, then the rest together."""
    alone_end = max(first, min(ALONE, end))
    made = attempts(course.pack, kind, range(first, alone_end), course.options, alone=True)
    together = attempts(course.pack, kind, range(alone_end, end), course.options)
    session = course.session
    for part, streams in ((made, 1), (together, course.streams)):
        requests = [request_of(attempt, course.pack, course.options) for attempt in part]
        async for exchange in _posted(course, session.client, requests, streams):
            yield exchange, _take(course, exchange)


async def _effects(course: Course, client: Client, via: str) -> Events:
    """The tool loop by the way that production takes."""
    session = course.session
    if course.rails.halt.is_set():
        return
    loop = EffectLoop(course.options, via)
    firsts: list[Exchange] = []
    yield _begin(session, EFFECTS, 2 * INTENTS, via=via)
    for turn in (1, 2):
        requests = loop.first_turns() if turn == 1 else loop.second_turns(firsts)
        async for exchange in _posted(course, client, requests, course.streams):
            yield _take(course, exchange)
            loop.take(exchange)
            if turn == 1:
                firsts.append(exchange)
    ledger = session.store.keep(
        to_json(loop.ledger()),
        kind="effect_ledger",
        source="tool loop of this run",
        where=(session.plan.service.gateway_url if via == "gateway" else None) or session.plan.service.base_url,
        taken_ns=session.clock.now_ns(),
        stage=EFFECTS,
        conditions={"via": via, "intents": INTENTS, "stopped": course.rails.halt.is_set()},
        media_type="application/json",
    )
    yield EvidenceTaken(evidence=ledger)
    yield _end(course, EFFECTS)


async def _by_production(course: Course, gateway: Client | None) -> Events:
    """The effects, and before them the same samples through the gateway where there is one."""
    session, url = course.session, course.session.plan.service.gateway_url
    if url is None or url == "none":
        async for event in _effects(course, session.client, "direct"):
            yield event
        return
    async with AsyncExitStack() as stack:
        client = gateway
        if client is None:
            service = replace(session.plan.service, base_url=url.rstrip("/"))
            client = await stack.enter_async_context(HttpClient(service, session.clock))
        async for event in _through_gateway(course, client):
            yield event
        async for event in _effects(course, client, "gateway"):
            yield event


async def _through_gateway(course: Course, client: Client) -> Events:
    """Every kind through the gateway, with the server's own counters before and after."""
    session = course.session
    if course.rails.halt.is_set():
        return
    each = course.session.profile.floors.agent_attempts
    part = [
        attempt
        for kind in KINDS
        for attempt in attempts(course.pack, kind, range(each + each % 2), course.options, via="gateway")
    ]
    yield _begin(session, GATEWAY, len(part), streams=course.streams, gateway_url=session.plan.service.gateway_url)
    done = 0
    async for event in _count(course, "gateway", "before"):
        yield event
    requests = [gateway_request(attempt, course.pack, course.options) for attempt in part]
    async for exchange in _posted(course, client, requests, course.streams):
        yield _take(course, exchange)
        done += 1
        yield Progress(stage=GATEWAY, done=done, planned=len(part))
    async for event in _count(course, "gateway", "after"):
        yield event
    yield _end(course, GATEWAY, attempts=done)


async def _count(course: Course, what: str, when: str) -> Events:
    """The servers' own counters, once they have settled; only where a gateway's doings must be told from others'."""
    session = course.session
    if session.plan.service.gateway_url in (None, "none") or course.rails.halt.is_set():
        return
    await session.clock.sleep_until(session.clock.now_ns() + int(SETTLE_S * 1e9))
    async with Control(session.plan.service) as control:
        cards = await counters(
            control,
            session.store,
            session.clock,
            session.plan.metrics_urls(),
            what=what,
            when=when,
            stage=GATEWAY if what == "gateway" else "",
        )
    for card in cards:
        yield EvidenceTaken(evidence=card)


async def _posted(course: Course, client: Client, requests: Sequence[Request], streams: int) -> AsyncIterator[Exchange]:
    if not requests or course.rails.halt.is_set():
        return
    async for exchange in closed_loop(
        client,
        course.session.clock,
        requests.__getitem__,
        streams=streams,
        stop=course.rails.halt,
        requests=len(requests),
    ):
        yield exchange

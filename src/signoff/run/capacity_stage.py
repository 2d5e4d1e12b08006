"""One stage of the capacity gate while it runs: its events, its border scrapes, its losses and why it ended early.

start -> [probe after a loss] -> scrape -> requests ... -> scrape -> finish
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from signoff.collect.control import Control
from signoff.collect.load import closed_loop
from signoff.core.events import Event, EvidenceTaken, Progress, RecordTaken, StageFinished, StageStarted
from signoff.core.evidence import Evidence, Value
from signoff.core.record import Exchange, Record, Request
from signoff.core.words import Gate, State
from signoff.run.session import Session

LOST_SPARE = 8
"""Connections refused or cut in a row, beyond one for each stream, after which the service counts as lost."""
SETTLE_S = 0.15
"""The server counts a request a moment after its last byte has left: the border scrape waits for that."""
SCRAPE_TIMEOUT_S = 5.0
REST_SAMPLES = 5
LOOKS, LOOK_S = 5, 30.0
"""Scrapes inside a hold that is shorter than this; longer ones are left to the scraper."""
COMES_BACK_TRIES, COMES_BACK_PAUSE_S = 3, 0.4
LOST = (State.REFUSED, State.RESET)
HUNG = (State.STALLED, State.TIMEOUT)


class Spent:
    """What the gate has sent and used so far, against the plan's guard rails. `None` in the plan: no such rail."""

    def __init__(self, session: Session) -> None:
        self._caps, self._clock, self._begun_ns = session.plan.caps, session.clock, session.clock.now_ns()
        self.requests = self.tokens = 0

    def add(self, record: Record) -> None:
        self.requests += 1
        self.tokens += (record.prompt_tokens or 0) + (record.completion_tokens or 0)

    @property
    def over(self) -> bool:
        minutes = (self._clock.now_ns() - self._begun_ns) / 60e9
        pairs = (
            (self._caps.requests, self.requests),
            (self._caps.tokens, self.tokens),
            (self._caps.minutes, minutes),
        )
        return any(cap is not None and used >= cap for cap, used in pairs)


class Health:
    """Whether the service answered lately; one for the gate, so that a stage after a loss looks before it loads."""

    def __init__(self) -> None:
        self.lost = False
        self.given_up = False
        """It was waited for once and did not come back: later stages look once and go on."""
        self._refused = self._hung = 0

    def see(self, record: Record, streams: int) -> str:
        """`service_lost` or `service_stalled` when so many in a row were, else empty."""
        self._refused = self._refused + 1 if record.state in LOST else 0
        self._hung = self._hung + 1 if record.state in HUNG else 0
        if record.state is State.OK:
            self.lost = self.given_up = False
        if self._refused >= streams + LOST_SPARE:
            self.lost = True
            return "service_lost"
        if self._hung >= max(2, streams):
            self.lost = True
            return "service_stalled"
        return ""


class Stage:
    """A stage in progress. `stopped` says why it ended before its plan, empty while it did not."""

    def __init__(
        self, session: Session, control: Control, spent: Spent, health: Health, name: str, streams: int = 1
    ) -> None:
        self.session, self.control, self.spent, self.health = session, control, spent, health
        self.name, self.streams = name, streams
        self.stopped = ""
        self.stop = asyncio.Event()
        self.records: list[Record] = []
        self.scrapes: dict[str, list[tuple[int, bytes]]] = {}
        self._keep: set[str] = set()

    def begin(self, planned_requests: int = 0, **conditions: Value) -> StageStarted:
        event = StageStarted(
            stage=self.name,
            gate=Gate.CAPACITY,
            at_ns=self.session.clock.now_ns(),
            conditions=conditions,
            planned_requests=planned_requests,
        )
        self.session.store.note(event)
        return event

    def finish(self, **conditions: Value) -> StageFinished:
        if self.session.stop.is_set():
            self.stopped = self.stopped or "interrupted"
        if self.records and self.records[-1].state in (*LOST, *HUNG):
            self.health.lost = True  # perhaps: the next stage asks before it loads
        event = StageFinished(
            stage=self.name,
            gate=Gate.CAPACITY,
            at_ns=self.session.clock.now_ns(),
            stopped=self.stopped,
            conditions=conditions,
        )
        self.session.store.note(event)
        return event

    @property
    def ended(self) -> bool:
        return bool(self.stopped) or self.session.stop.is_set()

    async def scrape(self, at: str) -> AsyncIterator[EvidenceTaken]:
        """One scrape of every server, raw, as evidence of this stage."""
        if at == "after" and not self.session.stop.is_set():
            await asyncio.sleep(SETTLE_S)
        for evidence in await self._scraped(at):
            yield EvidenceTaken(evidence=evidence)

    async def _scraped(self, at: str) -> list[Evidence]:
        taken = []
        for url in self.session.plan.metrics_urls():
            answer = await self.control.get(url, SCRAPE_TIMEOUT_S)
            store, taken_ns = self.session.store, self.session.clock.now_ns()
            about: dict[str, Any] = {"kind": "scrape", "source": "GET /metrics", "where": url, "stage": self.name}
            about |= {"taken_ns": taken_ns, "conditions": {"at": at}}
            if answer.ok:
                self.scrapes.setdefault(url, []).append((taken_ns, answer.body))
                taken.append(store.keep(answer.body, **about, media_type="text/plain"))
            else:
                taken.append(store.miss(answer.error or f"HTTP {answer.status}", **about))
        return taken

    async def _look(self, until_ns: int, taken: list[Evidence]) -> None:
        """A few scrapes between now and `until_ns`: the scraper's one a second is too few for a hold of seconds."""
        begun_ns, clock = self.session.clock.now_ns(), self.session.clock
        for look in range(1, LOOKS + 1):
            await clock.sleep_until(begun_ns + (until_ns - begun_ns) * look // (LOOKS + 1))
            taken += await self._scraped("during")

    async def comes_back(self, probe: Callable[[int], Request]) -> AsyncIterator[Event]:
        """After a loss: a few single requests; when none succeeds the stage is over before it loads anything."""
        for attempt in range(1 if self.health.given_up else COMES_BACK_TRIES):
            if not self.health.lost or self.session.stop.is_set():
                return
            async for event in self.single(probe(attempt)):
                yield event
            if self.health.lost:
                await asyncio.sleep(COMES_BACK_PAUSE_S)
        if self.health.lost:
            self.health.given_up = True
            self.stopped = "service_lost"

    async def single(self, request: Request) -> AsyncIterator[Event]:
        """One request by itself."""
        async for event in self.load(lambda _: request, streams=1, requests=1):
            yield event

    async def at_rest(self, make: Callable[[str, int], Request]) -> AsyncIterator[Event]:
        """A few single requests on an otherwise idle server, to compare its pace before and after all load."""
        for index in range(REST_SAMPLES):
            if self.ended:
                return
            async for event in self.single(make(self.name, index)):
                yield event

    async def load(
        self,
        make: Callable[[int], Request],
        *,
        streams: int,
        requests: int | None = None,
        until_ns: int | None = None,
    ) -> AsyncIterator[Event]:
        """Keep `streams` requests in flight; every record is appended before it is yielded."""
        looks: list[Evidence] = []
        short = until_ns is not None and until_ns - self.session.clock.now_ns() <= LOOK_S * 1e9
        looking = asyncio.ensure_future(self._look(until_ns, looks)) if short and until_ns is not None else None
        with _linked(self.session.stop, self.stop):
            flow = closed_loop(
                self.session.client,
                self.session.clock,
                lambda index: self._noted(make(index)),
                streams=streams,
                stop=self.stop,
                requests=requests,
                until_ns=until_ns,
            )
            async for exchange in flow:
                yield self._take(exchange)
                while looks:
                    yield EvidenceTaken(evidence=looks.pop(0))
                yield Progress(stage=self.name, done=len(self.records), planned=requests or 0)
        if looking is not None:
            looking.cancel()

    def _noted(self, request: Request) -> Request:
        if request.keep:
            self._keep.add(request.id)
        return request

    def _take(self, exchange: Exchange) -> RecordTaken:
        record = self.session.store.take(exchange, exchange.record.id in self._keep)
        self._keep.discard(record.id)
        self.records.append(record)
        self.spent.add(record)
        lost = self.health.see(record, self.streams)
        if not self.stopped:
            self.stopped = lost or ("guard_rail" if self.spent.over else "")
        if self.stopped:
            self.stop.set()
        return RecordTaken(exchange=Exchange(record=record, request=exchange.request, response=exchange.response))


class _linked:  # noqa: N801 - reads as a statement
    """While inside, the inner event is set as soon as the outer one is."""

    def __init__(self, outer: asyncio.Event, inner: asyncio.Event) -> None:
        self._outer, self._inner = outer, inner
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        async def watch() -> None:
            await self._outer.wait()
            self._inner.set()

        self._task = asyncio.get_running_loop().create_task(watch())

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

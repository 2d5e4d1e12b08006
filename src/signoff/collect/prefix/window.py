"""One request at a time, a scrape before and after it: what the counters moved by is that request's, or it shows."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from signoff.collect.control import Control
from signoff.collect.load import send_or_stop
from signoff.collect.prefix.excerpt import cache_lines
from signoff.core.evidence import Evidence, Value
from signoff.core.protocols import Client, Clock, Store
from signoff.core.record import Exchange, Record, Request
from signoff.core.words import State
from signoff.read.prefix_cache import cache_counters
from signoff.read.scrape import read_scrape

T = TypeVar("T")
SETTLE_S = (0.0, 0.03, 0.1, 0.25)
"""Waits before scraping again when the counters have not yet said that the request ended."""


async def or_stop(work: Awaitable[T], stop: asyncio.Event) -> T | None:
    """What `work` comes to; `None`, and the work cancelled, when `stop` is set first."""
    doing, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        stopping.cancel()


class Scraped(Struct, frozen=True, kw_only=True):
    """One look at every metrics URL of the plan."""

    cards: tuple[Evidence, ...]
    series: Mapping[str, Mapping[str, float]]
    """Series of each URL that answered."""

    @property
    def finished(self) -> float:
        """Requests that the servers say they finished."""
        return sum(cache_counters(series).requests_finished or 0.0 for series in self.series.values())

    @property
    def busy(self) -> float | None:
        """Running and waiting requests; `None` when no server says."""
        seen = [
            (counters.running or 0.0) + (counters.waiting or 0.0)
            for counters in (cache_counters(series) for series in self.series.values())
            if counters.running is not None
        ]
        return sum(seen) if seen else None


class Sent(Struct, frozen=True, kw_only=True):
    """A request with what was seen around it."""

    exchange: Exchange
    record: Record
    before: Scraped
    after: Scraped


class Window:
    """Sends, scrapes and stores; a request is stored before anyone sees it."""

    def __init__(
        self,
        *,
        control: Control,
        client: Client,
        store: Store,
        clock: Clock,
        urls: Sequence[str],
        stage: str,
        stop: asyncio.Event,
    ) -> None:
        self._control, self._client, self._store, self._clock = control, client, store, clock
        self._urls, self._stage, self._stop = tuple(urls), stage, stop

    async def scrape(self, conditions: dict[str, Value], whole: bool = False) -> Scraped:
        """Scrape every URL and store what it said, or why it did not."""
        return self._stored(await self._look(), conditions, whole)

    async def busy(self) -> float | None:
        """Running and waiting requests now, not stored; `None` when no server says."""
        return self._stored(await self._look(), None, False).busy

    async def send(self, request: Request, client: Client | None = None) -> Sent:
        """Send `request` alone, by `client` where it goes another way than the rest.

        When `stop` is set meanwhile it is cancelled and recorded as aborted."""
        conditions: dict[str, Value] = {"record": request.id, **request.labels}
        before = await self.scrape({**conditions, "when": "before"})
        exchange = await self._sent(request, client or self._client)
        record = self._store.take(exchange, keep=True)
        raw: dict[str, tuple[bytes, str, int]] = {}
        for wait_s in SETTLE_S:
            if wait_s:
                await asyncio.sleep(wait_s)
            raw = await self._look()
            if self._stop.is_set() or self._stored(raw, None, False).finished > before.finished:
                break
        after = self._stored(raw, {**conditions, "when": "after"}, False)
        return Sent(
            exchange=Exchange(record=record, request=exchange.request, response=exchange.response),
            record=record,
            before=before,
            after=after,
        )

    async def _look(self) -> dict[str, tuple[bytes, str, int]]:
        """Body, error and instant of every URL."""
        answers = await or_stop(asyncio.gather(*(self._control.get(url) for url in self._urls)), self._stop)
        now = self._clock.now_ns()
        if answers is None:
            return dict.fromkeys(self._urls, (b"", "stopped", now))
        return {
            url: (answer.body, "" if answer.ok else answer.error or f"HTTP {answer.status}", now)
            for url, answer in zip(self._urls, answers, strict=True)
        }

    def _stored(
        self, looked: Mapping[str, tuple[bytes, str, int]], conditions: dict[str, Value] | None, whole: bool
    ) -> Scraped:
        cards: list[Evidence] = []
        series: dict[str, Mapping[str, float]] = {}
        for url, (body, error, taken_ns) in looked.items():
            kept = body if whole else cache_lines(body)
            if not error:
                series[url] = read_scrape(kept).series
            if conditions is None:
                continue
            about: dict[str, Value] = {**conditions, "excerpt": not whole}
            source = "GET /metrics"
            if error:
                cards.append(
                    self._store.miss(
                        error,
                        kind="scrape",
                        source=source,
                        where=url,
                        taken_ns=taken_ns,
                        stage=self._stage,
                        conditions=about,
                    )
                )
            else:
                cards.append(
                    self._store.keep(
                        kept,
                        kind="scrape",
                        source=source,
                        where=url,
                        taken_ns=taken_ns,
                        stage=self._stage,
                        conditions=about,
                        media_type="text/plain",
                    )
                )
        return Scraped(cards=tuple(cards), series=series)

    async def _sent(self, request: Request, client: Client) -> Exchange:
        planned_ns = self._clock.now_ns()
        exchange = await send_or_stop(client, request, planned_ns, self._stop)
        return exchange if exchange is not None else self._aborted(request, planned_ns)

    def _aborted(self, request: Request, planned_ns: int) -> Exchange:
        record = Record(
            id=request.id,
            gate=request.gate,
            stage=request.stage,
            labels=request.labels,
            stream=request.stream,
            state=State.ABORTED,
            planned_ns=planned_ns,
            sent_ns=planned_ns,
            end_ns=self._clock.now_ns(),
            error="stopped",
        )
        return Exchange(record=record, request=request.body, response=b"")

"""Load: who is sent when. Exchanges come out as they end; a stop hangs up on what is in flight and still yields it.

closed_loop   so many in flight, the next as soon as one ends
send_or_stop  one request that an operator's stop may cut
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from signoff.collect.client import HANG_UP
from signoff.core.protocols import Client, Clock
from signoff.core.record import Exchange, Request

HANG_UP_S = 2.0
"""A client that does not give its record within this after a hang-up loses it."""

START_TOGETHER = 16
MAKING_NS_MAX = 2_000_000


class _Maker:
    """Makes requests one after another, however many lanes ask at once, and lets the loop read in between: prompts of
    a hundred thousand tokens take milliseconds each, and thirty in one turn of the loop would stamp every read late."""

    def __init__(self, make: Callable[[int], Request]) -> None:
        self._make = make
        self._one = asyncio.Lock()
        self._spent_ns = 0

    async def request(self, number: int) -> Request:
        async with self._one:
            began = time.perf_counter_ns()
            made = self._make(number)
            self._spent_ns += time.perf_counter_ns() - began
            if self._spent_ns > MAKING_NS_MAX:
                self._spent_ns = 0
                await asyncio.sleep(0)
            return made


async def closed_loop(
    client: Client,
    clock: Clock,
    make: Callable[[int], Request],
    *,
    streams: int,
    stop: asyncio.Event,
    requests: int | None = None,
    until_ns: int | None = None,
    spread_s: float = 0.0,
) -> AsyncIterator[Exchange]:
    """Keeps `streams` requests in flight until `requests` were sent, `until_ns` passed, or `stop` is set.

    `make(k)` gives the k-th request, from 0. Lane i starts at i/streams of `spread_s`; its later requests are planned
    for the instant the one before ended. After `until_ns` nothing is sent and what is in flight ends by itself."""
    if streams < 1:
        raise ValueError("a closed loop needs a stream")
    began, numbers = clock.now_ns(), iter(range(requests)) if requests is not None else _count()
    done: asyncio.Queue[Exchange | None] = asyncio.Queue()
    maker = _Maker(make)

    async def lane(index: int) -> None:
        planned = began + int(spread_s * 1e9 * index / streams)
        if planned > began:
            await clock.sleep_until(planned)
        while not stop.is_set() and (until_ns is None or clock.now_ns() < until_ns):
            number = next(numbers, None)
            if number is None:
                return
            exchange = await client.send(await maker.request(number), planned)
            planned = exchange.record.end_ns
            done.put_nowait(exchange)

    lanes = min(streams, requests) if requests is not None else streams
    async for exchange in _gathered([lane(index) for index in range(lanes)], done, stop):
        yield exchange


async def send_or_stop(client: Client, request: Request, planned_ns: int, stop: asyncio.Event) -> Exchange | None:
    """One request; when `stop` is set while it is in flight, its record with state aborted.

    `None` when `stop` was set before, or when the client could not give a record for the hang-up."""
    if stop.is_set():
        return None
    task = asyncio.ensure_future(client.send(request, planned_ns))
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            await _hang_up({task})
        return task.result() if task.done() and not task.cancelled() else None
    finally:
        task.cancel()
        stopped.cancel()


async def _gathered(
    works: Sequence[Any], done: "asyncio.Queue[Exchange | None]", stop: asyncio.Event
) -> AsyncIterator[Exchange]:
    """Runs `works` and yields what they put into `done`. On `stop`, hangs up on them, then drains."""
    tasks: set[Any] = set()

    async def watch() -> None:
        stopped = asyncio.ensure_future(stop.wait())
        every = asyncio.ensure_future(asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION))
        try:
            await asyncio.wait({stopped, every}, return_when=asyncio.FIRST_COMPLETED)
            if late := {task for task in tasks if not task.done()}:
                await _hang_up(late)
        finally:
            stopped.cancel()
            every.cancel()
            done.put_nowait(None)

    watching = None
    try:
        for index, work in enumerate(works):
            tasks.add(asyncio.ensure_future(work))
            if index % START_TOGETHER == START_TOGETHER - 1:
                await asyncio.sleep(0)  # a thousand starts in one turn of the loop would read nothing meanwhile
        watching = asyncio.ensure_future(watch())
        while (exchange := await done.get()) is not None:
            yield exchange
        for task in tasks:
            if task.done() and not task.cancelled() and (fault := task.exception()) is not None:
                raise fault
    finally:
        if watching is not None:
            watching.cancel()
        for task in tasks:
            task.cancel()


async def _hang_up(tasks: set[Any]) -> None:
    """Asks every task to hang up and gives it time to hand in its record; who does not is cancelled for good."""
    for task in tasks:
        task.cancel(HANG_UP)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=HANG_UP_S)
        for task in late:
            task.cancel()


def _count() -> Any:
    number = 0
    while True:
        yield number
        number += 1

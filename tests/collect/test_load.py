"""Loops keep what they promise: so many in flight, planned instants that hide nothing, and records after a stop."""

import asyncio
import time

import pytest

from signoff.collect.client import HANG_UP
from signoff.collect.client_lag import LagProbe
from signoff.collect.clock import SystemClock
from signoff.collect.load import closed_loop, send_or_stop
from signoff.core.record import Exchange, Record, Request
from signoff.core.words import Gate, State

CLOCK = SystemClock()


def make(number: int) -> Request:
    return Request(id=f"r{number}", gate=Gate.CAPACITY, stage="capacity.concurrency.4", body=b"{}")


class Sleeper:
    """A client whose every answer takes `took_s`; it honours a hang-up as the real one does."""

    def __init__(self, took_s: float, deaf: bool = False, raises: bool = False) -> None:
        self.took_s, self.deaf, self.raises = took_s, deaf, raises
        self.running = self.most = 0
        self.sent: list[str] = []

    async def send(self, request: Request, planned_ns: int) -> Exchange:
        self.sent.append(request.id)
        self.running += 1
        self.most = max(self.most, self.running)
        sent, state = CLOCK.now_ns(), State.OK
        try:
            await asyncio.sleep(self.took_s)
            if self.raises:
                raise ValueError("a defect")
        except asyncio.CancelledError as asked:
            if self.deaf or HANG_UP not in asked.args:
                raise
            state = State.ABORTED
        finally:
            self.running -= 1
        record = Record(
            id=request.id,
            gate=request.gate,
            stage=request.stage,
            state=state,
            planned_ns=planned_ns,
            sent_ns=sent,
            written_ns=sent,
            end_ns=CLOCK.now_ns(),
        )
        return Exchange(record=record, request=b"", response=b"")


@pytest.fixture(name="stop")
def stop_fixture() -> asyncio.Event:
    return asyncio.Event()


async def test_closed_loop_keeps_its_level_and_sends_each_once(stop: asyncio.Event) -> None:
    client = Sleeper(0.01)
    found = [e async for e in closed_loop(client, CLOCK, make, streams=4, stop=stop, requests=18)]
    assert client.most == 4
    assert sorted(e.record.id for e in found) == sorted(f"r{k}" for k in range(18))


async def test_closed_loop_plans_from_the_end_of_the_one_before(stop: asyncio.Event) -> None:
    found = [e.record async for e in closed_loop(Sleeper(0.01), CLOCK, make, streams=1, stop=stop, requests=4)]
    assert [r.planned_ns for r in found[1:]] == [r.end_ns for r in found[:-1]]


async def test_closed_loop_spreads_its_starts(stop: asyncio.Event) -> None:
    loop = closed_loop(Sleeper(0.3), CLOCK, make, streams=4, stop=stop, requests=4, spread_s=0.2)
    found = sorted([e.record async for e in loop], key=lambda r: r.sent_ns)
    planned = [round((r.planned_ns - found[0].planned_ns) / 1e6) for r in found]
    assert planned == [0, 50, 100, 150]
    assert all(0 <= r.sent_ns - r.planned_ns < 40e6 for r in found)


async def test_closed_loop_ends_at_its_time_with_what_was_in_flight(stop: asyncio.Event) -> None:
    client = Sleeper(0.05)
    until = CLOCK.now_ns() + int(0.12e9)
    found = [e.record async for e in closed_loop(client, CLOCK, make, streams=2, stop=stop, until_ns=until)]
    assert {r.state for r in found} == {State.OK}
    assert len(found) == len(client.sent)
    assert all(r.sent_ns <= until for r in found)


async def test_stop_yields_what_was_in_flight_within_two_seconds(stop: asyncio.Event) -> None:
    asyncio.get_running_loop().call_later(0.05, stop.set)
    began = CLOCK.now_ns()
    found = [e.record async for e in closed_loop(Sleeper(60), CLOCK, make, streams=3, stop=stop)]
    assert [r.state for r in found] == [State.ABORTED] * 3
    assert CLOCK.now_ns() - began < 2e9


async def test_stop_ends_even_with_a_client_that_is_deaf(stop: asyncio.Event) -> None:
    asyncio.get_running_loop().call_later(0.02, stop.set)
    assert [e async for e in closed_loop(Sleeper(60, deaf=True), CLOCK, make, streams=2, stop=stop)] == []


async def test_a_defect_of_ours_is_not_swallowed(stop: asyncio.Event) -> None:
    with pytest.raises(ValueError, match="a defect"):
        [e async for e in closed_loop(Sleeper(0, raises=True), CLOCK, make, streams=2, stop=stop)]


async def test_send_or_stop(stop: asyncio.Event) -> None:
    whole = await send_or_stop(Sleeper(0.01), make(0), CLOCK.now_ns(), stop)
    assert whole is not None
    assert whole.record.state is State.OK
    asyncio.get_running_loop().call_later(0.02, stop.set)
    cut = await send_or_stop(Sleeper(60), make(1), CLOCK.now_ns(), stop)
    assert cut is not None
    assert cut.record.state is State.ABORTED
    assert await send_or_stop(Sleeper(60), make(2), CLOCK.now_ns(), stop) is None


async def test_prompts_that_take_long_to_make_do_not_block_the_loop(stop: asyncio.Event) -> None:
    def slow(number: int) -> Request:
        time.sleep(0.01)
        return make(number)

    probe = LagProbe(CLOCK.now_ns)
    probe.start()
    client = Sleeper(0.3)
    found = [e async for e in closed_loop(client, CLOCK, slow, streams=12, stop=stop, requests=24)]
    probe.stop()
    assert (len(found), client.most) == (24, 12)
    assert (probe.lag_ms(0.99) or 0) < 90

"""The client against the truth: near it on a quiet loop, and caught when it lags."""

import asyncio
import os
import time

import msgspec
import pytest

from signoff.collect.client import HttpClient
from signoff.collect.client_lag import PRECEDENCE, LagProbe
from signoff.collect.clock import SystemClock
from signoff.collect.self_check import SelfCheck, compared, measure_self, self_check
from signoff.collect.self_check_server import Truth
from signoff.core.evidence import Evidence
from signoff.core.plan import Concurrency, InputTokens, Objective, Plan, Service
from signoff.core.record import Record
from signoff.core.words import Gate, State

CLOCK = SystemClock()


class Kept:
    """A store that remembers."""

    def __init__(self) -> None:
        self.raw = b""

    def keep(self, raw: bytes, **about) -> Evidence:
        self.raw = raw
        return Evidence(digest="d", bytes=len(raw), **about)

    def miss(self, why: str, **about) -> Evidence:
        return Evidence(missing=why, **about)


class Run:
    def __init__(self, target: int) -> None:
        objective = Objective(
            concurrency=Concurrency(target=target, floor=1), input_tokens=InputTokens(target=10, floor=1)
        )
        self.plan = Plan(
            schema="signoff/plan/1",
            name="n",
            profile="p",
            service=Service(base_url="http://127.0.0.1:1"),
            objective=objective,
        )
        self.store = Kept()
        self.clock = CLOCK
        self.stop = asyncio.Event()


async def test_kept_as_evidence_with_the_error_against_the_truth() -> None:
    run = Run(16)
    card = await self_check(run)
    assert (card.kind, card.digest, card.conditions) == ("client_self", "d", {"streams": 16})
    found = msgspec.json.decode(run.store.raw, type=SelfCheck)
    assert (found.requests, found.ok) == (16, 16)
    assert found.ttft_error_ms is not None
    assert -1 < found.ttft_error_ms.p50 < 20
    assert found.itl_error_ms is not None
    assert found.itl_error_ms.p50 < 5
    assert found.chunks >= 16 * 8


async def test_a_server_that_cannot_start_is_missing_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object, **__: object) -> None:
        raise OSError("no processes left")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", fails)
    card = await self_check(Run(4))
    assert card.missing == "OSError: no processes left"


async def test_a_loop_that_is_blocked_shows_in_the_error_and_marks_requests() -> None:
    async def block() -> None:
        await asyncio.sleep(1.0)
        time.sleep(0.15)  # noqa: ASYNC251  the fault under test

    blocking = asyncio.create_task(block())
    found = await measure_self(4, CLOCK, asyncio.Event())
    await blocking
    assert found.lag_ms_p99 is not None
    assert found.itl_error_ms is not None
    assert found.itl_error_ms.p99 > 10


def test_requests_that_failed_do_not_compare() -> None:
    record = Record(
        id="a", gate=Gate.CAPACITY, stage="s", state=State.RESET, planned_ns=0, sent_ns=0, written_ns=0, end_ns=9
    )
    truth = Truth(id="a", received_ns=0, sent_ns=[1, 2], late_ns=0)
    found = compared([record], {"a": truth}, 1, 0.5, 0.1, None, 0)
    assert (found.ttft_error_ms, found.itl_error_ms, found.ok, found.chunks) == (None, None, 0, 0)


async def test_lag_probe_sees_a_blocked_loop_and_only_there() -> None:
    probe = LagProbe(CLOCK.now_ns)
    probe.start()
    await asyncio.sleep(0.05)
    before = CLOCK.now_ns()
    time.sleep(0.12)  # noqa: ASYNC251  the fault under test
    during = probe.overlapping(before, CLOCK.now_ns())
    await asyncio.sleep(0.05)
    after = CLOCK.now_ns()
    await asyncio.sleep(0.05)
    assert during.startswith("client event loop lagged")
    assert probe.overlapping(before, after)
    assert probe.overlapping(after, CLOCK.now_ns()) == ""
    assert probe.overlapping(before - 10**9, before - 5 * 10**8) == ""
    probe.stop()
    assert (probe.lag_ms(1.0) or 0) > 100
    assert (probe.lag_ms(0.1) or 0) < 50


async def test_precedence_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = os.getpriority(os.PRIO_PROCESS, 0)
    async with HttpClient(Service(base_url="http://127.0.0.1:1"), CLOCK):
        assert os.getpriority(os.PRIO_PROCESS, 0) in (before, PRECEDENCE)
    assert os.getpriority(os.PRIO_PROCESS, 0) == before

    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "setpriority", refused)
    async with HttpClient(Service(base_url="http://127.0.0.1:1"), CLOCK):
        assert os.getpriority(os.PRIO_PROCESS, 0) == before


async def test_lag_probe_that_never_ticked_knows_nothing() -> None:
    assert LagProbe(CLOCK.now_ns).lag_ms(0.99) is None

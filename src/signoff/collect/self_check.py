"""The client measures itself before it measures anybody: against a server whose stamps are the truth.

A second or so at the plan's concurrency. What comes of it is evidence like any other; whether the client is fit is
for the judge. `LagProbe` keeps watching while the stages run.
"""

import asyncio
import os
import sys
import time
from typing import Protocol

import msgspec
import numpy as np
from msgspec import Struct

from signoff.collect.client import HttpClient
from signoff.collect.client_lag import LagProbe
from signoff.collect.load import closed_loop
from signoff.collect.self_check_server import Pace, Truth
from signoff.core.evidence import Evidence, Value
from signoff.core.plan import Plan, Service
from signoff.core.protocols import Clock, Store
from signoff.core.record import Record, Request
from signoff.core.rounding import six
from signoff.core.words import Gate, State

__all__ = ["LagProbe", "SelfCheck", "measure_self", "self_check"]

KIND = "client_self"
STREAMS_MAX = 1024
FIRST_MS = 200
SENDS_PER_S = 12_000
"""What the paced server, itself Python, can be asked for on a busy machine."""
LASTS_S = 1.0
ENDS_S = 30.0


class Error(Struct, frozen=True, kw_only=True):
    """Client minus truth, milliseconds."""

    p50: float
    p99: float


class SelfCheck(Struct, frozen=True, kw_only=True):
    """What the client is worth here and now."""

    streams: int
    requests: int
    ok: int
    chunks: int
    ttft_error_ms: Error | None
    """Against the span between the server's read of the request and its send of the first chunk."""
    itl_error_ms: Error | None
    """Of each gap, absolute, against the same gap between the server's sends."""
    lag_ms_p99: float | None
    cpu_us_per_chunk: float | None
    headroom: float | None
    """Share of a core the client left unused, 0 to 1."""
    nice: int
    """The scheduling priority the client measured at; below 0 where the kernel allowed it."""
    server_late_ms_p99: float | None
    """How far the paced server itself was behind its plan; above a few milliseconds the machine is crowded."""


class Running(Protocol):
    """What is needed of a run in progress."""

    @property
    def plan(self) -> Plan: ...
    @property
    def store(self) -> Store: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def stop(self) -> asyncio.Event: ...


async def self_check(run: Running) -> Evidence:
    """Measures at the plan's target concurrency and keeps the result as evidence of kind `client_self`."""
    streams = min(STREAMS_MAX, run.plan.objective.concurrency.target)
    conditions: dict[str, Value] = {"streams": streams}
    try:
        found = await measure_self(streams, run.clock, run.stop)
    except (OSError, TimeoutError, ValueError, msgspec.DecodeError) as fault:
        why = f"{type(fault).__name__}: {fault}"
        return run.store.miss(
            why, kind=KIND, source="paced server", where="client", taken_ns=run.clock.now_ns(), conditions=conditions
        )
    return run.store.keep(
        msgspec.json.encode(found),
        kind=KIND,
        source="paced server",
        where="client",
        taken_ns=run.clock.now_ns(),
        conditions=conditions,
        media_type="application/json",
    )


async def measure_self(streams: int, clock: Clock, stop: asyncio.Event) -> SelfCheck:
    """One round of `streams` requests, starts spread over a gap; raises when the paced server does not do its part."""
    gap_ns = int(max(0.02, streams / SENDS_PER_S) * 1e9)
    pace = Pace(first_ns=FIRST_MS * 1_000_000, gap_ns=gap_ns, chunks=max(8, int(LASTS_S * 1e9 / gap_ns)))
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "signoff.collect.self_check_server",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=256 * 1024 * 1024,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(msgspec.json.encode(pace) + b"\n")
        port = int(await asyncio.wait_for(process.stdout.readline(), ENDS_S))
        records, cpu_s, wall_s, lag_ms, nice = await _drive(f"http://127.0.0.1:{port}", streams, gap_ns, clock, stop)
        process.stdin.close()
        truths = msgspec.json.decode(await asyncio.wait_for(process.stdout.readline(), ENDS_S), type=list[Truth])
        await asyncio.wait_for(process.wait(), ENDS_S)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return compared(records, {truth.id: truth for truth in truths}, streams, cpu_s / wall_s, cpu_s, lag_ms, nice)


async def _drive(
    base_url: str, streams: int, gap_ns: int, clock: Clock, stop: asyncio.Event
) -> tuple[list[Record], float, float, float | None, int]:
    def make(number: int) -> Request:
        return Request(id=f"self-{number}", gate=Gate.CAPACITY, stage="self_check", body=b"{}", deadline_s=ENDS_S)

    records = []
    async with HttpClient(Service(base_url=base_url), clock, keep_body=False) as client:
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        loop = closed_loop(
            client, clock, make, streams=streams, requests=streams, stop=stop, spread_s=min(0.2, gap_ns / 1e9)
        )
        async for exchange in loop:
            records.append(exchange.record)
        cpu_s, wall_s = time.process_time() - cpu_s, time.perf_counter() - wall_s
        return records, cpu_s, wall_s, client.lag.lag_ms(0.99), os.getpriority(os.PRIO_PROCESS, 0)


def compared(
    records: list[Record],
    truths: dict[str, Truth],
    streams: int,
    busy: float,
    cpu_s: float,
    lag_ms: float | None,
    nice: int,
) -> SelfCheck:
    """Client stamps against the server's, request by request; only whole ones compare."""
    ttft: list[float] = []
    gaps: list[float] = []
    late: list[float] = []
    for record in records:
        truth = truths.get(record.id)
        if truth is None or record.state is not State.OK or len(truth.sent_ns) != len(record.chunk_ns):
            continue
        if record.ttft_ns is not None:
            ttft.append((record.ttft_ns - (truth.sent_ns[0] - truth.received_ns)) / 1e6)
        off = np.diff(np.array(record.chunk_ns, dtype=np.int64)) - np.diff(np.array(truth.sent_ns, dtype=np.int64))
        gaps.extend((np.abs(off) / 1e6).tolist())
        late.append(truth.late_ns / 1e6)
    chunks = sum(len(record.chunk_ns) for record in records)
    return SelfCheck(
        streams=streams,
        requests=len(records),
        ok=sum(record.state is State.OK for record in records),
        chunks=chunks,
        ttft_error_ms=_error(ttft),
        itl_error_ms=_error(gaps),
        lag_ms_p99=None if lag_ms is None else six(lag_ms),
        cpu_us_per_chunk=six(cpu_s / chunks * 1e6) if chunks else None,
        headroom=six(max(0.0, 1 - busy)) if chunks else None,
        nice=nice,
        server_late_ms_p99=six(float(np.quantile(late, 0.99))) if late else None,
    )


def _error(samples: list[float]) -> Error | None:
    if not samples:
        return None
    p50, p99 = np.quantile(samples, (0.5, 0.99))
    return Error(p50=six(float(p50)), p99=six(float(p99)))

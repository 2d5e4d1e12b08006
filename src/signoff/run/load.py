"""`signoff load`: a plain, exact load run. It measures and says nothing more; no verdict comes of it."""

import asyncio
import itertools
import resource
import sys
import time
from array import array
from collections import Counter

import msgspec
import numpy as np
import uvloop
from msgspec import Struct

from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.collect.control import Control
from signoff.collect.load import closed_loop
from signoff.core.plan import Service
from signoff.core.record import Record, Request
from signoff.core.rounding import six
from signoff.core.words import Gate, State
from signoff.core.workload import nonce
from signoff.run.prepare import AS_OPTIONS, MODELS, choose, models_in, refuse_address

PROMPT = "Count upwards in words, one number after another, and do not stop."


class Percentiles(Struct, frozen=True, kw_only=True):
    """Of successful requests, nearest rank; `None` when there was none."""

    p50: float | None
    p95: float | None
    p99: float | None


class ClientCost(Struct, frozen=True, kw_only=True):
    """What measuring cost, and whether the client itself was in the way."""

    cpu_us_per_chunk: float | None
    """Of this whole process from the first request to the last, everything included."""
    lag_ms_p99: float | None
    peak_rss_mb: float
    disqualified_share: float
    """Share of requests that ran while the client's own event loop lagged."""


class LoadResult(Struct, frozen=True, kw_only=True):
    requests: int
    ok: int
    states: dict[str, int]
    duration_s: float
    ttft_ms: Percentiles
    itl_ms: Percentiles
    e2e_ms: Percentiles
    output_tokens_per_s: float
    chunks: int
    client: ClientCost


class _Sums:
    """Numbers of the records so far. The records themselves are not kept: memory grows by 8 bytes a chunk."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.ttft, self.e2e, self.gaps = array("d"), array("d"), array("d")
        self.chunks = self.tokens = self.disqualified = 0
        self.began_ns: int | None = None
        self.ended_ns = 0

    def take(self, record: Record) -> None:
        self.states[record.state.value] += 1
        self.chunks += len(record.chunk_ns)
        self.disqualified += bool(record.disqualified)
        self.began_ns = record.sent_ns if self.began_ns is None else min(self.began_ns, record.sent_ns)
        self.ended_ns = max(self.ended_ns, record.end_ns)
        if record.state is not State.OK:
            return
        self.tokens += record.completion_tokens if record.completion_tokens is not None else len(record.chunk_ns)
        if record.ttft_ns is not None:
            self.ttft.append(record.ttft_ns / 1e6)
        if record.e2e_ns is not None:
            self.e2e.append(record.e2e_ns / 1e6)
        at = np.array(record.chunk_ns, dtype=np.int64)
        self.gaps.frombytes((np.diff(at) / 1e6).tobytes())


def run_load(
    base_url: str,
    streams: int,
    requests: int,
    output_tokens: int,
    model: str | None = None,
    api_key_env: str | None = None,
    *,
    ca_file: str | None = None,
    spread_s: float = 0.0,
) -> LoadResult:
    """`requests` requests of `output_tokens` tokens, `streams` in flight; blocks until the last has ended.

    Starts are spread over `spread_s`, by default all at once.

    SignoffError when the service cannot be reached, refuses the key or does not serve `model` (default: its only)."""
    service = Service(base_url=refuse_address(base_url, AS_OPTIONS), api_key_env=api_key_env, ca_file=ca_file)
    return uvloop.run(_load(service, streams, requests, output_tokens, model, spread_s))


async def _load(
    service: Service, streams: int, requests: int, output_tokens: int, model: str | None, spread_s: float
) -> LoadResult:
    clock, sums, run_id = SystemClock(), _Sums(), time.time_ns()
    sender = HttpClient(service, clock, keep_body=False)
    served = await _served_model(service, model)
    body = {
        "model": served,
        "stream": True,
        "max_tokens": output_tokens,
        "ignore_eos": True,
        "stream_options": {"include_usage": True},
    }

    def make(number: int) -> Request:
        prompt = f"{nonce(run_id, number)} {PROMPT}"
        return Request(
            id=f"load-{run_id:x}-{number}",
            gate=Gate.CAPACITY,
            stage="load",
            body=msgspec.json.encode(body | {"messages": [{"role": "user", "content": prompt}]}),
        )

    async with sender as client:
        cpu_s = time.process_time()
        stop = asyncio.Event()
        loop = closed_loop(client, clock, make, streams=streams, stop=stop, requests=requests, spread_s=spread_s)
        async for exchange in loop:
            sums.take(exchange.record)
        cpu_s = time.process_time() - cpu_s
        return _result(sums, cpu_s, client.lag.lag_ms(0.99))


def _result(sums: _Sums, cpu_s: float, lag_ms: float | None) -> LoadResult:
    count = sums.states.total()
    duration_s = (sums.ended_ns - (sums.began_ns or 0)) / 1e9 if count else 0.0
    return LoadResult(
        requests=count,
        ok=sums.states[State.OK.value],
        states=dict(sorted(sums.states.items())),
        duration_s=six(duration_s),
        ttft_ms=_percentiles(sums.ttft),
        itl_ms=_percentiles(sums.gaps),
        e2e_ms=_percentiles(sums.e2e),
        output_tokens_per_s=six(sums.tokens / duration_s) if duration_s else 0.0,
        chunks=sums.chunks,
        client=ClientCost(
            cpu_us_per_chunk=six(cpu_s / sums.chunks * 1e6) if sums.chunks else None,
            lag_ms_p99=None if lag_ms is None else six(lag_ms),
            peak_rss_mb=six(_peak_rss_mb()),
            disqualified_share=six(sums.disqualified / count) if count else 0.0,
        ),
    )


def _percentiles(samples: "array[float]") -> Percentiles:
    if not samples:
        return Percentiles(p50=None, p95=None, p99=None)
    p50, p95, p99 = np.quantile(np.frombuffer(samples), (0.5, 0.95, 0.99), method="inverted_cdf")
    return Percentiles(p50=six(float(p50)), p95=six(float(p95)), p99=six(float(p99)))


def _peak_rss_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform != "darwin" else peak / 1024**2  # kilobytes on Linux, bytes on macOS


async def _served_model(service: Service, wanted: str | None) -> str:
    """The model to ask for. What is wrong before the first accepted request is a fault of usage, not a measurement.

    A service without a list of models is taken at its word: the caller named the model."""
    async with Control(service) as control:
        answer = await control.get(MODELS)
        if answer.status == 404 and wanted is not None:
            return wanted
        return choose(models_in(answer, control, AS_OPTIONS), wanted, AS_OPTIONS).id


def load_text(result: LoadResult) -> str:
    """The result for a terminal."""

    def line(name: str, numbers: Percentiles) -> str:
        shown = ("-" if number is None else f"{number:,.1f}" for number in (numbers.p50, numbers.p95, numbers.p99))
        return f"{name:<18}" + "".join(f"{text:>12}" for text in shown)

    failed = ", ".join(f"{count} {state}" for state, count in result.states.items() if state != State.OK.value)
    cost = result.client
    rows = itertools.chain(
        [f"requests          {result.ok} ok of {result.requests}" + (f": {failed}" if failed else "")],
        [f"duration          {result.duration_s:,.2f} s, {result.output_tokens_per_s:,.0f} output tokens/s"],
        [f"{'ms, successes':<18}" + "".join(f"{name:>12}" for name in ("p50", "p95", "p99"))],
        [
            line("TTFT", result.ttft_ms),
            line("ITL", result.itl_ms),
            line("end to end", result.e2e_ms),
            "TTFT: time to first token; ITL: inter-token latency, from one chunk of the stream to the next",
        ],
        [
            f"client            {cost.cpu_us_per_chunk or 0:.1f} us CPU a chunk, "
            f"lag p99 {cost.lag_ms_p99 or 0:.1f} ms, {cost.peak_rss_mb:.0f} MB, "
            f"{cost.disqualified_share:.1%} disqualified"
        ],
    )
    return "\n".join(rows)

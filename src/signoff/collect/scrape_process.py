"""The scraper's own process: `python -m signoff.collect.scrape_process`, its orders as one JSON line on stdin.

Every server once a period, at planned instants. The raw body goes compressed into `<n>-<host>.scrapes.zst`, its
changes into `<n>-<host>.rows.jsonl` at once, and one short line a scrape to stdout for the terminal. It ends when
stdin does, so that it never outlives who started it.
"""

import asyncio
import math
import os
import re
import time
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import msgspec
import zstandard
from msgspec import Struct

from signoff.collect.control import Answer, Control
from signoff.core.metric_rows import RAW_SUFFIX, ROWS_SUFFIX, MetricHead, MetricLine, MetricMiss, MetricRow, encode_line
from signoff.core.plan import Service
from signoff.read.scrape import Scrape, read_scrape

TIMEOUT_S = 10.0
LAST_LOOK_S = 3.0
"""A server under load answers late; a late scrape is worth more than none."""
FRAME_SCRAPES = 60
"""Scrapes that share a zstd frame, and so a history: a body that hardly changed costs a few hundred bytes."""


class Orders(Struct, kw_only=True):
    """What the parent asks. The API key stands in the environment, never here."""

    urls: tuple[str, ...]
    folder: str
    period_s: float
    offset_ns: int
    """Added to this machine's monotonic clock it gives the run's axis."""
    base_url: str = "http://127.0.0.1"
    api_key_env: str | None = None
    ca_file: str | None = None


class LiveLine(Struct, kw_only=True):
    """What the terminal wants of one scrape."""

    url: str
    ok: bool
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0 to 1, the highest over engines."""


class Writer:
    """The two files of one server."""

    def __init__(self, folder: Path, url: str, period_s: float) -> None:
        stem = _free_stem(folder, url)
        self._rows = (folder / (stem + ROWS_SUFFIX)).open("xb", buffering=0)
        self._raw = (folder / (stem + RAW_SUFFIX)).open("xb", buffering=0)
        self._packer = zstandard.ZstdCompressor(level=3)
        self._frame: zstandard.ZstdCompressionObj | None = None
        self._in_frame = 0
        self._places: dict[str, int] = {}
        self._last: dict[str, float] = {}
        self._append(MetricHead(url, period_s))

    def answered(self, t_ns: int, answer: Answer, took_ns: int) -> Scrape | None:
        """Appends one answer; the scrape, or `None` when it was none."""
        self._keep_raw(t_ns, answer, took_ns)
        if not answer.ok:
            why = answer.error or f"HTTP {answer.status}"
            self._append(MetricMiss(t_ns, why[:300]))
            return None
        scrape = read_scrape(answer.body)
        if not scrape.series:
            self._append(MetricMiss(t_ns, "the answer holds no series"))
            return None
        self._append(self._changes(t_ns, scrape.series))
        return scrape

    def close(self) -> None:
        self._end_frame()
        self._rows.close()
        self._raw.close()

    def _changes(self, t_ns: int, series: dict[str, float]) -> MetricRow:
        places, last = self._places, self._last
        new = [key for key in series if key not in places]
        for key in new:
            places[key] = len(places)
        changed = [key for key, value in series.items() if last.get(key) != value]
        gone = [places[key] for key in last if key not in series]
        self._last = series
        shown: list[float | str] = [
            value if math.isfinite(value := series[key]) else str(value).replace("nan", "NaN") for key in changed
        ]
        return MetricRow(t_ns, new, [places[key] for key in changed], shown, gone)

    def _append(self, line: MetricLine) -> None:
        self._rows.write(encode_line(line))

    def _keep_raw(self, t_ns: int, answer: Answer, took_ns: int) -> None:
        head = (
            f"# signoff scrape t_ns={t_ns} took_ms={took_ns / 1e6:.3f} status={answer.status} bytes={len(answer.body)}"
        )
        note = f"{head} {answer.error}".replace("\n", " ").replace("\r", " ").rstrip() + "\n"
        if self._frame is None:
            self._frame = self._packer.compressobj()
            self._in_frame = 0
        body = answer.body if answer.body.endswith(b"\n") or not answer.body else answer.body + b"\n"
        packed = self._frame.compress(note.encode() + body)
        self._raw.write(packed + self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
        self._in_frame += 1
        if self._in_frame >= FRAME_SCRAPES:
            self._end_frame()

    def _end_frame(self) -> None:
        if self._frame is not None:
            self._raw.write(self._frame.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH))
            self._frame = None


def _free_stem(folder: Path, url: str) -> str:
    """`<n>-<host>`: a number no earlier scraper of this folder used, so that nothing is written over or into."""
    parts = urlsplit(url)
    host = re.sub(r"[^a-zA-Z0-9.]+", "-", f"{parts.hostname or 'server'}-{parts.port or parts.scheme}")[:60]
    used = [int(found.group()) for path in folder.iterdir() if (found := re.match(r"\d+", path.name))]
    return f"{max(used, default=-1) + 1:03d}-{host}"


def live_line(url: str, scrape: Scrape | None) -> LiveLine:
    if scrape is None:
        return LiveLine(url=url, ok=False)
    usage = scrape.highest("vllm:kv_cache_usage_perc")
    return LiveLine(
        url=url,
        ok=True,
        running=scrape.total("vllm:num_requests_running"),
        waiting=scrape.total("vllm:num_requests_waiting"),
        kv_usage=usage if usage is not None else scrape.highest("vllm:gpu_cache_usage_perc"),
    )


async def _scrape_one(orders: Orders, control: Control, url: str, writer: Writer) -> None:
    """One server for ever, at planned instants; an instant that passed while an answer was awaited is left out."""
    period_ns = int(orders.period_s * 1e9)
    planned = time.perf_counter_ns()
    while True:
        await asyncio.sleep(max(0.0, (planned - time.perf_counter_ns()) / 1e9))
        await _look(orders, control, url, writer, TIMEOUT_S)
        planned += period_ns * max(1, -(-(time.perf_counter_ns() - planned) // period_ns))


async def _look(orders: Orders, control: Control, url: str, writer: Writer, timeout_s: float) -> None:
    asked = time.perf_counter_ns()
    answer = await control.get(url, timeout_s)
    now = time.perf_counter_ns()
    _say(live_line(url, writer.answered(asked + orders.offset_ns, answer, now - asked)))


def _say(line: LiveLine) -> None:
    """Never blocks: a terminal that does not read loses lines, a scrape is never late for it."""
    try:
        os.write(1, msgspec.json.encode(line) + b"\n")
    except (BlockingIOError, BrokenPipeError):
        return


async def _serve(orders: Orders, orders_in: IO[bytes]) -> None:
    folder = Path(orders.folder)
    own = {urlsplit(orders.base_url).netloc}
    keyed = Service(base_url=orders.base_url, api_key_env=orders.api_key_env, ca_file=orders.ca_file)
    bare = Service(base_url=orders.base_url, ca_file=orders.ca_file)
    writers = {url: Writer(folder, url, orders.period_s) for url in orders.urls}
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), orders_in)
    async with Control(keyed) as with_key, Control(bare) as without:
        # the key goes to the service alone: an exporter on another address is somebody else
        controls = {url: with_key if urlsplit(url).netloc in own else without for url in writers}
        works = [
            asyncio.ensure_future(_scrape_one(orders, controls[url], url, writer)) for url, writer in writers.items()
        ]
        ended = asyncio.ensure_future(reader.read())
        await asyncio.wait([ended, *works], return_when=asyncio.FIRST_COMPLETED)
        for work in works:
            work.cancel()
        faults = [f for f in await asyncio.gather(*works, return_exceptions=True) if isinstance(f, Exception)]
        # the counters as they stand when everything was sent: the last second would be lost without this look
        last = [_look(orders, controls[url], url, writer, LAST_LOOK_S) for url, writer in writers.items()]
        faults += [f for f in await asyncio.gather(*last, return_exceptions=True) if isinstance(f, Exception)]
    for writer in writers.values():
        writer.close()
    if faults:
        raise faults[0]


def main() -> None:
    orders_in = open(0, "rb", buffering=0)  # noqa: SIM115  unbuffered, so that its end can be awaited afterwards
    orders = msgspec.json.decode(orders_in.readline(), type=Orders)
    os.set_blocking(1, False)
    asyncio.run(_serve(orders, orders_in))


if __name__ == "__main__":
    main()

"""The scraper as the run sees it: started once, stopped once, live numbers in between.

It is a process of its own, because reading a scrape takes milliseconds that the timed path does not have.
"""

import asyncio
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from signoff.collect.scrape_process import LiveLine, Orders
from signoff.core.plan import Service
from signoff.core.protocols import Clock

STOP_S = 5.0
LOOK_S = 0.05


class Scraper:
    """Scrapes `urls` every `period_s` into `folder` (a bundle's `metrics/`) from `start` to `stop`.

    `live` holds the newest line of each URL. A server that dies is recorded as failed scrapes; a scraper process that
    dies is told by `died`."""

    def __init__(
        self,
        urls: Sequence[str],
        folder: Path,
        period_s: float = 1.0,
        *,
        service: Service | None = None,
        clock: Clock | None = None,
    ) -> None:
        now_ns = clock.now_ns() if clock is not None else time.time_ns()
        self.live: dict[str, LiveLine] = {}
        self._orders = Orders(
            urls=tuple(dict.fromkeys(urls)),
            folder=str(folder),
            period_s=period_s,
            offset_ns=now_ns - time.perf_counter_ns(),
        )
        if service is not None:
            self._orders.base_url = service.base_url
            self._orders.api_key_env = service.api_key_env
            self._orders.ca_file = service.ca_file
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def start(self) -> None:
        Path(self._orders.folder).mkdir(parents=True, exist_ok=True)
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "signoff.collect.scrape_process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # an interrupt at the terminal is ours to handle, and ends it by its stdin
        )
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode(self._orders) + b"\n")
        await self._process.stdin.drain()
        assert self._process.stdout is not None
        self._reading = asyncio.create_task(self._read(self._process.stdout))

    async def stop(self) -> None:
        """Ends it after one last look and waits until its files are whole; safe to call again."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reading is not None:
            await self._reading

    async def seen_all(self, clock: Clock, wait_s: float = 5.0) -> bool:
        """Waits until every URL was asked once; False when that took longer than `wait_s`."""
        end_ns = clock.now_ns() + int(wait_s * 1e9)
        while clock.now_ns() < end_ns and not self.died:
            if all(url in self.live for url in self._orders.urls):
                return True
            await asyncio.sleep(LOOK_S)
        return False

    @property
    def died(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    async def _read(self, lines: asyncio.StreamReader) -> None:
        while raw := await lines.readline():
            try:
                line = msgspec.json.decode(raw, type=LiveLine)
            except msgspec.DecodeError:
                continue
            self.live[line.url] = line

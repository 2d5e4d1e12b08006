"""The scraper in its own process: raw and columns agree, failures are recorded, and no end loses what was written."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import zstandard

from signoff.bundle.metrics import close_metrics, read_metrics
from signoff.collect.clock import SystemClock
from signoff.collect.scrape import Scraper
from signoff.collect.scrape_process import LiveLine
from signoff.core.plan import Service


class Exporter:
    """Serves `/metrics`: a counter that rises with every scrape, and whatever else a test wants."""

    def __init__(self, answer: Callable[[int], tuple[int, str]]) -> None:
        self.answer = answer
        self.scrapes = 0
        self.heads: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> "Exporter":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        status, body = self.answer(self.scrapes)
        self.scrapes += 1
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/metrics"


def vllm(k: int) -> tuple[int, str]:
    rare = 'rare{a="1"} 7\n' if k % 2 else ""
    return 200, (
        f'vllm:num_requests_running{{engine="0"}} 2\nvllm:num_requests_running{{engine="1"}} 3\n'
        f'vllm:num_requests_waiting{{engine="0"}} {k}\nvllm:kv_cache_usage_perc{{engine="0"}} 0.5\n{rare}'
    )


async def until(true: Callable[[], bool], seconds: float = 10) -> None:
    for _ in range(int(seconds / 0.02)):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("never came true")


def unpacked(folder: Path) -> str:
    raws = [path.read_bytes() for path in sorted(folder.glob("*.scrapes.zst"))]
    text = b""
    for raw in raws:
        while raw:
            frame = zstandard.ZstdDecompressor().decompressobj()
            text += frame.decompress(raw)
            raw = frame.unused_data
    return text.decode()


async def test_columns_raw_and_live_line(tmp_path: Path) -> None:
    clock = SystemClock()
    before = clock.now_ns()
    async with Exporter(vllm) as exporter:
        scraper = Scraper([exporter.url], tmp_path, 0.05, clock=clock)
        await scraper.start()
        await until(lambda: exporter.scrapes >= 6)
        await until(lambda: scraper.live.get(exporter.url) is not None)
        live = scraper.live[exporter.url]
        await scraper.stop()
        await scraper.stop()
    assert live == LiveLine(url=exporter.url, ok=True, running=5, waiting=live.waiting, kv_usage=0.5)
    for _ in range(2):
        table = read_metrics(tmp_path)[exporter.url]
        count = len(table.t_ns)
        assert count >= 5
        counted = table.columns['vllm:num_requests_waiting{engine="0"}'].tolist()
        assert counted[: count - 1] == list(range(count - 1))
        assert counted[-1] in (count - 1, count)  # one that was under way when it ended is asked for again
        assert str(table.columns['rare{a="1"}'][:4].tolist()) == "[nan, 7.0, nan, 7.0]"
        assert before <= table.t_ns[0] < table.t_ns[-1] <= clock.now_ns()
        close_metrics(tmp_path)
    text = unpacked(tmp_path)
    assert text.count("# signoff scrape t_ns=") == count
    assert f"t_ns={table.t_ns[2]} " in text
    assert "status=200" in text


async def test_scrapes_fall_on_planned_instants(tmp_path: Path) -> None:
    async with Exporter(vllm) as exporter:
        scraper = Scraper([exporter.url], tmp_path, 0.1)
        await scraper.start()
        await until(lambda: exporter.scrapes >= 8)
        await scraper.stop()
    t_ns = read_metrics(tmp_path)[exporter.url].t_ns[:-1]  # the last look is taken when it stops
    assert abs((t_ns[-1] - t_ns[0]) / 1e9 - 0.1 * (len(t_ns) - 1)) < 0.25


async def test_the_last_look_is_taken_when_it_stops(tmp_path: Path) -> None:
    clock = SystemClock()
    async with Exporter(vllm) as exporter:
        scraper = Scraper([exporter.url], tmp_path, 60.0, clock=clock)
        await scraper.start()
        assert await scraper.seen_all(clock)
        stopped = clock.now_ns()
        await scraper.stop()
    table = read_metrics(tmp_path)[exporter.url]
    assert len(table.t_ns) == 2
    assert table.t_ns[-1] >= stopped


async def test_a_dead_server_is_failed_scrapes_and_its_return_is_seen(tmp_path: Path) -> None:
    exporter = Exporter(vllm)
    async with exporter:
        scraper = Scraper([exporter.url], tmp_path, 0.05)
        await scraper.start()
        await until(lambda: exporter.scrapes >= 3)
    await until(lambda: not scraper.live[exporter.url].ok)
    seen = exporter.scrapes
    async with exporter:
        await until(lambda: exporter.scrapes >= seen + 2 and scraper.live[exporter.url].ok)
        await scraper.stop()
    table = read_metrics(tmp_path)[exporter.url]
    assert len(table.failed) >= 1
    assert table.t_ns[0] < table.failed[0] < table.t_ns[-1]


async def test_errors_and_pages_that_are_no_metrics_are_failed_scrapes(tmp_path: Path) -> None:
    async with Exporter(lambda k: (503, "a 1\n") if k % 2 else (200, "<html>login</html>")) as exporter:
        scraper = Scraper([exporter.url], tmp_path, 0.05)
        await scraper.start()
        await until(lambda: exporter.scrapes >= 4)
        await scraper.stop()
    table = read_metrics(tmp_path)[exporter.url]
    assert len(table.t_ns) == 0
    assert len(table.failed) >= 3
    assert "status=503" in unpacked(tmp_path)
    assert "login" in unpacked(tmp_path)


async def test_killed_scraper_leaves_what_it_wrote(tmp_path: Path) -> None:
    async with Exporter(vllm) as exporter:
        scraper = Scraper([exporter.url], tmp_path, 0.05)
        await scraper.start()
        await until(lambda: exporter.scrapes >= 5)
        assert scraper._process is not None
        os.kill(scraper._process.pid, signal.SIGKILL)
        await until(lambda: scraper.died)
        await scraper.stop()
        assert len(read_metrics(tmp_path)[exporter.url].t_ns) >= 4
        assert unpacked(tmp_path).count("# signoff scrape") >= 4
        again = Scraper([exporter.url], tmp_path, 0.05)
        seen = exporter.scrapes
        await again.start()
        await until(lambda: exporter.scrapes >= seen + 3)
        await again.stop()
    assert len(list(tmp_path.glob("*.rows.jsonl"))) == 2
    table = read_metrics(tmp_path)[exporter.url]
    assert len(table.t_ns) >= 6
    close_metrics(tmp_path)
    assert len(read_metrics(tmp_path)[exporter.url].t_ns) == len(table.t_ns)


async def test_the_key_goes_to_the_service_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("SIGNOFF_TEST_KEY", "s3cret")
    async with Exporter(vllm) as served, Exporter(vllm) as other:
        service = Service(base_url=f"http://127.0.0.1:{served.port}", api_key_env="SIGNOFF_TEST_KEY")
        scraper = Scraper([served.url, other.url], tmp_path, 0.05, service=service)
        await scraper.start()
        assert scraper._process is not None
        line = Path(f"/proc/{scraper._process.pid}/cmdline").read_bytes()
        await until(lambda: served.scrapes >= 1 and other.scrapes >= 1)
        await scraper.stop()
    assert b"s3cret" not in line
    assert "Bearer s3cret" in served.heads[0]
    assert "s3cret" not in other.heads[0]


async def test_nobody_listening(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/metrics"
        scraper = Scraper([url], tmp_path, 0.05)
        await scraper.start()
        await until(lambda: url in scraper.live)
        await scraper.stop()
    assert not scraper.live[url].ok
    assert len(read_metrics(tmp_path)[url].failed) >= 1

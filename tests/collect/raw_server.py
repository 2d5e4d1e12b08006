"""A server of exact bytes: reads one request, then does what the test's script says."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.core.plan import Service
from signoff.core.record import Exchange, Request
from signoff.core.words import Gate

CLOCK = SystemClock()
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DONE = b"data: [DONE]\n\n"


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One SSE event of the usual shape; without a delta it has no choices."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + msgspec.json.encode({"object": "chat.completion.chunk", "choices": choices} | more) + b"\n\n"


USAGE = event(usage={"prompt_tokens": 5, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}})
GOOD = [event({"role": "assistant", "content": ""}), event({"content": "a"}), event({"content": "b"}, "stop"), USAGE]


def chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


def streamed(*events: bytes) -> bytes:
    """A whole chunked answer."""
    return HEAD + b"".join(chunk(each) for each in events) + END


def says(*parts: bytes | float, close: bool = False) -> Script:
    """Writes bytes, sleeps numbers; then keeps the connection, or closes it."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            if isinstance(part, bytes):
                writer.write(part)
                await writer.drain()
            else:
                await asyncio.sleep(part)
        if close:
            writer.close()

    return script


class RawServer:
    """`script` answers every request; `received` holds each as it came."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.received: list[bytes] = []
        self.connections = 0
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "RawServer":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.base_url = f"{'https' if self._tls else 'http'}://localhost:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, RuntimeError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    int(line.split(b":")[1])
                    for line in head.split(b"\r\n")
                    if line.lower().startswith(b"content-length")
                )
                self.received.append(head + await reader.readexactly(length))
                await self.script(reader, writer)


def ask(stream: bool = True, usage: bool = True, **more: Any) -> Request:
    body: dict[str, Any] = {"model": "m", "stream": stream}
    if usage and stream:
        body["stream_options"] = {"include_usage": True}
    return Request(
        id="r1", gate=Gate.AGENT, stage="agent.one_tool", body=msgspec.json.encode(body), stream=stream, **more
    )


async def exchange(script: Script, request: Request | None = None, **client: Any) -> Exchange:
    """One request against one server."""
    async with RawServer(script) as server, HttpClient(Service(base_url=server.base_url), CLOCK, **client) as sender:
        return await sender.send(request or ask(), CLOCK.now_ns())

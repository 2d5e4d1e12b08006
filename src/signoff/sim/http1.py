"""A small HTTP/1.1 server on httptools: whole requests in, whole answers or streams of chunks out.

Made for many streams with little CPU: a chunk is one write of bytes that are ready, and nothing is parsed a token.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import cast

import httptools
from msgspec import Struct

BODY_BYTES_MAX = 256 * 1024 * 1024
REASON = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 405: "Method Not Allowed"} | {
    413: "Request Entity Too Large",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


class Incoming(Struct, kw_only=True):
    """One request, read whole. Header names are lower case."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


class Reply:
    """The answer to one request: `send` once, or `open`, `write` ..., `close`."""

    def __init__(self, transport: asyncio.Transport, keep_alive: bool) -> None:
        self._transport = transport
        self._keep_alive = keep_alive
        self.status: int | None = None
        self.sent_bytes = 0
        self.gone = False
        """The client has hung up."""
        self.done = asyncio.Event()
        self.on_gone: Callable[[], None] | None = None

    def _head(self, status: int, headers: dict[str, str]) -> bytes:
        self.status = status
        lines = [f"HTTP/1.1 {status} {REASON.get(status, 'Status')}", f"date: {formatdate(usegmt=True)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if not self._keep_alive:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")

    def send(self, status: int, body: bytes, content_type: str = "application/json", **headers: str) -> None:
        """A whole answer."""
        told = {"server": "uvicorn", "content-length": str(len(body))}
        if body:
            told["content-type"] = content_type
        told |= {name.replace("_", "-"): value for name, value in headers.items()}
        self._put(self._head(status, told) + body)
        self.sent_bytes = len(body)
        self._finish()

    def open(self, status: int, content_type: str, headers: dict[str, str] | None = None) -> None:
        """Begin a chunked stream."""
        told = {"server": "uvicorn", "content-type": content_type, "transfer-encoding": "chunked"}
        self._put(self._head(status, told | (headers or {})))

    def write(self, data: bytes) -> None:
        """One chunk, on the wire at once."""
        self._put(b"%x\r\n%b\r\n" % (len(data), data))
        self.sent_bytes += len(data)

    def close(self) -> None:
        """End a stream."""
        self._put(b"0\r\n\r\n")
        self._finish()

    def reset(self) -> None:
        """Tear the connection down in the middle."""
        self._transport.abort()
        self._finish()

    def lost(self) -> None:
        if not self.done.is_set():
            self.gone = True
            if self.on_gone is not None:
                self.on_gone()
            self.done.set()

    def _put(self, data: bytes) -> None:
        if not self.gone and not self._transport.is_closing():
            self._transport.write(data)

    def _finish(self) -> None:
        self.done.set()
        if not self._keep_alive and not self._transport.is_closing():
            self._transport.close()


Handler = Callable[[Incoming, Reply], Awaitable[None]]
Answered = Callable[[Incoming, Reply, float], None]


class Connection(asyncio.Protocol):
    """One client connection; requests are answered in turn."""

    def __init__(self, handler: Handler, answered: Answered | None, connections: set["Connection"]) -> None:
        self._handler, self._answered, self._connections = handler, answered, connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._queue: asyncio.Queue[tuple[Incoming, bool]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._reply: Reply | None = None
        self._reset_message()

    def _reset_message(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without inheriting from it
        self._connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._reply is not None:
            self._reply.lost()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.drop()

    def drop(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")
        if name.lower() == b"expect" and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > BODY_BYTES_MAX:
            self.drop()
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        path, _, query = self._url.decode("latin-1").partition("?")
        incoming = Incoming(
            method=self._parser.get_method().decode("latin-1"),
            path=path,
            query=query,
            headers=self._headers,
            body=b"".join(self._body),
        )
        self._queue.put_nowait((incoming, self._parser.should_keep_alive()))
        self._reset_message()

    async def _serve(self) -> None:
        assert self._transport is not None
        while True:
            incoming, keep_alive = await self._queue.get()
            began = time.perf_counter()
            reply = self._reply = Reply(self._transport, keep_alive)
            await self._handler(incoming, reply)
            await reply.done.wait()
            if self._answered is not None:
                self._answered(incoming, reply, time.perf_counter() - began)


class Listener:
    """A listening server; `port` is the real one when 0 was asked."""

    def __init__(self, handler: Handler, answered: Answered | None = None) -> None:
        self._handler, self._answered = handler, answered
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self, port: int, host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._handler, self._answered, self._connections), host, port, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.drop()
        await asyncio.sleep(0)

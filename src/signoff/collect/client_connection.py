"""One connection: stamps each read in `data_received`, parses later, in slices the client hands out.

Parsing where the bytes arrive would stamp the thousandth stream after the other 999 were parsed. So a read is only
stamped and queued; `drain` parses a few reads at a time.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Any, cast

import httptools

from signoff.collect.client_answer import clip
from signoff.collect.client_flight import Flight
from signoff.core.words import State

if TYPE_CHECKING:
    from signoff.collect.client import HttpClient

HEADER_BYTES_MAX = 64 * 1024
READS_A_SLICE = 32
READS_QUEUED_MAX = 512
_LAST_CHUNK = b"0\r\n\r\n"


class Connection(asyncio.Protocol):
    """A keep-alive connection with at most one request on it. Never sends anything twice."""

    __slots__ = (
        "_at",
        "_client",
        "_fd",
        "_header_bytes",
        "_headers",
        "_in_body",
        "_inbox",
        "_lost",
        "_now",
        "_parser",
        "_paused_reading",
        "_ready",
        "_reuse",
        "_transport",
        "_writing",
        "flight",
        "idle_since_ns",
        "last_ns",
        "queued",
        "used",
    )

    def __init__(self, client: "HttpClient") -> None:
        self._client = client
        self._ready = client.ready
        self._now = client.clock.now_ns
        self._inbox: list[tuple[int, bytes]] = []
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._fd: int | None = None
        self._writing = False
        self._paused_reading = False
        self._at = 0
        self._headers: dict[bytes, bytes] = {}
        self._header_bytes = 0
        self._in_body = False
        self._reuse = True
        self._lost: tuple[int, str] | None = None
        self.flight: Flight | None = None
        self.queued = False
        self.last_ns = 0
        self.idle_since_ns = 0
        self.used = 0

    # the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # so that resume_writing tells when the last byte went
        if transport.get_extra_info("ssl_object") is None:
            self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        at = self._now()
        self.last_ns = at
        self._inbox.append((at, data))
        if not self.queued:
            self.queued = True
            if data.endswith(_LAST_CHUNK):
                self._ready.appendleft(self)  # it seems to end its answer, and a slot may wait on that
            else:
                self._ready.append(self)
            if not self._client.draining:
                self._client.drain_soon()
        elif len(self._inbox) > READS_QUEUED_MAX and not self._paused_reading and self._transport is not None:
            self._paused_reading = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        self._writing = True

    def resume_writing(self) -> None:
        self._writing = False
        if self.flight is not None and self.flight.written_ns is None:
            self.flight.written_ns = self._now()

    def connection_lost(self, exc: Exception | None) -> None:
        why = f"{type(exc).__name__}: {exc}" if exc else "closed by the server"
        self._lost = self._now(), why
        if not self.queued:
            self.queued = True
            self._ready.append(self)
            self._client.drain_soon()

    # the client's side

    @property
    def usable(self) -> bool:
        return (
            self._reuse
            and self._lost is None
            and not self._inbox
            and self._transport is not None
            and not self._transport.is_closing()
        )

    def begin(self, flight: Flight, head: bytes) -> None:
        """Writes the request; what the kernel does not take at once goes through the transport."""
        assert self._transport is not None
        self.flight = flight
        self.used += 1
        payload = memoryview(head + flight.request.body)
        if self._fd is not None:
            try:
                taken = os.write(self._fd, payload)
            except BlockingIOError:
                taken = 0
            except OSError as fault:
                flight.land(self._now(), (State.RESET, f"{type(fault).__name__}: {fault}"))
                self.close()
                return
            if taken == len(payload):
                flight.written_ns = self._now()
                return
            payload = payload[taken:]
        self._transport.write(payload)
        if not self._writing:
            flight.written_ns = self._now()

    def close(self) -> None:
        """Hangs up at once; a flight still on it is no longer its business."""
        self._reuse = False
        self.flight = None
        self._inbox.clear()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.abort()

    def drain(self) -> bool:
        """Parses some queued reads; whether more are left."""
        batch = self._inbox
        if len(batch) <= READS_A_SLICE:
            self._inbox = []
        else:
            self._inbox = batch[READS_A_SLICE:]
            batch = batch[:READS_A_SLICE]
        parse = self._parser.feed_data
        for at, data in batch:
            if self._in_body and self.flight is not None:
                self._at = at
                try:
                    parse(data)
                except httptools.HttpParserCallbackError:  # a defect of ours, not the server's
                    raise
                except httptools.HttpParserError as fault:
                    self._give_up(f"not HTTP: {fault}: {clip(data, 100)}")
            else:
                self._feed(at, data)
        if self._inbox:
            return True
        if self._paused_reading and self._transport is not None and self._lost is None:
            self._paused_reading = False
            self._transport.resume_reading()
        if self._lost is not None:
            self._ended(*self._lost)
        return False

    def _feed(self, at: int, data: bytes) -> None:
        flight = self.flight
        if flight is None:  # bytes that nobody asked for
            self.close()
            return
        if flight.first_byte_ns is None:
            flight.first_byte_ns = at
        self._at = at
        self._header_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserCallbackError:
            raise
        except httptools.HttpParserUpgrade:
            self._give_up(f"HTTP {self._parser.get_status_code()} upgrades the connection")
        except httptools.HttpParserError as fault:
            self._give_up(f"not HTTP: {fault}: {clip(data, 100)}")
        else:
            if not self._in_body and self.flight is not None and self._header_bytes > HEADER_BYTES_MAX:
                self._give_up(f"headers larger than {HEADER_BYTES_MAX} bytes")

    def _ended(self, at: int, why: str) -> None:
        """The connection is gone. An answer that only its end delimits is whole; any other is cut."""
        flight = self.flight
        self._reuse = False
        if flight is None:
            return
        self.flight = None
        delimited = b"content-length" in self._headers or b"chunked" in self._headers.get(b"transfer-encoding", b"")
        if self._in_body and not delimited and why == "closed by the server":
            self._client.landed(self, flight, at, None)
            return
        if flight.first_byte_ns is None and self.used > 1:
            why = f"kept-alive connection, {why} before any byte"
        self._client.landed(self, flight, at, (State.RESET, why))

    def _give_up(self, why: str) -> None:
        flight = self.flight
        if flight is not None:
            self._client.landed(self, flight, self._at, (State.MALFORMED, why))
        self.close()

    # the parser's side

    def on_message_begin(self) -> None:
        self._headers = {}
        self._in_body = False
        if self.flight is None:
            self._reuse = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if self.flight is None or 100 <= status < 200:
            return
        self._in_body = True
        if why := self.flight.headers(status, self._headers):
            self._give_up(why)

    def on_body(self, body: bytes) -> None:
        flight = self.flight
        if flight is not None and (why := flight.part(body, self._at)):
            self._give_up(why)

    def on_message_complete(self) -> None:
        flight, interim = self.flight, not self._in_body
        self._in_body = False
        self._header_bytes = 0
        if flight is None or interim:
            return
        self.flight = None
        self._reuse = self._reuse and self._parser.should_keep_alive() and flight.written_ns is not None
        self._client.landed(self, flight, self._at, None)

    @property
    def keep_alive_s(self) -> float | None:
        """What the server says in `Keep-Alive: timeout=`."""
        said: Any = self._headers.get(b"keep-alive", b"").lower().partition(b"timeout=")[2].split(b",")[0].strip()
        return float(said) if said.isdigit() else None

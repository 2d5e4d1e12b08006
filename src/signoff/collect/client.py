"""The client on the timed path: one send, one record, whatever becomes of it.

Own keep-alive connections over asyncio protocols; nothing is ever sent twice. A connection that idled longer than
servers commonly allow is not used again; one that dies under a request is that request's `reset`.
"""

import asyncio
import gc
import resource
import socket
import ssl
import time
from collections import deque
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from signoff import __version__
from signoff.collect.client_connection import Connection
from signoff.collect.client_flight import Flight
from signoff.collect.client_lag import LagProbe, give_precedence_back, take_precedence
from signoff.collect.control import key_of, tls_of
from signoff.core.plan import Service
from signoff.core.protocols import Clock
from signoff.core.record import Exchange, Request
from signoff.core.words import State
from signoff.errors import SignoffError

HANG_UP = "signoff: hang up"
"""`task.cancel(HANG_UP)` on a task inside `send` makes it return the record, state aborted, instead of raising."""
SLICE_NS = 300_000
COLLECTOR_THRESHOLDS = (50_000, 20, 50)
"""Python's own make the collector walk every living record many times a second."""
GRACE_S = 0.01
"""Between a limit that seems to have passed and the cut: a loop that woke late first reads what lies in the kernel."""
IDLE_S_MAX = 2.0
"""uvicorn, and so vLLM, closes a connection that idled 5 s; a request may not race that."""


class HttpClient:
    """`async with` it. `keep_body=False` drops the bytes of good answers, for long pure load."""

    def __init__(self, service: Service, clock: Clock, *, keep_body: bool = True) -> None:
        self.clock = clock
        self.lag = LagProbe(clock.now_ns)
        self.stopping = False
        self._keep_body = keep_body
        self._tls = tls_of(service)
        url = urlsplit(service.base_url)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise SignoffError(f"service.base_url {service.base_url}: not an http(s) URL", "Say http://host:port.")
        self._host = url.hostname
        self._port = url.port or (443 if self._tls else 80)
        self._prefix = url.path.rstrip("/")
        self._fixed = self._fixed_headers(url.netloc.rpartition("@")[2], key_of(service))
        self._addresses: list[tuple[int, str]] | None = None
        self._resolving = asyncio.Lock()
        self._idle: deque[Connection] = deque()  # the longest idle first
        self._flying: dict[Flight, Connection | None] = {}
        self.ready: deque[Connection] = deque()
        self.draining = False
        self._thresholds = gc.get_threshold()
        self._precedence = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> "HttpClient":
        self._loop = asyncio.get_running_loop()
        raise_file_limit()
        self._precedence = take_precedence()
        self._thresholds = gc.get_threshold()
        gc.collect()
        gc.freeze()  # what is there now will stay: no collection walks it while the clock runs
        gc.set_threshold(*COLLECTOR_THRESHOLDS)
        self.lag.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()
        self.lag.stop()
        gc.set_threshold(*self._thresholds)
        give_precedence_back(self._precedence)
        for connection in self._idle:
            connection.close()
        self._idle.clear()
        await asyncio.sleep(0)

    async def send(self, request: Request, planned_ns: int) -> Exchange:
        """Send and return what became of it; never raises for the server's sins, never sends twice."""
        assert self._loop is not None
        flight = Flight(request, planned_ns, self.clock.now_ns(), self._keep_body)
        head = self._head(request)
        self._flying[flight] = None
        flight.deadline = self._loop.call_later(request.deadline_s, self._timed_out, flight)
        try:
            await self._fly(flight, head)
        except asyncio.CancelledError as asked:
            if not self.stopping and HANG_UP not in asked.args:
                self._cut(flight, State.ABORTED, "cancelled")
                raise
            if (task := asyncio.current_task()) is not None:
                task.uncancel()
            self._cut(flight, State.ABORTED, "we hung up")
        finally:
            flight.unwatch()
            self._flying.pop(flight, None)
        return flight.exchange(self.lag.overlapping(flight.sent_ns, flight.end_ns or flight.sent_ns))

    def abort(self) -> None:
        """Hang up on everything in flight; each `send` returns its record with state aborted."""
        for flight in list(self._flying):
            self._cut(flight, State.ABORTED, "we hung up")

    async def _fly(self, flight: Flight, head: bytes) -> None:
        connection = self._pooled() or await self._connected(flight)
        if connection is None:
            return
        if flight.connected_ns is None:
            flight.connected_ns = self.clock.now_ns()
        self._flying[flight] = connection
        connection.begin(flight, head)
        assert self._loop is not None
        flight.silence = self._loop.call_later(flight.request.silence_s, self._silent, flight)
        await flight.landed

    # connections

    def _pooled(self) -> Connection | None:
        now = self.clock.now_ns()
        while self._idle and now - self._idle[0].idle_since_ns > IDLE_S_MAX * 1e9:
            self._idle.popleft().close()  # of a higher load before; nobody is served by keeping it open
        while self._idle:
            connection = self._idle.pop()
            most_s = min(IDLE_S_MAX, (connection.keep_alive_s or 2 * IDLE_S_MAX) / 2)
            if connection.usable and now - connection.idle_since_ns < most_s * 1e9:
                return connection
            connection.close()
        return None

    def _rest(self, connection: Connection) -> None:
        if connection.usable:
            connection.idle_since_ns = self.clock.now_ns()
            self._idle.append(connection)
        else:
            connection.close()

    async def _connected(self, flight: Flight) -> Connection | None:
        """A new connection, unless the flight lands first: cut, timed out, or refused."""
        assert self._loop is not None
        connecting = self._loop.create_task(self._connect(flight))
        try:
            waited: set[asyncio.Future[Any]] = {connecting, flight.landed}
            await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not connecting.done():
                connecting.cancel()
        if not connecting.done():
            return None
        if (connection := connecting.result()) is not None and flight.end_ns is not None:
            connection.close()
            return None
        return connection

    async def _connect(self, flight: Flight) -> Connection | None:
        """A new connection; `None` when there is none to be had, and then the flight has landed."""
        assert self._loop is not None
        wait_s = min(flight.request.silence_s, flight.request.deadline_s)
        why = "no address"
        try:
            async with asyncio.timeout(wait_s):
                for family, address in await self._resolve():
                    try:
                        _, connection = await self._loop.create_connection(
                            lambda: Connection(self),
                            address,
                            self._port,
                            family=family,
                            ssl=self._tls,
                            server_hostname=self._host if self._tls else None,
                        )
                    except (OSError, ssl.SSLError) as fault:
                        why = f"{type(fault).__name__}: {fault}"
                    else:
                        return connection
        except TimeoutError:
            why = f"no connection within {wait_s:g} s"
        except (OSError, UnicodeError) as fault:
            why = f"{type(fault).__name__}: {fault}"
        flight.land(self.clock.now_ns(), (State.REFUSED, why))
        return None

    async def _resolve(self) -> list[tuple[int, str]]:
        """Addresses of the host, looked up once, so that no request pays for a name server."""
        assert self._loop is not None
        async with self._resolving:
            if self._addresses is None:
                found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                self._addresses = list(dict.fromkeys((int(family), str(at[0])) for family, _, _, _, at in found))
        return self._addresses

    # what connections call

    def drain_soon(self) -> None:
        """Some connection is `ready`: it has reads to parse."""
        assert self._loop is not None
        if not self.draining:
            self.draining = True
            self._loop.call_soon(self._drain)

    def landed(self, connection: Connection, flight: Flight, at: int, trouble: tuple[State, str] | None) -> None:
        flight.land(at, trouble)
        self._flying.pop(flight, None)
        if trouble is None:
            self._rest(connection)
        else:
            connection.close()

    def _drain(self) -> None:
        """Parses for one slice, then lets the loop read again, so that no stamp waits for the parser."""
        assert self._loop is not None
        ready, now, until = self.ready, time.perf_counter_ns, time.perf_counter_ns() + SLICE_NS
        while ready:
            connection = ready.popleft()
            if self._parse(connection):
                ready.append(connection)
            else:
                connection.queued = False
            if now() > until:
                break
        if ready:
            self._loop.call_soon(self._drain)
        else:
            self.draining = False

    # limits

    def _timed_out(self, flight: Flight, sure: bool = False) -> None:
        assert self._loop is not None
        self._parse_all(flight)
        if sure or flight.end_ns is not None:
            self._cut(flight, State.TIMEOUT, f"not finished after {flight.request.deadline_s:g} s")
        else:
            flight.deadline = self._loop.call_later(GRACE_S, self._timed_out, flight, True)

    def _silent(self, flight: Flight, sure: bool = False) -> None:
        """The silence limit may have passed: cut, or look again when it can pass next."""
        assert self._loop is not None
        self._parse_all(flight)
        connection = self._flying.get(flight)
        if flight.end_ns is not None or connection is None:
            return
        heard = max(connection.last_ns, flight.written_ns or flight.connected_ns or flight.sent_ns)
        left_s = flight.request.silence_s - (self.clock.now_ns() - heard) / 1e9
        if left_s <= 0.001 and sure:
            self._cut(flight, State.STALLED, f"no byte for {flight.request.silence_s:g} s")
        else:
            passed = left_s <= 0.001
            flight.silence = self._loop.call_later(GRACE_S if passed else left_s, self._silent, flight, passed)

    def _parse_all(self, flight: Flight) -> None:
        """Bytes that came in time count, though they were not parsed yet."""
        connection = self._flying.get(flight)
        while connection is not None and connection.flight is flight and self._parse(connection):
            pass

    def _parse(self, connection: Connection) -> bool:
        """Some reads of one connection; whether more are left. A defect of ours ends its request alone, and loudly."""
        flight = connection.flight
        try:
            return connection.drain()
        except Exception as fault:
            connection.close()
            if flight is not None and not flight.landed.done():
                flight.landed.set_exception(fault.__context__ or fault)  # the parser wraps what its callbacks raise
            return False

    def _cut(self, flight: Flight, state: State, why: str) -> None:
        connection = self._flying.pop(flight, None)
        if flight.end_ns is None:
            flight.land(self.clock.now_ns(), (state, why))
            if connection is not None:
                connection.close()

    # the head of a request

    def _fixed_headers(self, host: str, key: str | None) -> bytes:
        lines = [
            f"Host: {host}",
            f"User-Agent: signoff/{__version__}",
            "Accept-Encoding: identity",
            "Content-Type: application/json",
        ]
        if key:
            lines.append(f"Authorization: Bearer {key}")
        return "".join(f"{line}\r\n" for line in lines).encode("latin-1")

    def _head(self, request: Request) -> bytes:
        accept = "text/event-stream" if request.stream else "application/json"
        own = {"X-Request-Id": request.id, "Accept": accept, **request.headers}
        lines = [f"POST {self._prefix}{request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in own.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError(f"a line break in the headers of request {request.id!r}")
        own_lines = "".join(f"{line}\r\n" for line in lines).encode("latin-1")
        return own_lines + self._fixed + b"Content-Length: %d\r\n\r\n" % len(request.body)


def raise_file_limit() -> None:
    """A thousand streams need more open files than the usual soft limit of 1,024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

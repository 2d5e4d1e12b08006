"""The paced server of the self-check: `python -m signoff.collect.self_check_server`, orders as one JSON line on stdin.

It streams a fixed number of chunks at planned instants and stamps each around its `socket.send`: what it wrote is the
truth that the client's stamps are compared with. The port goes to stdout first; when stdin ends, the stamps follow.
"""

import heapq
import selectors
import socket
import time

import msgspec
from msgspec import Struct

CHUNK = b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'
LAST = (
    b'data: {"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
    b"data: [DONE]\n\n"
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


class Pace(Struct, kw_only=True):
    """What the parent asks; nanoseconds. A thousand streams in step would ask more of this server than of the client,
    so it does not wait for a stream that is late: its stamps say so."""

    first_ns: int
    gap_ns: int
    chunks: int


class Truth(Struct, kw_only=True):
    """Of one request, on this machine's monotonic clock."""

    id: str
    received_ns: int
    sent_ns: list[int]
    """Just before each chunk was handed to the kernel."""
    late_ns: int
    """The most a chunk was behind its plan, this server's own fault."""


class Paced:
    """One thread, one selector, one heap of what is due."""

    def __init__(self, pace: Pace) -> None:
        self.pace = pace
        self.truths: list[Truth] = []
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._inbox: dict[socket.socket, bytes] = {}
        self._due: list[tuple[int, int, socket.socket, Truth]] = []
        self.port: int = self._listener.getsockname()[1]

    def serve(self, until_fd: int) -> None:
        """Until that file descriptor says something or ends."""
        self._selector.register(until_fd, selectors.EVENT_READ)
        while True:
            now = time.perf_counter_ns()
            while self._due and self._due[0][0] <= now:
                self._send(*heapq.heappop(self._due))
                now = time.perf_counter_ns()
            wait_s = (self._due[0][0] - now) / 1e9 if self._due else None
            for key, _ in self._selector.select(wait_s):
                if key.fd == until_fd:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._receive(key.fileobj)

    def _accept(self) -> None:
        try:
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setblocking(False)
                self._selector.register(connection, selectors.EVENT_READ)
                self._inbox[connection] = b""
        except BlockingIOError:
            return

    def _receive(self, connection: socket.socket) -> None:
        try:
            data = connection.recv(65536)
        except OSError:
            data = b""
        now = time.perf_counter_ns()
        if not data:
            self._selector.unregister(connection)
            self._inbox.pop(connection, None)
            connection.close()
            return
        whole = self._inbox[connection] + data
        head, ended, body = whole.partition(b"\r\n\r\n")
        length = _header(head, b"content-length")
        if not ended or len(body) < int(length or 0):
            self._inbox[connection] = whole
            return
        self._inbox[connection] = b""
        truth = Truth(id=_header(head, b"x-request-id").decode(), received_ns=now, sent_ns=[], late_ns=0)
        self.truths.append(truth)
        self._put(connection, HEAD)
        heapq.heappush(self._due, (now + self.pace.first_ns, len(self.truths), connection, truth))

    def _send(self, due: int, order: int, connection: socket.socket, truth: Truth) -> None:
        last = len(truth.sent_ns) == self.pace.chunks - 1
        parts = (CHUNK, LAST) if last else (CHUNK,)
        framed = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + (b"0\r\n\r\n" if last else b"")
        before = time.perf_counter_ns()
        if not self._put(connection, framed):
            return
        truth.sent_ns.append(before)
        truth.late_ns = max(truth.late_ns, before - due)
        if not last:
            heapq.heappush(self._due, (due + self.pace.gap_ns, order, connection, truth))

    def _put(self, connection: socket.socket, data: bytes) -> bool:
        try:
            return connection.send(data) == len(data)
        except OSError:
            return False


def _header(head: bytes, name: bytes) -> bytes:
    for line in head.split(b"\r\n")[1:]:
        field, _, value = line.partition(b":")
        if field.lower() == name:
            return value.strip()
    return b""


def main() -> None:
    orders = open(0, "rb", buffering=0)  # noqa: SIM115  unbuffered, so that its end can be selected on
    server = Paced(msgspec.json.decode(orders.readline(), type=Pace))
    with open(1, "wb", buffering=0) as out:
        out.write(b"%d\n" % server.port)
        server.serve(0)
        out.write(msgspec.json.encode(server.truths) + b"\n")


if __name__ == "__main__":
    main()

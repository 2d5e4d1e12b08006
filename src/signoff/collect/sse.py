"""Server-sent events, bytes in as they arrive, event payloads out (WHATWG HTML, section 9.2.6).

The usual shape, one `data: ` line and LF LF, takes a short road. From the first CR on, and for anything odd inside a
block, lines are read one by one: CR LF, lone CR, a CR LF torn between two reads, `data:` without a blank, comments,
several data lines, named events, a byte order mark. An event that its stream never ended with a blank line is none.
"""

EVENT_BYTES_MAX = 1024 * 1024
_BOM = b"\xef\xbb\xbf"


class SseReader:
    """One stream. `feed` gives the payloads that a read completed; it never raises."""

    __slots__ = ("_after_cr", "_begun", "_data", "_name", "_plain", "_size", "_tail", "errors", "too_large")

    def __init__(self) -> None:
        self.errors: list[bytes] = []
        """Payloads of events named `error`."""
        self.too_large = False
        self._plain = True  # no CR was seen: blocks end at LF LF
        self._begun = False
        self._after_cr = False
        self._tail = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._name = b""

    def feed(self, body: bytes) -> list[bytes]:
        """Payloads of the events that `body` completed, in order; empty ones are left out."""
        if not self._begun:
            body = self._first(body)
        if self._plain and b"\r" not in body:
            if self._tail:
                searched = max(0, len(self._tail) - 1)
                self._tail += body
                if self._tail.find(b"\n\n", searched) < 0:
                    self.too_large = self.too_large or len(self._tail) > EVENT_BYTES_MAX
                    return []
                body = bytes(self._tail)
            return self._blocks(body)
        return self._lines(body)

    @property
    def between_events(self) -> bool:
        """Whether everything so far was of the plain shape and ended."""
        return self._plain and self._begun and not self._tail

    @property
    def unended(self) -> bool:
        """Whether bytes of an event are left that no blank line ended."""
        return bool(self._data or self._tail.strip())

    def _first(self, body: bytes) -> bytes:
        """Holds back the first bytes until a byte order mark is ruled out or dropped."""
        body = bytes(self._tail) + body
        self._tail.clear()
        if len(body) < 3 and _BOM.startswith(body):
            self._tail += body
            return b""
        self._begun = True
        return body[3:] if body.startswith(_BOM) else body

    def _blocks(self, body: bytes) -> list[bytes]:
        blocks = body.split(b"\n\n")
        self._tail = bytearray(blocks.pop())
        found: list[bytes] = []
        for block in blocks:
            if block.startswith(b"data: ") and b"\n" not in block:
                found.append(block[6:])
            else:
                for line in block.split(b"\n"):
                    self._line(line, found)
                self._line(b"", found)
        return found

    def _lines(self, body: bytes) -> list[bytes]:
        self._plain = False
        if self._after_cr and body.startswith(b"\n"):
            body = body[1:]
            self._after_cr = False
        if not body:
            return []
        self._after_cr = body.endswith(b"\r")
        body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        found: list[bytes] = []
        if b"\n" not in body:
            self._tail += body
        else:
            lines = (bytes(self._tail) + body).split(b"\n")
            self._tail = bytearray(lines.pop())
            for line in lines:
                self._line(line, found)
        self.too_large = self.too_large or len(self._tail) > EVENT_BYTES_MAX
        return found

    def _line(self, line: bytes, found: list[bytes]) -> None:
        if not line:
            payload = b"\n".join(self._data)
            if payload and self._name == b"error":
                self.errors.append(payload)
            elif payload:
                found.append(payload)
            self._data.clear()
            self._size, self._name = 0, b""
            return
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self.too_large = self.too_large or self._size > EVENT_BYTES_MAX
        elif field == b"event":
            self._name = value

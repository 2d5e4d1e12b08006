"""The run's clock: monotonic, anchored to Unix time once, so that instants compare with scrapes and logs."""

import asyncio
import time


class SystemClock:
    """`now_ns` is monotonic; it equals Unix time at the moment of construction."""

    def __init__(self) -> None:
        self._offset_ns = time.time_ns() - time.perf_counter_ns()

    def now_ns(self) -> int:
        return time.perf_counter_ns() + self._offset_ns

    async def sleep_until(self, at_ns: int) -> None:
        """Returns at once when the instant has passed."""
        wait_ns = at_ns - self.now_ns()
        if wait_ns > 0:
            await asyncio.sleep(wait_ns / 1e9)

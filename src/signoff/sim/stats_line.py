"""The stats line that the server logs every ten seconds while it has something to say."""

from collections import deque

from msgspec import Struct

from signoff.sim.launch_log import LaunchLog
from signoff.sim.metrics import Metrics
from signoff.sim.scheduler import Scheduler

REQUESTS_KEPT = 1000


class _Totals(Struct, frozen=True, kw_only=True):
    prompt: float
    generation: float
    preemptions: float
    queries: float
    hits: float


def _totals(metrics: Metrics) -> _Totals:
    by_source = metrics.by_source.values
    return _Totals(
        prompt=sum(v for k, v in by_source.items() if ("source", "local_compute") in k),
        generation=sum(metrics.generation.values.values()),
        preemptions=sum(metrics.preemptions.values.values()),
        queries=sum(metrics.queries.values.values()),
        hits=sum(metrics.hits.values.values()),
    )


class StatsLine:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._last = _totals(metrics)
        self._windows: deque[tuple[float, float]] = deque(maxlen=REQUESTS_KEPT)
        self._busy = False

    def write(self, log: LaunchLog, scheduler: Scheduler, seconds: float) -> None:
        """One line for the `seconds` since the last one; an idle engine says nothing, as vLLM's does at INFO."""
        now, last = _totals(self._metrics), self._last
        self._last = now
        self._windows.append((now.queries - last.queries, now.hits - last.hits))
        busy = now.prompt + now.generation > last.prompt + last.generation
        if not busy and not self._busy:
            return
        self._busy = busy
        parts = [
            f"Avg prompt throughput: {(now.prompt - last.prompt) / seconds:.1f} tokens/s",
            f"Avg generation throughput: {(now.generation - last.generation) / seconds:.1f} tokens/s",
            f"Running: {len(scheduler.running)} reqs",
            f"Waiting: {len(scheduler.waiting)} reqs",
        ]
        if now.preemptions > last.preemptions:
            parts.append(f"Preemptions: {now.preemptions - last.preemptions:.0f}")
        parts.append(f"GPU KV cache usage: {scheduler.pool.usage * 100:.1f}%")
        if self._metrics.settings.prefix_caching:
            queries = sum(q for q, _ in self._windows)
            parts.append(f"Prefix cache hit rate: {100 * sum(h for _, h in self._windows) / max(1.0, queries):.1f}%")
        log.api("loggers.py:335", "Engine 000: " + ", ".join(parts))

"""What the engine does wrong, read from the faults that are on; without faults every answer here is the healthy one."""

from signoff.core.workload import rng
from signoff.sim.scheduler import Scheduler
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings

OOM = "torch.OutOfMemoryError"
ILLEGAL = "torch.AcceleratorError"
RESTART = "restart"


class EngineFaults:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.faults = settings.faults
        self._draw = rng("misbehaviour", settings.seed)
        self._ended = 0
        self.first_s: float | None = None
        """When the first request came."""

    def fatal(self, scheduler: Scheduler, now_s: float) -> str:
        """Why the engine dies before its next step; empty: it lives."""
        limit = self.faults.get("long-oom")
        if limit is not None and any(len(s.prompt) > limit for s in self._next(scheduler)):
            return OOM
        if self._due("soak-engine-death", now_s):
            return ILLEGAL
        return RESTART if self._due("soak-restart", now_s) else ""

    def hangs(self, scheduler: Scheduler, now_s: float) -> bool:
        """Whether the engine stops stepping for good."""
        limit = self.faults.get("long-hang")
        if limit is not None and any(len(s.prompt) > limit for s in self._next(scheduler)):
            return True
        return self._due("soak-hang", now_s)

    def _due(self, fault: str, now_s: float) -> bool:
        """Whether a fault that comes some time after the first request is due."""
        after = self.faults.get(fault)
        return after is not None and self.first_s is not None and now_s - self.first_s >= after

    def _next(self, scheduler: Scheduler) -> list[Sequence]:
        return [*scheduler.running, *list(scheduler.waiting)[:1]]

    def prefill_tokens_per_s(self) -> float:
        return self.faults.get("conc-slow-prefill") or self.settings.prefill_tokens_per_s

    def slowness(self) -> float:
        """Factor on step times: 1 when healthy, growing with the requests served under `soak-degrade`."""
        return 1.0 + self.faults.get("soak-degrade", 0.0) * self._ended

    def leaks(self) -> bool:
        """Whether the request that ends now keeps its blocks."""
        self._ended += 1
        share = self.faults.get("soak-leak-kv")
        return share is not None and self._draw.random() < share

    def reported_hits(self, sequence: Sequence) -> int:
        """Hit tokens as they are told to the client and the counters."""
        if "prefix-false-hit" in self.faults and self.settings.prefix_caching:
            return max(0, (len(sequence.prompt) - 1) // self.settings.unit * self.settings.unit)
        return sequence.cached

"""The engine: runs the scheduler's steps on the real clock and hands tokens to whoever waits for them."""

import asyncio
import random
from collections.abc import Callable

from signoff.core.workload import rng
from signoff.sim.blocks import chain
from signoff.sim.engine_faults import RESTART, EngineFaults
from signoff.sim.metrics import Metrics
from signoff.sim.scheduler import Scheduler, Step
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings
from signoff.sim.tokens import Ids

DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class Engine:
    """Steps while there is work. `dead` is set once and for all when the engine dies; `hung` when it stops stepping."""

    def __init__(self, settings: Settings, metrics: Metrics, engine_faults: EngineFaults) -> None:
        self.settings, self.metrics, self.engine_faults = settings, metrics, engine_faults
        self.scheduler = Scheduler(settings)
        self.dead = False
        self.hung = False
        self.on_death: Callable[[str], None] | None = None
        self.on_hang: Callable[[], None] | None = None
        self._jitter: random.Random = rng("steps", settings.seed)
        self._wake = asyncio.Event()
        self._stopped = False
        self._now = asyncio.get_running_loop().time
        self.steps = 0

    @property
    def now_s(self) -> float:
        return self._now()

    def submit(self, sequence: Sequence) -> None:
        """Queue a request; its callbacks run inside the step that concerns them."""
        if self.engine_faults.first_s is None:
            self.engine_faults.first_s = self._now()
        self.scheduler.add(sequence)
        self._gauges()
        self._wake.set()

    def hashes(self, prompt: Ids, salt: str) -> list[bytes]:
        return chain(prompt, self.settings.unit, salt) if self.settings.prefix_caching else []

    def abort(self, sequence: Sequence) -> None:
        """The client hung up."""
        if not sequence.ended:
            self._end(sequence, "abort")
            self._gauges()

    def stop(self) -> None:
        self._stopped = True
        self._wake.set()

    def die(self, why: str) -> None:
        """Every open request ends with the engine's error, or with a reset when the whole process goes."""
        self.dead = True
        if self.on_death is not None:
            self.on_death(why)
        for sequence in [*self.scheduler.running, *self.scheduler.waiting]:
            self.scheduler.end(sequence)
            sequence.on_end(sequence, "reset" if why == RESTART else "dead")

    async def run(self) -> None:
        """Step until stopped or dead."""
        ready_s = self._now()
        while not self._stopped and not self.dead:
            if self.scheduler.idle or self.hung:
                self._wake.clear()
                await self._wake.wait()
                ready_s = self._now()
                continue
            began_s = max(ready_s, self._now() - 0.05)
            why = self.engine_faults.fatal(self.scheduler, self._now())
            if why:
                self.die(why)
                return
            if self.engine_faults.hangs(self.scheduler, self._now()):
                self.hung = True
                if self.on_hang is not None:
                    self.on_hang()
                continue
            step = self.scheduler.step(self._now())
            for sequence in step.admitted:
                self._admitted(sequence)
            self._gauges()
            ready_s = began_s + self._seconds(step)
            await asyncio.sleep(max(0.0, ready_s - self._now()))
            self._finish(step)

    def _admitted(self, sequence: Sequence) -> None:
        if sequence.preemptions == 0:
            sequence.reported_cached = self.engine_faults.reported_hits(sequence)
            self.metrics.admitted(sequence)

    def _seconds(self, step: Step) -> float:
        """How long a step takes: a floor, what prefill computes, and a little for each request."""
        settings = self.settings
        seconds = settings.step_ms / 1000
        seconds += (step.tokens - step.decoding) / self.engine_faults.prefill_tokens_per_s()
        seconds += len(step.work) * settings.stream_us / 1e6
        seconds *= self.engine_faults.slowness()
        return seconds * (1 + settings.jitter_share * (self._jitter.random() - 0.5))

    def _finish(self, step: Step) -> None:
        now = self._now()
        self.steps += 1
        made = 0
        gaps: dict[float, int] = {}
        for sequence, tokens in step.work:
            if sequence.ended or not self.scheduler.computed(sequence, tokens):
                continue
            made += 1
            sequence.generated += 1
            if sequence.first_s is None:
                sequence.first_s = now
                self.metrics.first_token(sequence, now - sequence.arrived_s)
            elif sequence.last_s is not None:
                gaps[now - sequence.last_s] = gaps.get(now - sequence.last_s, 0) + 1
            sequence.last_s = now
            sequence.on_tokens(sequence, 1)
            if sequence.generated >= len(sequence.answer_ids) and not sequence.ended:
                self._end(sequence, sequence.finish)
        for gap, count in gaps.items():
            self.metrics.gaps(gap, count)
        if made:
            self.metrics.tokens(made)
        self.metrics.stepped(step.tokens, step.preempted)
        self._gauges()

    def _end(self, sequence: Sequence, reason: str) -> None:
        self.scheduler.end(sequence, keep_blocks=self.engine_faults.leaks())
        if "prefix-evict" in self.settings.faults:
            self.scheduler.pool.evict_free()
        shown = reason if reason in ("stop", "length", "abort", "error") else "stop"
        self.metrics.ended(sequence, shown, self._now())
        if reason != "abort":
            sequence.on_end(sequence, reason)

    def _gauges(self) -> None:
        scheduler = self.scheduler
        self.metrics.gauges(len(scheduler.running), len(scheduler.waiting), scheduler.pool.usage)

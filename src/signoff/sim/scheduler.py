"""The scheduler, one step at a time: who computes how many tokens, who waits, who loses his blocks.

First come, first served. A step has a budget of tokens; running requests take from it first (one token when decoding, a
chunk when prefilling), then waiting ones are admitted while a slot, the budget and blocks for their whole prompt are
there. When a running request needs a block and none is free, the one admitted last is preempted: it loses its blocks
and starts again from the front of the queue.
"""

from collections import deque

import numpy as np
from msgspec import Struct

from signoff.sim.blocks import BlockPool, chain
from signoff.sim.cache import PrefixCache
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings


class Step(Struct, kw_only=True):
    """What one step does: pairs of sequence and tokens."""

    work: list[tuple[Sequence, int]] = []
    admitted: list[Sequence] = []
    preempted: int = 0

    @property
    def tokens(self) -> int:
        return sum(tokens for _, tokens in self.work)

    @property
    def decoding(self) -> int:
        return sum(1 for _, tokens in self.work if tokens == 1)


class Scheduler:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pool = BlockPool(settings.kv_blocks)
        self.cache = PrefixCache(self.pool, unit=settings.unit, sparse=settings.sparse)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.leaked: list[int] = []
        """Blocks kept by requests that ended (a fault)."""

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.running

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def step(self, now_s: float) -> Step:
        """Plan the next step and take the blocks that it needs."""
        plan = Step()
        budget = self._schedule_running(plan)
        if not plan.preempted:
            self._admit(plan, budget, now_s)
        return plan

    def _schedule_running(self, plan: Step) -> int:
        """Give running requests their tokens; returns what is left of the budget."""
        budget = self.settings.step_tokens
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            tokens = min(sequence.known - sequence.computed, budget)
            if not self._grow(sequence, tokens, plan):
                continue  # it preempted itself and is gone from this place
            plan.work.append((sequence, tokens))
            budget -= tokens
            index += 1
        return budget

    def _grow(self, sequence: Sequence, tokens: int, plan: Step) -> bool:
        """Blocks for `tokens` more, preempting from the back; False when the sequence itself had to go."""
        need = -(-(sequence.computed + tokens) // self.settings.unit) - len(sequence.blocks)
        while need > self.pool.free:
            victim = self.running[-1]
            self._preempt(victim, plan)
            if victim is sequence:
                return False
        if need > 0:
            sequence.blocks += self.pool.take(need)
        return True

    def _preempt(self, victim: Sequence, plan: Step) -> None:
        self.running.remove(victim)
        self._release(victim)
        victim.computed = 0
        victim.preemptions += 1
        plan.preempted += 1
        plan.work = [(sequence, tokens) for sequence, tokens in plan.work if sequence is not victim]
        self.waiting.appendleft(victim)

    def _admit(self, plan: Step, budget: int, now_s: float) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.settings.slots:
            sequence = self.waiting[0]
            if not self._start(sequence, now_s):
                return
            self.waiting.popleft()
            self.running.append(sequence)
            plan.admitted.append(sequence)
            tokens = min(sequence.known - sequence.computed, budget)
            plan.work.append((sequence, tokens))
            budget -= tokens

    def _start(self, sequence: Sequence, now_s: float) -> bool:
        """Blocks for the whole prompt, those found in the cache and new ones; False when there are too few."""
        settings = self.settings
        reads = settings.prefix_caching and not sequence.skip_reading
        found = self.cache.look_up(sequence.hashes, sequence.known) if reads else None
        hit = list(found.blocks) if found else []
        need = -(-sequence.known // settings.unit) - len(hit)
        held = [block for block in hit if self.pool.is_free(block)]
        if need + settings.state_blocks + len(held) > self.pool.free:
            return False
        for block in hit:
            self.pool.hold(block)
        sequence.blocks = hit + self.pool.take(need)
        sequence.state = self.pool.take(settings.state_blocks)
        sequence.computed = len(hit) * settings.unit
        if settings.prefix_caching:
            sequence.junction = found.junction if found else 0
            sequence.states_wanted = self.cache.wanted_states(len(sequence.prompt), sequence.junction)
        if sequence.scheduled_s is None:
            sequence.scheduled_s = now_s
            sequence.cached = sequence.computed
        return True

    def computed(self, sequence: Sequence, tokens: int) -> bool:
        """Account for `tokens` computed; True when a token came out of it."""
        before, unit = sequence.computed // self.settings.unit, self.settings.unit
        sequence.computed += tokens
        after = sequence.computed // unit
        if self.settings.prefix_caching and after > before:
            self._remember(sequence, before, after)
        return sequence.computed >= sequence.known

    def _remember(self, sequence: Sequence, before: int, after: int) -> None:
        if after > len(sequence.hashes) and sequence.generated:
            made = np.array(sequence.answer_ids[: sequence.generated], dtype=np.int64)
            ids = np.concatenate([sequence.prompt, made])
            sequence.hashes = chain(ids, self.settings.unit, sequence.salt, sequence.hashes)
        for index in range(before, min(after, len(sequence.hashes))):
            self.pool.remember(sequence.blocks[index], sequence.hashes[index])
        for boundary in sequence.states_wanted:
            if before < boundary <= after and self.pool.free:
                block = self.pool.take(1)[0]
                self.cache.keep_state(sequence.hashes, boundary, block)
                self.pool.release([block])

    def end(self, sequence: Sequence, keep_blocks: bool = False) -> None:
        """Take a request out, wherever it stands; with `keep_blocks` its blocks are never given back."""
        if sequence in self.running:
            self.running.remove(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)
        sequence.ended = True
        if keep_blocks:
            self.leaked += sequence.blocks + sequence.state
            sequence.blocks, sequence.state = [], []
        self._release(sequence)

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        self.pool.release(sequence.state)
        sequence.blocks, sequence.state = [], []

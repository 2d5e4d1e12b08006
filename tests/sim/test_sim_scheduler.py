"""The scheduler: budget, slots, queue, preemption by recompute, and that no block is ever lost."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.sim.blocks import chain
from signoff.sim.scheduler import Scheduler
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings


def request(scheduler, size, output, name="r", seed=0):
    ids = np.arange(size, dtype=np.int64) + seed * 1_000_000
    made = Sequence(
        request_id=name,
        prompt=ids,
        answer_ids=[1] * output,
        finish="length",
        hashes=chain(ids, scheduler.settings.unit, ""),
        salt="",
        max_tokens=output,
        arrived_s=0.0,
        on_tokens=lambda s, n: None,
        on_end=lambda s, reason: None,
    )
    scheduler.add(made)
    return made


def turn(scheduler, now_s=0.0):
    """One step; returns it, and ends what is through."""
    step = scheduler.step(now_s)
    for sequence, tokens in step.work:
        if scheduler.computed(sequence, tokens):
            sequence.generated += 1
            if sequence.generated >= len(sequence.answer_ids):
                scheduler.end(sequence)
    return step


def of(**changes):
    return Scheduler(
        Settings(**{"unit": 16, "state_blocks": 0, "kv_blocks": 1000, "step_tokens": 100, "window": 8192, **changes})
    )


def test_a_step_computes_no_more_than_its_budget():
    scheduler = of()
    for k in range(4):
        request(scheduler, 70, 3, seed=k)
    sizes = [turn(scheduler).tokens for _ in range(8)]
    assert max(sizes) <= 100
    assert sizes[:3] == [100, 100, 83]  # 280 prompt tokens in chunks, and a token of those that decode already


def test_first_come_first_served_within_slots():
    scheduler = of(slots=2)
    first, second, third = (request(scheduler, 20, 4, seed=k) for k in range(3))
    step = turn(scheduler)
    assert step.admitted == [first, second]
    assert list(scheduler.waiting) == [third]
    for _ in range(4):
        turn(scheduler, now_s=1.0)
    assert third.scheduled_s == 1.0


def test_the_last_admitted_is_preempted_and_starts_again_in_front():
    scheduler = of(kv_blocks=8, prefix_caching=False)
    first, second = request(scheduler, 60, 40), request(scheduler, 60, 40, seed=1)
    third = request(scheduler, 60, 1, seed=2)
    preempted = sum(turn(scheduler).preempted for _ in range(10))
    assert preempted == 1
    assert (first.preemptions, second.preemptions, third.preemptions) == (0, 1, 0)
    assert next(iter(scheduler.waiting)) is second
    while not scheduler.idle:
        turn(scheduler)
    assert (first.generated, second.generated, third.generated) == (40, 40, 1)
    assert scheduler.pool.usage == 0.0


def test_a_preempted_request_keeps_its_first_hit_and_its_queue_time():
    scheduler = of(kv_blocks=8)
    request(scheduler, 60, 40)
    second = request(scheduler, 60, 40, seed=1)
    turn(scheduler, now_s=3.0)
    while not scheduler.idle:
        turn(scheduler, now_s=9.0)
    assert second.preemptions > 0
    assert (second.scheduled_s, second.cached) == (3.0, 0)


def test_state_blocks_are_held_by_each_running_request():
    scheduler = of(kv_blocks=30, state_blocks=10, step_tokens=1000)
    for k in range(4):
        request(scheduler, 20, 5, seed=k)
    turn(scheduler)
    assert len(scheduler.running) == 2
    assert scheduler.pool.usage == 24 / 30


def test_kept_blocks_stay_held():
    scheduler = of()
    leaked = request(scheduler, 100, 1)
    step = scheduler.step(0.0)
    for sequence, tokens in step.work:
        scheduler.computed(sequence, tokens)
    scheduler.end(leaked, keep_blocks=True)
    assert scheduler.pool.usage > 0
    assert scheduler.idle


sizes = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 30), st.integers(0, 3)), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(sizes, st.booleans(), st.integers(0, 3), st.integers(24, 60))
def test_every_request_ends_and_every_block_comes_back(requests, sparse, state_blocks, kv_blocks):
    scheduler = of(kv_blocks=kv_blocks, sparse=sparse, state_blocks=state_blocks, slots=5)
    made = [request(scheduler, size, output, seed=seed) for size, output, seed in requests]
    for _ in range(5000):
        if scheduler.idle:
            break
        turn(scheduler)
        assert 0 <= scheduler.pool.usage <= 1
    assert scheduler.idle
    assert [s.generated for s in made] == [output for _, output, _ in requests]
    assert scheduler.pool.free == kv_blocks
    unit = scheduler.settings.unit
    assert all(s.cached <= (len(s.prompt) - 1) // unit * unit for s in made)

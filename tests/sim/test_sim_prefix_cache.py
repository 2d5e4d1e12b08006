"""The prefix cache against published and measured sequences of hits."""

import numpy as np
import pytest

from signoff.sim.blocks import BlockPool, chain
from signoff.sim.scheduler import Scheduler
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings


class Bench:
    """A scheduler alone, without clock or server."""

    def __init__(self, **changes):
        self.settings = Settings(**{"window": 65_536, "kv_blocks": 512, **changes})
        self.scheduler = Scheduler(self.settings)

    def send(self, prompt, *, salt="", output=1):
        """Run one request to its end; returns its hit tokens."""
        ids = np.array(prompt, dtype=np.int64)
        sequence = Sequence(
            request_id="r",
            prompt=ids,
            answer_ids=list(range(900_000, 900_000 + output)),
            finish="length",
            hashes=chain(ids, self.settings.unit, salt) if self.settings.prefix_caching else [],
            salt=salt,
            max_tokens=output,
            arrived_s=0.0,
            on_tokens=lambda s, n: None,
            on_end=lambda s, reason: None,
        )
        self.scheduler.add(sequence)
        while sequence.generated < output:
            step = self.scheduler.step(0.0)
            for each, tokens in step.work:
                if self.scheduler.computed(each, tokens):
                    each.generated += 1
        self.scheduler.end(sequence)
        return sequence.cached


def tokens(count, seed=0, start=0):
    return [(seed + 1) * 1_000_000 + start + i for i in range(count)]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("first", "second", "hits"), [(3071, 3072, 1536), (3073, 3073, 3072), (4000, 9000, 3072), (1535, 1600, 0)]
)
def test_published_sequences_of_a_1536_unit(sparse, first, second, hits):
    bench = Bench(unit=1536, sparse=sparse)
    assert bench.send(tokens(first)) == 0
    assert bench.send(tokens(second)) == hits


def test_an_exact_multiple_keeps_only_its_replay_boundary_when_sparse():
    assert [Bench(unit=1536, sparse=s).send(tokens(1)) for s in (True, False)] == [0, 0]
    sparse, dense = Bench(unit=1536, sparse=True), Bench(unit=1536, sparse=False)
    for bench in (sparse, dense):
        bench.send(tokens(3072))
    assert (sparse.send(tokens(3073)), dense.send(tokens(3073))) == (1536, 3072)


def test_sparse_retention_misses_twice_on_a_shared_prefix():
    bench = Bench(unit=1536, sparse=True)
    prompts = [tokens(6000) + tokens(4000, seed=k) for k in (1, 2, 3, 4)]
    assert [bench.send(p) for p in prompts] == [0, 0, 4608, 4608]


def test_dense_retention_hits_a_shared_prefix_at_once():
    bench = Bench(unit=1536, sparse=False)
    assert [bench.send(tokens(6000) + tokens(4000, seed=k)) for k in (1, 2, 3)] == [0, 4608, 4608]


@pytest.mark.parametrize("sparse", [False, True])
def test_replay_and_extension_hit_at_the_second_request(sparse):
    bench = Bench(unit=1536, sparse=sparse)
    assert [bench.send(tokens(8000)), bench.send(tokens(8000)), bench.send(tokens(12_000))] == [0, 7680, 7680]


def test_measured_sequence_of_a_128_unit():
    bench = Bench(unit=128, state_blocks=0)
    assert [bench.send(tokens(300)), bench.send(tokens(300))] == [0, 256]
    assert [bench.send(tokens(256, seed=1)), bench.send(tokens(256, seed=1))] == [0, 128]
    assert bench.send(tokens(257, seed=1)) == 256
    assert [bench.send(tokens(100, seed=2)), bench.send(tokens(100, seed=2))] == [0, 0]


def test_a_salt_isolates_and_then_hits():
    bench = Bench(unit=128, state_blocks=0)
    assert bench.send(tokens(300)) == 0
    assert [bench.send(tokens(300), salt="a"), bench.send(tokens(300), salt="a")] == [0, 256]
    assert bench.send(tokens(300)) == 256


def test_a_change_of_the_first_token_hits_nothing():
    bench = Bench(unit=128, state_blocks=0)
    bench.send(tokens(1000))
    assert bench.send([7, *tokens(1000)[1:]]) == 0
    assert bench.send([*tokens(999), 7]) == 896


def test_generated_tokens_are_cached_when_their_blocks_fill():
    bench = Bench(unit=128, state_blocks=0)
    bench.send(tokens(300), output=100)
    follow = tokens(300) + list(range(900_000, 900_100)) + [5, 6, 7]
    assert bench.send(follow) == 384


def test_caching_off_never_hits():
    bench = Bench(unit=128, state_blocks=0, prefix_caching=False)
    assert [bench.send(tokens(1000)), bench.send(tokens(1000))] == [0, 0]


def test_other_traffic_evicts_the_least_recently_used():
    bench = Bench(unit=128, state_blocks=0, kv_blocks=32)
    bench.send(tokens(1024))
    assert bench.send(tokens(1024)) == 896
    for seed in range(1, 5):
        bench.send(tokens(1024, seed=seed))
    assert bench.send(tokens(1024)) == 0
    assert bench.scheduler.pool.evictions > 0


def test_cached_blocks_that_nobody_holds_are_free():
    bench = Bench(unit=128, state_blocks=0)
    bench.send(tokens(5000))
    assert bench.scheduler.pool.usage == 0.0
    assert bench.scheduler.pool.forget() is True
    assert bench.send(tokens(5000)) == 0


def test_the_pool_refuses_more_than_it_has():
    pool = BlockPool(4)
    held = pool.take(3)
    with pytest.raises(ValueError, match="2 blocks wanted, 1 free"):
        pool.take(2)
    assert pool.forget() is False
    pool.release(held)
    assert pool.free == 4

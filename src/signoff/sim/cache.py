"""The prefix cache's rules: which head of a prompt is found again, and which states are kept for later.

A hit needs every full block of the head and, in a hybrid, the recurrent state exactly at its end. States are kept at
every boundary (dense), or (sparse) at the replay boundary of each prompt, floor((P - 1) / unit) * unit, and at the
junctions where a later prompt was found to part from an earlier one. The last prompt token is always computed.
"""

import hashlib

from msgspec import Struct

from signoff.sim.blocks import BlockPool, Hash


class Found(Struct, frozen=True, kw_only=True):
    """What the cache holds of a prompt's head."""

    blocks: tuple[int, ...] = ()
    """Blocks of the hit, in order."""
    junction: int = 0
    """Blocks of the head found without a state at their end; 0 when the state was there too."""


def state_key(hashes: list[Hash], boundary: int) -> Hash:
    """The key of the state after `boundary` blocks."""
    return hashlib.blake2b(b"state" + hashes[boundary - 1], digest_size=16).digest()


class PrefixCache:
    """Look-ups and retention over a pool."""

    def __init__(self, pool: BlockPool, *, unit: int, sparse: bool) -> None:
        self.pool, self.unit, self.sparse = pool, unit, sparse

    def look_up(self, hashes: list[Hash], tokens: int) -> Found:
        """The longest head of a prompt of `tokens` tokens, at least one token left to compute."""
        chain: list[int] = []
        for key in hashes[: max(0, (tokens - 1) // self.unit)]:
            block = self.pool.cached(key)
            if block is None:
                break
            chain.append(block)
        if not self.sparse:
            return Found(blocks=tuple(chain))
        for boundary in range(len(chain), 0, -1):
            if self.pool.cached(state_key(hashes, boundary)) is not None:
                junction = len(chain) if boundary < len(chain) else 0
                return Found(blocks=tuple(chain[:boundary]), junction=junction)
        return Found(junction=len(chain))

    def wanted_states(self, tokens: int, junction: int) -> tuple[int, ...]:
        """The boundaries, in blocks, whose state is kept for a prompt of `tokens` tokens."""
        if not self.sparse:
            return ()
        replay = (tokens - 1) // self.unit
        return tuple(sorted({replay, junction} - {0}))

    def keep_state(self, hashes: list[Hash], boundary: int, block: int) -> None:
        """Let the held `block` be found as the state after `boundary` blocks."""
        if boundary <= len(hashes):
            self.pool.remember(block, state_key(hashes, boundary))

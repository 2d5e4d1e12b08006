"""The KV block pool and the prefix cache in it.

Blocks hold `unit` tokens. A full block is known by a hash chained over all tokens before it; a state checkpoint is a
block of its own, known by the boundary it belongs to. Blocks that nobody holds stay cached until they are taken again,
least recently used first, so they count as free.
"""

import hashlib
from collections import OrderedDict

import numpy as np

from signoff.sim.tokens import Ids

Hash = bytes


def chain(ids: Ids, unit: int, salt: str, known: list[Hash] | None = None) -> list[Hash]:
    """The hashes of the full blocks of `ids`; `known` are those already computed for its head.

    The salt goes into the first block alone, and through the chain into all.
    """
    hashes = list(known) if known else []
    raw = np.ascontiguousarray(ids, dtype=np.int64).tobytes()
    parent = hashes[-1] if hashes else hashlib.blake2b(salt.encode("utf-8", "replace"), digest_size=16).digest()
    for index in range(len(hashes), len(ids) // unit):
        part = raw[index * unit * 8 : (index + 1) * unit * 8]
        parent = hashlib.blake2b(parent + part, digest_size=16).digest()
        hashes.append(parent)
    return hashes


class BlockPool:
    """`size` blocks, each free, or held by one or more requests."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._holders = [0] * size
        self._hash: list[Hash | None] = [None] * size
        self._by_hash: dict[Hash, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict.fromkeys(range(size))
        self.evictions = 0

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of blocks that are held, 0 to 1; cached blocks that nobody holds are free."""
        return 1.0 - len(self._free) / self.size if self.size else 1.0

    def cached(self, key: Hash) -> int | None:
        """The block known by `key`, if it is still there."""
        return self._by_hash.get(key)

    def is_free(self, block: int) -> bool:
        return self._holders[block] == 0

    def hold(self, block: int) -> None:
        """Hold a cached block along with whoever holds it already."""
        if self._holders[block] == 0:
            del self._free[block]
        self._holders[block] += 1

    def take(self, count: int) -> list[int]:
        """`count` blocks to write to, the least recently used first; what they cached is forgotten.

        Raises ValueError when fewer are free.
        """
        if count > len(self._free):
            raise ValueError(f"{count} blocks wanted, {len(self._free)} free")
        taken = [self._free.popitem(last=False)[0] for _ in range(count)]
        for block in taken:
            self._holders[block] = 1
            key = self._hash[block]
            if key is not None:
                del self._by_hash[key]
                self._hash[block] = None
                self.evictions += 1
        return taken

    def remember(self, block: int, key: Hash) -> None:
        """Let a held, full block be found by `key`; the first block of a key stays the one that is found."""
        if self._hash[block] is None and key not in self._by_hash:
            self._hash[block] = key
            self._by_hash[key] = block

    def release(self, blocks: list[int]) -> None:
        """Let go of `blocks`; the last of a request is the first to be evicted, for heads are shared more."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if self._holders[block] == 0:
                self._free[block] = None
                if self._hash[block] is None:
                    self._free.move_to_end(block, last=False)

    def evict_free(self) -> None:
        """Forget what the free blocks cached."""
        for block in self._free:
            key = self._hash[block]
            if key is not None:
                del self._by_hash[key]
                self._hash[block] = None
                self.evictions += 1

    def forget(self) -> bool:
        """Empty the cache; refused, with False, while any block is held."""
        if len(self._free) != self.size:
            return False
        self._by_hash.clear()
        self._hash = [None] * self.size
        return True

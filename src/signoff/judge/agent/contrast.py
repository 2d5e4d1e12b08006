"""Do two groups of attempts fail at different rates? Fisher's exact test, counted out, no approximation."""

import math

from msgspec import Struct

from signoff.core.rounding import six

CHANCE_MAX = 0.01
"""A difference that chance alone would make this seldom is taken as real."""


class Contrast(Struct, frozen=True, kw_only=True):
    """Failures `a_failed` of `a`, and `b_failed` of `b`."""

    a_failed: int
    a: int
    b_failed: int
    b: int

    @property
    def chance(self) -> float:
        """Two-sided probability of a split at least this uneven if both fail alike (Fisher, 1935); 1 without data."""
        failed, total = self.a_failed + self.b_failed, self.a + self.b
        if not self.a or not self.b or not failed or failed == total:
            return 1.0
        low, high = max(0, failed - self.b), min(failed, self.a)
        ways = [math.comb(self.a, k) * math.comb(self.b, failed - k) for k in range(low, high + 1)]
        seen = ways[self.a_failed - low]
        return six(min(1.0, sum(w for w in ways if w <= seen) / math.comb(total, failed)))

    def differ(self, tests: int = 1) -> bool:
        """Whether the difference is more than chance, when `tests` such questions are asked together."""
        return self.chance <= CHANCE_MAX / tests

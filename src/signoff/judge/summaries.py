"""Summaries of measured numbers: always with the count and an interval, never a bare point.

rate                a share of tries, exact two-sided Clopper-Pearson interval
quantile            an order statistic with distribution-free one-sided bounds
paired_difference   what changed between two arms of the same rounds
latency             success-only and all-requests side by side; failures count as infinitely late
inter_token         gaps between chunks
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy import special  # scipy.stats would add most of a second to every start

from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import State

EXACT_PAIRS_MAX = 300
"""Up to here the signed-rank distribution is counted out; above it the sign test's interval is narrow enough."""


class Rate(Struct, frozen=True, kw_only=True):
    """`k` of `n`; `low` and `high` bound the true share together at the confidence. `share` is `None` without tries."""

    k: int
    n: int
    share: float | None
    low: float
    high: float


class Quantile(Struct, frozen=True, kw_only=True):
    """An order statistic of `n` samples in the unit of the samples.

    `low` and `high` are one-sided bounds, each at the confidence by itself; `None` when `n` is under what that bound
    needs. A sample that never came counts as infinite, and an infinite value or bound is `None` too: `infinite_from`
    names the first of `low`, `value`, `high` that is infinite, empty when none is. So `value is None` with `n > 0`
    and `infinite_from` means that so many requests failed that the quantile itself is a failure.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    needed: int
    """Samples that an upper bound needs at least."""
    infinite_from: Literal["", "low", "value", "high"] = ""

    def within(self, limit: float) -> bool | None:
        """True: proved at or under `limit`. False: proved above. `None`: these samples cannot tell."""
        if self.infinite_from == "low" or (self.low is not None and self.low > limit):
            return False
        if self.high is not None and self.high <= limit:
            return True
        return None


class PairedDifference(Struct, frozen=True, kw_only=True):
    """The typical `b - a` over `n` pairs, two-sided interval; bounds are `None` when `n` is too small for one."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    method: Literal["signed_rank", "sign"]


class Spread(Struct, frozen=True, kw_only=True):
    p50: Quantile
    p95: Quantile
    p99: Quantile


class Latency(Struct, frozen=True, kw_only=True):
    """One latency seen two ways, milliseconds. `ok`: successes alone. `every`: failures as infinitely late."""

    ok: Spread
    every: Spread
    left_out: int
    """Records in neither: aborted by us, disqualified, or without this latency by nature (not streamed)."""


def rate(k: int, n: int, confidence: float = 0.95) -> Rate:
    """The exact interval of Clopper and Pearson (Biometrika 26, 1934): never covers less than `confidence`.

    Both tails together. No tries: no share, and [0, 1]."""
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n}")
    tail = (1 - confidence) / 2
    low = 0.0 if k == 0 else float(special.betaincinv(k, n - k + 1, tail))
    high = 1.0 if k == n else float(special.betaincinv(k + 1, n - k, 1 - tail))
    return Rate(k=k, n=n, share=six(k / n) if n else None, low=six(low), high=six(high))


def chance_of_so_many(a: int, of_a: int, b: int, of_b: int) -> float:
    """One-sided exact test of Fisher (1935): the probability that at least `a` of all `a + b` fall among the first
    `of_a` tries if both kinds of tries fail alike. 1 without tries or without any failure."""
    if not 0 <= a <= of_a or not 0 <= b <= of_b:
        raise ValueError(f"{a} of {of_a}, {b} of {of_b}")
    failed, total = a + b, of_a + of_b
    if not of_a or not of_b or not failed:
        return 1.0
    ways = sum(math.comb(of_a, k) * math.comb(of_b, failed - k) for k in range(a, min(failed, of_a) + 1))
    return six(ways / math.comb(total, failed))


def quantile_floor(q: float, confidence: float = 0.95) -> int:
    """Samples an upper bound of quantile `q` needs: the least n with 1 - q^n >= confidence.

    For confidence 0.95: 5 for p50, 59 for p95, 299 for p99, 2995 for p99.9 (the same floor as Wilks 1941 for
    tolerance limits and as MLPerf's early-stopping rule)."""
    return math.ceil(round(math.log(1 - confidence) / math.log(q), 9))


def quantile(samples: Sequence[float] | NDArray[np.float64], q: float, confidence: float = 0.95) -> Quantile:
    """Quantile `q` (0 to 1) of `samples`, with bounds that assume no distribution.

    The value is the order statistic of rank ceil(q n) (Hyndman and Fan, 1996, type 1), so that it is a sample that
    was seen. The number of samples at or under the true quantile is binomial(n, q), hence the upper bound is the
    smallest order statistic of rank r with P(B <= r - 1) >= confidence, the lower the largest with
    P(B >= r) >= confidence (David and Nagaraja, Order Statistics, section 7.1). NaN raises ValueError; infinity
    stands for a request that never came."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    n, needed = len(ordered), quantile_floor(q, confidence)
    if n == 0:
        return Quantile(value=None, low=None, high=None, n=0, needed=needed)
    if np.isnan(ordered[-1]):
        raise ValueError("NaN is no sample")
    above = _binomial_quantile(confidence, n, q) + 1  # smallest r with P(B <= r-1) >= confidence
    under = _binomial_quantile(1 - confidence, n, q)  # largest r with P(B <= r-1) <= 1 - confidence
    ranks = {"low": under if under >= 1 else None, "value": max(1, math.ceil(round(q * n, 9)))}
    ranks["high"] = above if above <= n else None
    found = {name: None if rank is None else float(ordered[rank - 1]) for name, rank in ranks.items()}
    infinite: Literal["", "low", "value", "high"] = ""
    for name in ("low", "value", "high"):
        at = found[name]
        if at is not None and math.isinf(at) and not infinite:
            infinite = name
    kept = {name: None if at is None or math.isinf(at) else six(at) for name, at in found.items()}
    return Quantile(n=n, needed=needed, infinite_from=infinite, **kept)


def _binomial_quantile(chance: float, n: int, p: float) -> int:
    """The smallest k with P(B <= k) >= `chance`, B binomial(n, p)."""
    guess = special.bdtrik(chance, n, p)
    k = max(0, math.ceil(guess)) if math.isfinite(guess) else 0
    while k > 0 and special.bdtr(k - 1, n, p) >= chance:
        k -= 1
    while k < n and special.bdtr(k, n, p) < chance:
        k += 1
    return k


def paired_difference(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> PairedDifference:
    """How much `b` is above `a`, pair by pair, in their unit; no normal distribution assumed.

    To 300 pairs: the Hodges-Lehmann estimate (median of the Walsh averages) with the interval that inverts the exact
    Wilcoxon signed-rank test (Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, section 3.3); six pairs
    are the least that bound anything at 0.95. Above: the median with the interval that inverts the sign test."""
    if len(a) != len(b):
        raise ValueError(f"{len(a)} and {len(b)} samples are no pairs")
    gaps = np.sort(np.asarray(b, dtype=np.float64) - np.asarray(a, dtype=np.float64))
    n, tail = len(gaps), (1 - confidence) / 2
    if n > EXACT_PAIRS_MAX:
        skip = _binomial_quantile(tail, n, 0.5)
        bounds = (float(gaps[skip - 1]), float(gaps[n - skip]))
        return PairedDifference(
            value=six(float(np.median(gaps))), low=six(bounds[0]), high=six(bounds[1]), n=n, method="sign"
        )
    if n == 0:
        return PairedDifference(value=None, low=None, high=None, n=0, method="signed_rank")
    rows, columns = np.triu_indices(n)
    walsh = np.sort((gaps[rows] + gaps[columns]) / 2)
    value = six(float(np.median(walsh)))
    skip = _signed_rank_skip(n, tail)
    if skip == 0:
        return PairedDifference(value=value, low=None, high=None, n=n, method="signed_rank")
    return PairedDifference(
        value=value, low=six(float(walsh[skip - 1])), high=six(float(walsh[-skip])), n=n, method="signed_rank"
    )


def _signed_rank_skip(n: int, tail: float) -> int:
    """The rank of the Walsh average that bounds from below: the largest c with P(T <= c - 1) <= tail; 0: none."""
    chances = np.zeros(n * (n + 1) // 2 + 1)
    chances[0] = 1.0
    for rank in range(1, n + 1):
        moved = np.zeros_like(chances)
        moved[rank:] = chances[:-rank]
        chances = (chances + moved) / 2
    return int(np.searchsorted(np.cumsum(chances), tail, side="right"))


def ttft_ms(record: Record) -> float | None:
    """From fully written to the first reasoning, content or tool delta."""
    return None if record.ttft_ns is None else record.ttft_ns / 1e6


def ttft_planned_ms(record: Record) -> float | None:
    """From the planned instant to the first delta: hides no queueing of a late client."""
    return None if record.ttft_planned_ns is None else record.ttft_planned_ns / 1e6


def e2e_ms(record: Record) -> float | None:
    """From fully written to the end."""
    return None if record.e2e_ns is None else record.e2e_ns / 1e6


def counted(record: Record) -> bool:
    """Whether a record speaks of the service at all: we did not hang up, and the client was not the bottleneck."""
    return record.state is not State.ABORTED and not record.disqualified


def latency(
    records: Iterable[Record], of: Callable[[Record], float | None] = ttft_ms, confidence: float = 0.95
) -> Latency:
    """`of` (milliseconds) over `records`, success-only and all-requests."""
    good: list[float] = []
    failed = left_out = 0
    for record in records:
        took = of(record)
        if not counted(record) or (record.state is State.OK and took is None):
            left_out += 1
        elif record.state is State.OK and took is not None:
            good.append(took)
        else:
            failed += 1
    return Latency(
        ok=spread(good, confidence), every=spread([*good, *[math.inf] * failed], confidence), left_out=left_out
    )


def gaps_ms(records: Iterable[Record]) -> NDArray[np.float64]:
    """All gaps between neighbouring chunks of each record, pooled; shape (gaps,), milliseconds."""
    stamps = [np.asarray(r.chunk_ns, dtype=np.int64) for r in records if len(r.chunk_ns) > 1]
    found = [(at[1:] - at[:-1]).astype(np.float64) for at in stamps]
    return np.concatenate(found) / 1e6 if found else np.empty(0)


def inter_token(records: Iterable[Record], confidence: float = 0.95) -> Latency:
    """Gaps between chunks. In `every` each failed streamed request adds one gap that never ended.

    A chunk may carry several tokens, and then its gap is not one token's: read beside chunks and completion tokens."""
    kept = [r for r in records if r.stream]
    spoken = [r for r in kept if counted(r)]
    good = gaps_ms(r for r in spoken if r.state is State.OK)
    broken = [r for r in spoken if r.state is not State.OK]
    every = np.concatenate([good, gaps_ms(broken), np.full(len(broken), math.inf)])
    return Latency(ok=spread(good, confidence), every=spread(every, confidence), left_out=len(kept) - len(spoken))


def spread(samples: Sequence[float] | NDArray[np.float64], confidence: float = 0.95) -> Spread:
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    return Spread(
        p50=quantile(ordered, 0.5, confidence),
        p95=quantile(ordered, 0.95, confidence),
        p99=quantile(ordered, 0.99, confidence),
    )

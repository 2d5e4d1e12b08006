"""Pressure: which resource of the server was at its bound in a stretch of time, and for how much of it."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from signoff.core.metrics import Floats, MetricTable
from signoff.core.rounding import six
from signoff.judge.capacity import window

KV_BOUND = 0.95
STEP_BOUND = 0.9
"""A step with so much of its token budget used counts as full; the histogram's buckets are coarse, so the nearest bound
under it is taken."""
TIME_SHARE = 0.2
SCRAPES_MIN = 3


class Pressure(Struct, frozen=True, kw_only=True):
    """`None`: not seen."""

    scrapes: int
    kv_high: float | None = None
    """0 to 1."""
    kv_bound_share: float | None = None
    """Share of scrapes with KV use at its bound."""
    slots_bound_share: float | None = None
    step_bound_share: float | None = None
    running_high: float | None = None
    waiting_high: float | None = None
    preemptions: float | None = None
    bound: str = ""
    """`kv`, `slots`, `token_budget`, or empty: none was at its bound for a fifth of the time."""


def pressure(
    tables: Sequence[MetricTable],
    from_ns: int,
    to_ns: int,
    slots: int | None,
    step_tokens: int | None,
    preemptions: float | None,
) -> Pressure:
    """`slots` is the server's limit of running requests, `step_tokens` its budget of tokens a step; `None` where the
    launch does not say, and then a plateau of running requests with others waiting is taken for the slots."""
    kv = window.gauge(tables, window.KV_NAMES, from_ns, to_ns)
    running = window.gauge(tables, (window.RUNNING,), from_ns, to_ns)
    waiting = window.gauge(tables, (window.WAITING,), from_ns, to_ns)
    enough = len(kv) >= SCRAPES_MIN
    kv_share = float(np.mean(kv >= KV_BOUND)) if enough else None
    slots_share = _slots_share(running, waiting, slots) if enough else None
    steps = _step_share(tables, from_ns, to_ns, step_tokens) if enough else None
    shares = (("kv", kv_share), ("slots", slots_share), ("token_budget", steps))
    bound = next((name for name, share in shares if share is not None and share >= TIME_SHARE), "")
    return Pressure(
        scrapes=len(kv),
        kv_high=_high(kv),
        kv_bound_share=_six(kv_share),
        slots_bound_share=_six(slots_share),
        step_bound_share=_six(steps),
        running_high=_high(running),
        waiting_high=_high(waiting),
        preemptions=_six(preemptions),
        bound=bound,
    )


def _slots_share(running: Floats, waiting: Floats, slots: int | None) -> float | None:
    if len(running) == 0 or len(running) != len(waiting):
        return None
    queued = waiting > 0
    if slots is None:
        level = float(running[queued].max()) if queued.any() else float("inf")
        full = queued & (running == level)
        return float(np.mean(full)) if queued.any() and np.ptp(running[queued]) == 0 else 0.0
    return float(np.mean(queued & (running >= slots)))


def _step_share(tables: Sequence[MetricTable], from_ns: int, to_ns: int, step_tokens: int | None) -> float | None:
    """How much of the time requests waited while neither cache nor slots were full, where most tokens were computed in
    full steps: then the budget of a step is what they waited for. Counted in tokens, since a full step lasts longer
    than the many that decode."""
    waiting = window.gauge(tables, (window.WAITING,), from_ns, to_ns)
    kv = window.gauge(tables, window.KV_NAMES, from_ns, to_ns)
    buckets = window.histogram(tables, window.STEP_TOKENS, from_ns, to_ns)
    total = window.delta(tables, window.STEP_TOKENS + "_sum", from_ns, to_ns)
    if step_tokens is None or not buckets or not total or len(waiting) != len(kv) or not len(kv):
        return None
    full_size = max((le for le, _ in buckets if le <= STEP_BOUND * step_tokens), default=0.0)
    under = max((count for le, count in buckets if le <= full_size), default=0.0)
    in_full = (buckets[-1][1] - under) * full_size / total
    return min(1.0, in_full, float(np.mean((waiting > 0) & (kv < KV_BOUND))))


def _six(number: float | None) -> float | None:
    return None if number is None else six(number)


def _high(values: Floats) -> float | None:
    return six(float(values.max())) if len(values) else None

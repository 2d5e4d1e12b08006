"""When requests are to be sent: pure, seeded, in nanoseconds on the run's axis. An open loop takes these as planned."""

from signoff.core.workload import rng


def spread(count: int, start_ns: int, over_s: float) -> list[int]:
    """`count` instants at equal steps, the first at `start_ns`, none at its end; all at once when `over_s` is 0."""
    return [start_ns + round(over_s * 1e9 * index / count) for index in range(count)]


def steady(rate_per_s: float, start_ns: int, lasts_s: float) -> list[int]:
    """A constant rate: every 1/rate seconds from `start_ns` on, while before its end."""
    if rate_per_s <= 0:
        raise ValueError(f"a rate of {rate_per_s} per second sends nothing")
    return [start_ns + round(index * 1e9 / rate_per_s) for index in range(-int(-rate_per_s * lasts_s // 1))]


def poisson(rate_per_s: float, start_ns: int, lasts_s: float, *seed: object) -> list[int]:
    """Independent arrivals at a mean rate: exponential gaps, the same on every machine for one seed."""
    if rate_per_s <= 0:
        raise ValueError(f"a rate of {rate_per_s} per second sends nothing")
    draw = rng("poisson", *seed)
    planned: list[int] = []
    at_s = draw.expovariate(rate_per_s)
    while at_s < lasts_s:
        planned.append(start_ns + round(at_s * 1e9))
        at_s += draw.expovariate(rate_per_s)
    return planned

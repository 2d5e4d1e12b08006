"""Memory: whether the front process grows over the soak, and whether the curves that show it were seen at all."""

from collections.abc import Sequence

import numpy as np

from signoff.core.finding import Finding
from signoff.core.metrics import Floats, MetricTable
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity
from signoff.judge.capacity import window
from signoff.judge.capacity.stages import Seen, metrics_cited

SOAK = "capacity.soak"
PARTS, RISES_MIN = 6, 4
"""The soak is cut into so many parts; so many of the steps between their medians must rise, the last among them."""
GROWN_RATIO = 1.1
LAST_SHARE = 0.2
"""Of the whole growth that the last third must have: growth at one pace has two fifths there, a warm-up hardly any."""
CURVE_MIN = 6


def findings(seen: Seen) -> list[Finding]:
    return [_growth(seen), _curves(seen)]


def _growth(seen: Seen) -> Finding:
    """Resident memory of the servers' front processes, each by itself. Frontends that publish none leave it open."""
    records = seen.of(SOAK)
    curves = [c for table in seen.tables if len(c := _curve(table, records)) >= PARTS]
    worst = max(curves, key=lambda c: (leaks(c), _ratio(c)), default=None)
    values: dict[str, object] = {"scrapes": min((len(_curve(t, records)) for t in seen.tables), default=0)}
    severity = Severity.FAIL
    if not records:
        outcome = Outcome.NOT_RUN
    elif worst is None or len(curves) < len(seen.tables):
        outcome = Outcome.FAIL if worst is not None and leaks(worst) else Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.FAIL if leaks(worst) else Outcome.PASS
        severity = Severity.WARN if outcome is Outcome.PASS and _ratio(worst) >= GROWN_RATIO else severity
    if worst is not None:
        values |= {"memory_ratio": six(_ratio(worst)), "rises": _rises(worst), "peak_gib": six(worst.max() / 2**30)}
    return Finding(
        code="capacity.soak.memory",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.SERVICE,
        severity=severity,
        cause=Cause.SUSTAINED if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.SOAK,
        values=values,  # type: ignore[arg-type]
        limit={"ratio": GROWN_RATIO, "rises": RISES_MIN},
        evidence=metrics_cited(seen.tables, *_span(records)),
        items=(7,),
    )


def _span(records: Sequence[Record]) -> tuple[int, int]:
    return (min(r.sent_ns for r in records), max(r.end_ns for r in records)) if records else (0, 0)


def _curve(table: MetricTable, records: Sequence[Record]) -> Floats:
    return window.gauge([table], (window.MEMORY,), *_span(records)) if records else np.array([])


def _medians(curve: Floats) -> Floats:
    return np.array([float(np.median(part)) for part in np.array_split(curve, PARTS)])


def _ratio(curve: Floats) -> float:
    medians = _medians(curve)
    return float(medians[-1] / medians[0]) if medians[0] > 0 else 1.0


def _rises(curve: Floats) -> int:
    return int(np.sum(np.diff(_medians(curve)) > 0))


def leaks(curve: Floats) -> bool:
    """Grown by more than a tenth, rising in nearly every step and in the last third still: one step up, or a warm-up
    that levels off, is no leak."""
    medians = _medians(curve)
    whole, last = medians[-1] - medians[0], medians[-1] - medians[-1 - PARTS // 3]
    still = bool(medians[-1] > medians[-2]) and bool(last >= LAST_SHARE * whole)
    return _ratio(curve) >= GROWN_RATIO and _rises(curve) >= RISES_MIN and still


def _curves(seen: Seen) -> Finding:
    """The curves of cache and memory over all stages of every server, and their peaks."""
    begun, ended = _span(seen.records)
    kv = [window.gauge([t], window.KV_NAMES, begun, ended) for t in seen.tables]
    memory = [window.gauge([t], (window.MEMORY,), begun, ended) for t in seen.tables]
    missing = [
        name
        for name, found in (("kv_cache_usage", kv), (window.MEMORY, memory))
        if not found or any(len(curve) < CURVE_MIN for curve in found)
    ]
    outcome = Outcome.NOT_RUN if not seen.records else Outcome.INCONCLUSIVE if missing else Outcome.PASS
    return Finding(
        code="capacity.memory.curves",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.EVIDENCE,
        values={
            "missing": ", ".join(missing) or None,
            "kv_peak": _peak(kv, 1),
            "memory_peak_gib": _peak(memory, 2**30),
            "input_tokens_most": max(seen.sizes.rungs, default=None),
            "output_tokens": seen.sizes.output_tokens,
            "concurrency_most": max((x.streams for x in seen.levels), default=None),
        },
        limit={"scrapes": CURVE_MIN},
        evidence=metrics_cited(seen.tables, begun, ended),
        items=(7,),
    )


def _peak(curves: Sequence[Floats], unit: float) -> float | None:
    highest = [float(curve.max()) for curve in curves if len(curve)]
    return six(max(highest) / unit) if highest else None

"""Soak: errors, drift, eviction, cache given back; and whether it lasted as long as it claims."""

import math
from collections.abc import Sequence

import numpy as np

from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity, State
from signoff.judge.capacity import window
from signoff.judge.capacity.level import (
    CALLER_SHARE_MAX,
    DELIVERED_SHARE_MIN,
    RAMP,
    caller_fault,
    delivered,
    error_test,
    failure,
    speaks,
)
from signoff.judge.capacity.next_step import soak_streams
from signoff.judge.capacity.pressure import pressure
from signoff.judge.capacity.stages import Seen, argument, cited, metrics_cited, number, seconds

SOAK, IDLE, LOAD = "capacity.soak", "capacity.idle", "capacity.load"
THIRD_MIN = 8
"""Requests in the first and the last third each, or drift cannot be told from noise."""
DRIFT_RATIO, DRIFT_Z = 1.3, 3.3
"""The last third is slower by so much, and by so many standard errors (one chance in two thousand)."""
DRIFT_LEAST_MS = {"ttft_ms": 50.0, "token_ms": 2.0}
DRIFT_LIMIT_SHARE = 0.1
"""Growth under this, or under this share of the plan's limit, is said as a warning and is no trouble yet."""
REST_LEAST_MS = 1.0
REST_MIN, REST_RATIO, REST_Z = 4, 1.5, 2.3
"""Five against five that are all slower have a z of 2.6, one chance in 252; four against four 2.3, one in 70."""
KV_SLACK = 0.005
KV_IDLE_MAX = 0.02
"""An idle engine holds at most a null block of a small cache; more before the run is what another run left."""
LENGTH_SHARE = 0.98
EVICTED_SHARE, EVICTED_MIN = 0.2, 3
COUNTED_SHARE, COMMON_SHARE, DENSE_UNIT = 0.9, 0.95, 16
"""Of the hits that are possible, those that must be counted; of a sentinel, what its repeats have in common; tokens of
a block where the profile knows no other."""


def findings(seen: Seen) -> list[Finding]:
    return [_errors(seen), _drift(seen), _kv_idle(seen), _sentinels(seen), _length(seen)]


def _about(code: str, outcome: Outcome, bearing: Bearing, **more: object) -> Finding:
    more.setdefault("cause", Cause.SUSTAINED if outcome is Outcome.FAIL else Cause.NONE)
    return Finding(
        code=code,
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=bearing,
        phase=Phase.SOAK,
        **more,  # type: ignore[arg-type]
    )


def span(records: Sequence[Record]) -> tuple[int, int]:
    if not records:
        return 0, 0
    return min(r.sent_ns for r in records), max(r.end_ns for r in records)


def _errors(seen: Seen) -> Finding:
    """Failures of the soak; they are the software's unless a resource was at its bound meanwhile."""
    sent = seen.of(SOAK)
    records = [r for r in sent if speaks(r)]
    faults = sum(caller_fault(r) for r in sent)
    spoiled = faults > CALLER_SHARE_MAX * len(sent)
    limit = seen.dossier.plan.objective.limits.error_rate
    test = error_test(records, limit, seen.dossier.profile.floors.concurrency_requests)
    begun, ended = span(records)
    step_tokens = seen.log.max_num_batched_tokens if seen.log is not None else None
    bound = pressure(seen.tables, begun, ended, argument(seen.log, "max_num_seqs"), step_tokens, None).bound
    exhausted = bound if test.outcome is Outcome.FAIL and not spoiled else ""
    return _about(
        "capacity.soak.errors",
        Outcome.NOT_RUN if not sent else Outcome.INCONCLUSIVE if spoiled else test.outcome,
        Bearing.FLOOR if exhausted else Bearing.SERVICE,
        resource=exhausted,
        values={
            "requests": len(records),
            "failed": sum(failure(r) for r in records),
            "caller_faults": faults,
            "error_rate_measured": test.value,
            "error_rate_low": test.low,
            "error_rate_high": test.high,
        },
        limit={"error_rate": limit},
        evidence=(*cited([r for r in records if failure(r)]), *metrics_cited(seen.tables, begun, ended)),
        items=(6,),
    )


def token_ms(record: Record) -> float | None:
    """Mean time of an output token after the first, milliseconds."""
    first, made = record.first_token_ns, record.completion_tokens
    return None if first is None or not made or made < 2 else (record.end_ns - first) / 1e6 / (made - 1)


def _ttft(record: Record) -> float | None:
    return None if record.ttft_ns is None else record.ttft_ns / 1e6


def shift(first: Sequence[float], last: Sequence[float]) -> tuple[float, float]:
    """`(ratio of medians, z)`: how much larger the last samples are. The z is Mann and Whitney's (1947), normal
    approximation, ties given mean ranks."""
    joined = np.concatenate([np.asarray(first), np.asarray(last)])
    order = np.argsort(joined, kind="stable")
    ranks = np.empty(len(joined))
    ranks[order] = np.arange(1, len(joined) + 1)
    _, group = np.unique(joined, return_inverse=True)
    mean_ranks = np.bincount(group, weights=ranks) / np.bincount(group)
    n, m = len(first), len(last)
    u = float(mean_ranks[group][n:].sum()) - m * (m + 1) / 2
    spread = math.sqrt(n * m * (n + m + 1) / 12)
    middle = float(np.median(first))
    ratio = float(np.median(last)) / middle if middle > 0 else 1.0
    return ratio, (u - n * m / 2) / spread


def _drift(seen: Seen) -> Finding:
    """The short turns of the last third against those of the first; and the idle server after against before."""
    kept = [r for r in seen.of(SOAK) if r.labels.get("arm") == "short" and r.labels.get("wave") != RAMP]
    good = sorted((r for r in kept if r.state is State.OK and not r.disqualified), key=lambda r: r.sent_ns)
    third = len(good) // 3
    values: dict[str, object] = {"samples_each": third}
    drifted: list[str] = []
    slight: list[str] = []
    open_ = False
    for name, of in (("ttft_ms", _ttft), ("token_ms", token_ms)):
        first = [t for r in good[:third] if (t := of(r)) is not None]
        last = [t for r in good[len(good) - third :] if (t := of(r)) is not None]
        if min(len(first), len(last)) < THIRD_MIN:
            open_ = True
            continue
        ratio, z = shift(first, last)
        grown = float(np.median(last) - np.median(first))
        values |= {
            f"{name}_first": six(float(np.median(first))),
            f"{name}_last": six(float(np.median(last))),
            f"{name}_ratio": six(ratio),
            f"{name}_z": six(z),
        }
        if ratio >= DRIFT_RATIO and z >= DRIFT_Z:
            (drifted if grown >= _material_ms(seen, name) else slight).append(name)
    rested = _rest(seen, values)
    drifted += ["rest_token_ms"] if rested else []
    if not seen.of(SOAK):
        outcome = Outcome.NOT_RUN
    elif drifted:
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.INCONCLUSIVE if open_ else Outcome.PASS
    return _about(
        "capacity.soak.drift",
        outcome,
        Bearing.SERVICE,
        severity=Severity.WARN if slight and outcome is Outcome.PASS else Severity.FAIL,
        values=values | {"drifted": ", ".join(drifted) or None, "drifted_slightly": ", ".join(slight) or None},
        limit={"ratio": DRIFT_RATIO, "z": DRIFT_Z, "samples_each_min": THIRD_MIN},
        evidence=cited([*good[:2], *good[-2:]]),
        items=(6, 7),
    )


def _material_ms(seen: Seen, name: str) -> float:
    """The least growth that troubles anyone, milliseconds."""
    limits = seen.dossier.plan.objective.limits
    limit = limits.ttft_ms_p99 if name == "ttft_ms" else limits.itl_ms_p99
    return max(DRIFT_LEAST_MS[name], DRIFT_LIMIT_SHARE * (limit or 0.0))


def _rest(seen: Seen, values: dict[str, object]) -> bool:
    """Single requests on the idle server after all load against those before it: what stays slow until a restart."""
    before, after = (
        [t for r in seen.of(stage) if r.labels.get("arm") == "rest" and r.state is State.OK and (t := token_ms(r))]
        for stage in (LOAD, IDLE)
    )
    if min(len(before), len(after)) < REST_MIN:
        return False
    ratio, z = shift(before, after)
    values |= {
        "rest_token_ms_before": six(float(np.median(before))),
        "rest_token_ms_after": six(float(np.median(after))),
        "rest_ratio": six(ratio),
    }
    grown = float(np.median(after) - np.median(before))
    return ratio >= REST_RATIO and z >= REST_Z and grown >= REST_LEAST_MS


def _kv_idle(seen: Seen) -> Finding:
    """Cache use after the idle phase against that before the gate. Gauges of an idle engine keep their last value, so
    the scrape after the one last request counts, where there is one."""
    started, finished = seen.dossier.started(IDLE), seen.dossier.finished(IDLE)
    loaded = seen.dossier.started(LOAD)
    values: dict[str, object] = {}
    if started is None or finished is None:
        outcome = Outcome.NOT_RUN
    else:
        begun, ended = started.at_ns, finished.at_ns
        kv = window.gauge(seen.tables, window.KV_NAMES, begun, ended)
        before = window.gauge(
            seen.tables, window.KV_NAMES, loaded.at_ns if loaded else begun, (loaded.at_ns if loaded else begun) + 10**9
        )
        running = window.gauge(seen.tables, (window.RUNNING,), begun, ended)
        rest = float(before[0]) if loaded is not None and len(before) else None
        asked = any(r.state is State.OK for r in seen.all_of(IDLE))
        last = float(kv[-1]) if len(kv) else None
        still = float(running[-1]) if len(running) else None
        quiet_s = seconds(finished, "idle_s") or 0.0
        quiet_until = number(finished.conditions, "quiet_until_ns", ended)
        foreign = window.grown_inside(seen.tables, window.PROMPT_TOKENS, begun, quiet_until)
        values = {
            "kv_before": None if rest is None else six(rest),
            "kv_after": None if last is None else six(last),
            "running_after": still,
            "idle_s": quiet_s,
            "foreign_prompt_tokens": foreign,
        }
        alone = seen.dossier.plan.service.exclusive and not foreign
        if last is None or rest is None or not asked or not alone or quiet_s < LENGTH_SHARE * seen.sizes.idle_s:
            outcome = Outcome.INCONCLUSIVE
        elif (still or 0.0) > 0 and foreign is None:
            outcome = Outcome.INCONCLUSIVE  # somebody's request, or one that hangs: only the counter could tell
        else:
            kept = last > rest + KV_SLACK or last > KV_IDLE_MAX or (still or 0.0) > 0
            outcome = Outcome.FAIL if kept else Outcome.INCONCLUSIVE if rest > KV_IDLE_MAX else Outcome.PASS
    return _about(
        "capacity.soak.kv_idle",
        outcome,
        Bearing.SERVICE,
        values=values,
        limit={"kv_growth": KV_SLACK},
        evidence=metrics_cited(seen.tables, started.at_ns, finished.at_ns) if started and finished else (),
        items=(6, 7, 8),
    )


def _sentinels(seen: Seen) -> Finding:
    """Prefixes that come again: once hit, they should stay in the cache while the load is one that is meant to hold.
    Where answers do not say cached tokens, the server's counters may: when hits are all that the soak can have."""
    sent = sorted((r for r in seen.of(SOAK) if r.labels.get("arm") == "sentinel"), key=lambda r: r.sent_ns)
    known = [r for r in sent if r.state is State.OK and r.cached_tokens is not None]
    warmed: set[str] = set()
    later: list[Record] = []
    for record in known:
        which = record.labels.get("sentinel", "")
        if which in warmed:
            later.append(record)
        elif record.cached_tokens:
            warmed.add(which)
    evicted = [r for r in later if not r.cached_tokens]
    offered = any(r.cached_tokens is not None for r in seen.dossier.records)
    counted = None if later or offered else _counted(seen)  # where answers do say them, their absence is a gap
    if not seen.of(SOAK):
        outcome = Outcome.NOT_RUN
    elif not later:
        outcome = Outcome.PASS if counted is not None and counted >= COUNTED_SHARE else Outcome.INCONCLUSIVE
    else:
        often = len(evicted) >= EVICTED_MIN and len(evicted) > EVICTED_SHARE * len(later)
        outcome = Outcome.FAIL if often else Outcome.PASS
    return _about(
        "capacity.soak.sentinels",
        outcome,
        Bearing.HITS,
        required=seen.dossier.profile.cache.caching_required or seen.dossier.profile.hits_required,
        values={
            "sent": len(sent),
            "after_first_hit": len(later),
            "evicted": len(evicted),
            "counted_share": counted,
        },
        limit={"evicted_share": EVICTED_SHARE},
        evidence=cited(evicted or later),
        items=(6,),
    )


def _counted(seen: Seen) -> float | None:
    """Hits by the server's counter over the tokens that the soak can hit at most, whole units alone; `None` where
    sentinels are shorter than a unit, or nothing was counted."""
    records = [r for r in seen.of(SOAK) if r.state is State.OK]
    unit = max(seen.dossier.profile.cache.units, default=DENSE_UNIT)
    again = [r for r in records if r.labels.get("arm") == "sentinel"]
    sentinels = max(0, len(again) - len({r.labels.get("sentinel", "") for r in again}))
    each = int(COMMON_SHARE * seen.sizes.input_tokens) // unit * unit
    shared = seen.sizes.shared_tokens // unit * unit * (len(records) - len(again))
    hits = window.delta(seen.tables, window.HITS, *span(records))
    if not each or not sentinels or hits is None:
        return None
    return six(hits / (sentinels * each + shared))


def _length(seen: Seen) -> Finding:
    """A soak excludes only what it was long enough to show, by its requests: how long they span, and whether they were
    the load all the while."""
    records = [r for r in seen.of(SOAK) if speaks(r)]
    started, finished = seen.dossier.started(SOAK), seen.dossier.finished(SOAK)
    begun, ended = span(records)
    held, wanted = six((ended - begun) / 1e9), seen.sizes.soak_s
    streams = soak_streams(seen.levels, seen.sizes, seen.dossier.plan.objective.concurrency.floor)
    share = delivered(records, streams) if records and streams else 0.0
    if started is None and not records:
        outcome = Outcome.NOT_RUN
    else:
        long_enough = held >= LENGTH_SHARE * wanted and share >= DELIVERED_SHARE_MIN
        whole = started is not None and finished is not None and not finished.stopped
        outcome = Outcome.PASS if long_enough and whole else Outcome.INCONCLUSIVE
    return _about(
        "capacity.soak.length",
        outcome,
        Bearing.EVIDENCE,
        values={
            "held_s": held,
            "load_share": share,
            "streams": streams,
            "stopped": (finished.stopped or None) if finished else None,
        },
        limit={"soak_s": wanted, "load_share": DELIVERED_SHARE_MIN},
        evidence=("profile.json#floors", "plan.yaml#load.soak", *cited(records[:1])),
        items=(6,),
    )

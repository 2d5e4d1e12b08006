"""Concurrency: which loads held, what bound the first that did not, and whether the overload returns at the cap."""

from collections.abc import Sequence

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity, State
from signoff.judge.capacity import window
from signoff.judge.capacity.level import LIMITS, Level
from signoff.judge.capacity.next_step import CAP, CLIMB, broke, candidate, held, overload
from signoff.judge.capacity.stages import KILLED, NO_EVENT, Seen, argument, cited, metrics_cited

REUSE_SLACK = 0.1
"""How much more than the plan's share of prompt tokens may come from the cache before the load counts as too easy."""
KV_FREE = 0.8
"""Cache use under which slots are no stand-in for a lack of cache."""
LOST_HITS_SHARE = 0.25
"""Under this part of the planned reuse the hits are lost, not merely rounded down to whole units."""
ITEMS = (5, 6, 8)
OPEN_BY_LOSS = ("service_lost", "service_stalled")


def findings(seen: Seen) -> list[Finding]:
    load = seen.dossier.plan.objective.concurrency
    return [
        _held("capacity.concurrency.floor", seen, load.floor, Bearing.FLOOR),
        _held("capacity.concurrency.target", seen, load.target, Bearing.TARGET),
        _cap(seen),
        _reuse(seen),
    ]


def _climbed(seen: Seen) -> list[Level]:
    return sorted((x for x in seen.levels if x.stage.startswith(CLIMB)), key=lambda x: x.streams)


def _unseen(seen: Seen, wanted: int) -> list[int]:
    """Planned loads up to `wanted` of which there is no request, or no word of their begin and end."""
    seen_at = {x.streams for x in _climbed(seen) if x.requests and x.stopped not in (NO_EVENT, KILLED)}
    return [n for n in seen.sizes.levels if n <= wanted and n not in seen_at]


def _judged(seen: Seen, wanted: int) -> tuple[Outcome, Level | None, str]:
    """Whether a load of `wanted` requests at once held, the level that says so, and what is open. The ladder is the
    plan's: a step that is not there is not run, unless the climb ended under it."""
    climbed, unseen = _climbed(seen), _unseen(seen, wanted)
    most, over = held(seen.levels), overload(seen.levels)
    if most is not None and most >= wanted and not unseen:
        return Outcome.PASS, next((x for x in climbed if x.streams == most), None), ""
    at = next((x for x in climbed if x.streams == wanted), None)
    if at is not None and at.outcome is Outcome.PASS and over is not None and over.streams < wanted:
        return Outcome.INCONCLUSIVE, over, "a_lower_load_failed"
    below = [x for x in seen.levels if x.streams <= wanted and x.outcome is Outcome.FAIL]
    if below:
        return Outcome.FAIL, max(below, key=lambda x: (bool(x.resource), x.streams)), ""
    if at is not None and not unseen:
        return Outcome.INCONCLUSIVE, at, at.why
    last = climbed[-1] if climbed else None
    tried = any(x.requests for x in climbed)
    return Outcome.INCONCLUSIVE if tried else Outcome.NOT_RUN, at or last, "loads_not_seen" if unseen else ""


def _held(code: str, seen: Seen, wanted: int, bearing: Bearing) -> Finding:
    outcome, level, why = _judged(seen, wanted)
    load = seen.dossier.plan.objective.concurrency
    limits = seen.dossier.plan.objective.limits
    values: dict[str, Value] = {"target": load.target, "floor": load.floor, "held": held(seen.levels)}
    cause, resource, scope = Cause.NONE, "", None
    if outcome is Outcome.FAIL and level is not None:
        cause, resource = Cause.CONCURRENCY, level.resource
        if resource in ("", "token_budget") and lost_hits(seen, level):
            cause, resource = Cause.PREFIX_CACHE, ""
        if resource == "slots" and _slots_are_a_launch_value(seen, level):
            resource, scope = "", Scope.LAUNCH
            values["launch_value"] = "max_num_seqs"
    return Finding(
        code=code,
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=bearing,
        cause=cause,
        phase=Phase.CONCURRENCY,
        resource=resource,
        scope=scope,
        values=values | _measured(level) | ({"open": why} if why else {}),
        limit={"concurrency": wanted} | {name: getattr(limits, name) for name in LIMITS},
        evidence=_evidence(seen, level),
        items=ITEMS,
    )


def _slots_are_a_launch_value(seen: Seen, level: Level) -> bool:
    """The launch admits fewer requests than this load while much of the cache is free: no GPU is missing."""
    slots, kv = argument(seen.log, "max_num_seqs"), level.pressure.kv_high
    return slots is not None and slots < level.streams and kv is not None and kv < KV_FREE


def _measured(level: Level | None) -> dict[str, Value]:
    """What the level says, with intervals; empty without one."""
    if level is None:
        return {}
    shown: dict[str, Value] = {"level": level.streams, "requests": level.requests, "failed": level.failed}
    for test in level.tests:
        shown |= {f"{test.name}_measured": test.value, f"{test.name}_low": test.low, f"{test.name}_high": test.high}
    failing = [test.name for test in level.tests if test.outcome is Outcome.FAIL]
    pressure = level.pressure
    return shown | {
        "missed": ", ".join(failing) or None,
        "open": level.why or None,
        "bound": level.resource or level.pressure.bound or "nothing that was seen",
        "ttft_samples": level.ttft_samples,
        "kv_high": pressure.kv_high,
        "kv_bound_share": pressure.kv_bound_share,
        "slots_bound_share": pressure.slots_bound_share,
        "step_bound_share": pressure.step_bound_share,
        "running_high": pressure.running_high,
        "waiting_high": pressure.waiting_high,
        "preemptions": pressure.preemptions,
        "caller_faults": level.caller_faults,
    }


def _evidence(seen: Seen, level: Level | None) -> tuple[str, ...]:
    if level is None:
        return ("plan.yaml#objective",)
    own = [r for r in seen.of(level.stage) if r.stage == level.stage]
    bad = [r for r in own if r.state is not State.OK]
    return (*cited((bad or own)[:4]), *metrics_cited(seen.tables, level.from_ns, level.to_ns), "plan.yaml#objective")


def _cap(seen: Seen) -> Finding:
    """After an overload: does it come back at the candidate cap, held as often as the profile says? A hold that fails
    without a resource at its bound proves no bottleneck, and no cap either."""
    over, cap = overload(seen.levels), candidate(seen.levels)
    holds = [x for x in seen.levels if x.stage.startswith(CAP)]
    needed = seen.dossier.profile.floors.holds_after_overload
    returned = [x for x in holds if x.outcome is Outcome.FAIL and x.resource]
    passed = [x for x in holds if x.outcome is Outcome.PASS]
    if over is None:
        all_held = bool(_climbed(seen)) and held(seen.levels) == max(seen.sizes.levels)
        outcome = Outcome.PASS if all_held else Outcome.NOT_RUN
    elif returned:
        outcome = Outcome.FAIL
    elif len(passed) >= needed and len(passed) == len(holds):
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE if any(x.requests for x in holds) else Outcome.NOT_RUN
    worst = returned[0] if returned else (holds[-1] if holds else over)
    return Finding(
        code="capacity.cap.returns",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.CAP,
        required=over is not None,
        cause=Cause.CONCURRENCY if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.CONCURRENCY,
        resource=returned[0].resource if returned else "",
        values={
            "overload_at": over.streams if over else "none",
            "overload_resource": (over.resource or "none") if over else "none",
            "cap": "none" if cap is None else cap,
            "holds": len(holds),
            "held": len(passed),
            "returned": len(returned),
            "failed_unbound": sum(x.outcome is Outcome.FAIL and not x.resource for x in holds),
            "same_bottleneck": bool(returned and over and returned[0].resource == over.resource),
        },
        limit={"holds": needed},
        evidence=_evidence(seen, worst),
        items=(6,),
    )


def _reuse(seen: Seen) -> Finding:
    """The share of prompt tokens that came from the cache, against the plan's: more makes the load too easy."""
    wanted = seen.dossier.plan.load.reuse_share
    hits, queries = _sum(seen, window.HITS), _sum(seen, window.QUERIES)
    share = None if hits is None or queries is None else six(hits / queries) if queries else 0.0 if not hits else None
    if not seen.levels or not any(x.requests for x in seen.levels):
        outcome = Outcome.NOT_RUN
    elif share is None:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.INCONCLUSIVE if share > (wanted or 0.0) + REUSE_SLACK else Outcome.PASS
    short = share is not None and share < (wanted or 0.0) - REUSE_SLACK
    return Finding(
        code="capacity.concurrency.reuse",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.EVIDENCE,
        severity=Severity.WARN if short else Severity.FAIL,
        phase=Phase.CONCURRENCY,
        values={"reuse_share_measured": share, "shared_tokens": seen.sizes.shared_tokens},
        limit={"reuse_share": wanted},
        evidence=tuple(ref for x in seen.levels[-1:] for ref in metrics_cited(seen.tables, x.from_ns, x.to_ns)),
        items=(8,),
    )


def _sum(seen: Seen, name: str) -> float | None:
    grown = [window.delta(seen.tables, name, x.from_ns, x.to_ns) for x in seen.levels if x.requests]
    return None if not grown or any(g is None for g in grown) else sum(g for g in grown if g is not None)


def lost_hits(seen: Seen, level: Level) -> bool:
    """Whether the shared part of the prompts, long enough to be hit, was computed again and again at this load."""
    wanted, unit = seen.dossier.plan.load.reuse_share, max(seen.dossier.profile.cache.units, default=0)
    if not wanted or not unit or seen.sizes.shared_tokens < 2 * unit:
        return False
    hits = window.delta(seen.tables, window.HITS, level.from_ns, level.to_ns)
    queries = window.delta(seen.tables, window.QUERIES, level.from_ns, level.to_ns)
    if hits is None or not queries:
        return False
    return hits / queries < wanted * LOST_HITS_SHARE


def lost(levels: Sequence[Level]) -> Level | None:
    """The first load that took the service with it."""
    return next((x for x in levels if broke(x) and x.stopped in OPEN_BY_LOSS), None)

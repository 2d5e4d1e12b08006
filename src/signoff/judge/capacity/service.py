"""The service through the whole gate: alive, honest in its errors, seen by its metrics, judged against said limits."""

import itertools
from collections.abc import Sequence

from msgspec import Struct

from signoff.core.events import StageFinished
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity, State
from signoff.judge import summaries
from signoff.judge.capacity import window
from signoff.judge.capacity.level import LIMITS, REFUSING_STATUS, SERVER_OWNED, speaks
from signoff.judge.capacity.pressure import KV_BOUND
from signoff.judge.capacity.stages import Seen, cited, metrics_cited, whole
from signoff.read.launch_log import LogNote

IDLE = "capacity.idle"
LOST, HUNG = "service_lost", "service_stalled"
LOOK_BACK_NS = 15 * 10**9
NEEDED = {
    "kv": window.KV_NAMES,
    "running": (window.RUNNING,),
    "waiting": (window.WAITING,),
}
GAP_S = 30.0
PHASES = {
    "load": (Phase.LOAD, Cause.TOPOLOGY),
    "long_input": (Phase.LONG_INPUT, Cause.LONG_INPUT),
    "concurrency": (Phase.CONCURRENCY, Cause.CONCURRENCY),
    "cap": (Phase.CONCURRENCY, Cause.CONCURRENCY),
    "soak": (Phase.SOAK, Cause.SUSTAINED),
    "idle": (Phase.SOAK, Cause.SUSTAINED),
}


class Death(Struct, frozen=True, kw_only=True):
    """The first stage in which the service stopped answering."""

    stage: str
    kind: str
    """`died`, `hung`, `restarted`."""
    phase: Phase
    cause: Cause
    """What the stage suggests."""
    at_ns: int
    """When its first failed request ended."""
    records: tuple[Record, ...]
    """What failed from then on."""
    kv: float | None
    """Cache use shortly before, 0 to 1."""


def findings(seen: Seen) -> list[Finding]:
    found = death(seen)
    return [_alive(seen, found), _inband(seen, found), _server_errors(seen, found), _limits(seen), _metrics(seen)]


def _about(code: str, outcome: Outcome, bearing: Bearing, **more: object) -> Finding:
    return Finding(code=code, gate=Gate.CAPACITY, outcome=outcome, bearing=bearing, **more)  # type: ignore[arg-type]


def death(seen: Seen) -> Death | None:
    """Where the service was lost first, by the loop's own word or by a start time that changed; `None`: it lived."""
    ended = [e for e in seen.dossier.events if isinstance(e, StageFinished) and e.gate is Gate.CAPACITY and e.stopped]
    first = next((e for e in ended if e.stopped in (LOST, HUNG)), None)
    silent = next((r for r in seen.all_of(IDLE) if r.state not in (State.OK, State.ABORTED)), None)
    if first is None and silent is None:
        return _restart(seen)
    told_ns = first.at_ns if first is not None else (silent.end_ns if silent is not None else 0)
    before = sorted((r for r in seen.records if r.end_ns <= told_ns and speaks(r)), key=lambda r: r.end_ns)
    alive = max((i for i, r in enumerate(before) if r.state is State.OK), default=-1)
    bad = before[alive + 1 :]
    stage = bad[0].stage if bad else (first.stage if first is not None else IDLE)
    hung = (first is not None and first.stopped == HUNG) or any(
        r.state in (State.STALLED, State.TIMEOUT) for r in bad[:3]
    )
    at_ns = bad[0].end_ns if bad else told_ns
    phase, cause = PHASES.get(stage.split(".")[1], (Phase.NA, Cause.NONE))
    return Death(
        stage=stage,
        kind="hung" if hung else "died",
        phase=phase,
        cause=cause,
        at_ns=at_ns,
        records=tuple(bad),
        kv=_kv_before(seen, at_ns),
    )


def _restart(seen: Seen) -> Death | None:
    for table in seen.tables:
        starts = table.highest(window.STARTED)
        known = (
            [] if starts is None else [(int(t), float(s)) for t, s in zip(table.t_ns, starts, strict=True) if s == s]
        )
        for (_, one), (at, other) in itertools.pairwise(known):
            if other - one > 1.0:
                near = [r for r in seen.records if r.end_ns <= at]
                stage = near[-1].stage if near else "capacity.load"
                phase, cause = PHASES.get(stage.split(".")[1], (Phase.NA, Cause.NONE))
                bad = tuple(r for r in near if r.state is not State.OK and speaks(r))
                kv = _kv_before(seen, at)
                return Death(stage=stage, kind="restarted", phase=phase, cause=cause, at_ns=at, records=bad, kv=kv)
    return None


def _kv_before(seen: Seen, at_ns: int) -> float | None:
    high = window.highest(seen.tables, window.KV_NAMES, at_ns - LOOK_BACK_NS, at_ns)
    return None if high is None else six(high)


def _failure_note(seen: Seen) -> LogNote | None:
    """The first failure that the log taken after the run has and the one before it lacks."""
    after = seen.log_after
    if after is None:
        return None
    known = {note.text for note in seen.log.notes} if seen.log is not None else set()
    fresh = [n for n in after.notes if n.family == "failure" and n.text not in known]
    return next((n for n in fresh if not n.envelope), fresh[0] if fresh else None)


def _alive(seen: Seen, found: Death | None) -> Finding:
    """Dead, hung or restarted; and whether that was resources or software."""
    items = (4, 6, 7)
    if not seen.records:
        return _about("capacity.service.alive", Outcome.NOT_RUN, Bearing.SERVICE, items=items)
    if found is None:
        last = any(r.state is State.OK for r in seen.all_of(IDLE))
        values = {"requests": len(seen.records), "kind": "was not asked", "stage": IDLE, "kv_at_death": None}
        outcome = Outcome.PASS if last else Outcome.INCONCLUSIVE
        return _about("capacity.service.alive", outcome, Bearing.SERVICE, values=values, items=items)
    note = _failure_note(seen)
    outcome, bearing, cause, resource = _placed(seen, found, note)
    return _about(
        "capacity.service.alive",
        outcome,
        bearing,
        cause=cause,
        phase=found.phase,
        resource=resource,
        values={
            "kind": found.kind,
            "stage": found.stage,
            "kv_at_death": found.kv,
            "log_says": note.kind if note else None,
            "log_text": note.text[:200] if note else None,
            "failed": len(found.records),
        },
        limit={"kv_exhausted": KV_BOUND},
        evidence=(
            *cited(found.records[:4]),
            *((f"sha256:{seen.log_after_digest}#L{note.line}",) if note else ()),
            *metrics_cited(seen.tables, *_around(found)),
        ),
        items=items,
    )


def _around(found: Death) -> tuple[int, int]:
    ends = [r.end_ns for r in found.records]
    return (min(ends) - LOOK_BACK_NS, max(ends)) if ends else (0, 0)


def _placed(seen: Seen, found: Death, note: LogNote | None) -> tuple[Outcome, Bearing, Cause, str]:
    """Outcome, bearing, cause and resource of a death."""
    oom = note is not None and note.kind.startswith("oom")
    full = found.kv is not None and found.kv >= KV_BOUND
    if oom or (full and note is None):
        resource = "gpu_memory" if oom else "kv"
        if found.phase is Phase.SOAK:
            return Outcome.FAIL, Bearing.SERVICE, Cause.SUSTAINED, resource
        return Outcome.FAIL, Bearing.FLOOR if _under_floor(seen, found) else Bearing.TARGET, found.cause, resource
    if note is not None and note.cause is Cause.HARDWARE:
        return Outcome.FAIL, Bearing.HOST, Cause.HARDWARE, ""
    if note is not None or (found.kind == "hung" and found.kv is not None):
        said = note.cause if note is not None and note.cause is not Cause.NONE else found.cause
        return Outcome.FAIL, Bearing.SERVICE, said, ""
    return Outcome.INCONCLUSIVE, Bearing.EVIDENCE, Cause.NONE, ""


def _under_floor(seen: Seen, found: Death) -> bool:
    """Whether the load at which it died is one that the floor asks for."""
    parts = found.stage.split(".")
    size = (whole(parts[2]) if len(parts) > 2 else None) or 0
    objective = seen.dossier.plan.objective
    floor = objective.input_tokens.floor if found.phase is Phase.LONG_INPUT else objective.concurrency.floor
    return size <= floor


def _inband(seen: Seen, found: Death | None) -> Finding:
    """Errors inside an answer of HTTP 200, and answers that end without their end; what broke when the service died is
    told there."""
    spoken = [r for r in seen.records if speaks(r) and (found is None or r.end_ns < found.at_ns)]
    bad = [r for r in spoken if r.state in (State.INBAND_ERROR, State.UNFINISHED, State.MALFORMED, State.NO_USAGE)]
    limit = seen.dossier.plan.objective.limits.error_rate
    rate = summaries.rate(len(bad), len(spoken))
    outcome = _rated(len(bad), len(spoken), limit)
    return _about(
        "capacity.errors.inband",
        outcome,
        Bearing.SERVICE,
        severity=Severity.WARN if bad and outcome is Outcome.PASS else Severity.FAIL,
        cause=Cause.CONCURRENCY if outcome is Outcome.FAIL else Cause.NONE,
        values={
            "requests": len(spoken),
            "failed": len(bad),
            "error_rate_measured": rate.share,
            "error_rate_low": rate.low,
            "error_rate_high": rate.high,
            "says": bad[0].error[:200] if bad else None,
        },
        limit={"error_rate": limit},
        evidence=cited(bad),
        items=(6, 11),
    )


def _server_errors(seen: Seen, found: Death | None) -> Finding:
    """Answers of HTTP 5xx at loads up to the floor, or of 4xx to what was answered before, nothing being at its bound:
    the software's own. 503 is a queue that says no. Above the floor the load that did not hold says it all."""
    limit, floor = seen.dossier.plan.objective.limits.error_rate, seen.dossier.plan.objective.concurrency.floor
    free = {x.stage for x in seen.levels if x.streams <= floor and not x.pressure.bound}
    spoken = [r for r in seen.records if speaks(r) and r.stage in free and (found is None or r.end_ns < found.at_ns)]
    bad = [r for r in spoken if r.state is State.HTTP_ERROR and r.status not in (*REFUSING_STATUS, *SERVER_OWNED)]
    outcome = _rated(len(bad), len(spoken), limit)
    rate = summaries.rate(len(bad), len(spoken))
    return _about(
        "capacity.errors.server",
        outcome,
        Bearing.SERVICE,
        required=bool(bad),
        cause=Cause.CONCURRENCY if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.CONCURRENCY,
        values={
            "requests": len(spoken),
            "failed": len(bad),
            "error_rate_measured": rate.share,
            "error_rate_low": rate.low,
            "error_rate_high": rate.high,
            "says": bad[0].error[:200] if bad else None,
        },
        limit={"error_rate": limit, "floor": floor},
        evidence=cited(bad),
        items=(6,),
    )


def _rated(bad: int, n: int, limit: float | None) -> Outcome:
    """No failure passes whatever the limit; a rate proved above it fails; between, and without a limit, it is open."""
    rate = summaries.rate(bad, n)
    if not n:
        return Outcome.NOT_RUN
    if not bad:
        return Outcome.PASS
    if limit is None:
        return Outcome.INCONCLUSIVE
    if rate.low > limit:
        return Outcome.FAIL
    return Outcome.PASS if rate.share is not None and rate.share <= limit else Outcome.INCONCLUSIVE


def _limits(seen: Seen) -> Finding:
    limits = seen.dossier.plan.objective.limits
    missing = [name for name in LIMITS if getattr(limits, name) is None]
    return _about(
        "capacity.limits.said",
        Outcome.INCONCLUSIVE if missing else Outcome.PASS,
        Bearing.EVIDENCE,
        values={"missing": ", ".join(missing) or None},
        limit={name: getattr(limits, name) for name in LIMITS},
        evidence=("plan.yaml#objective.limits",),
        items=(6,),
    )


def _metrics(seen: Seen) -> Finding:
    """Whether the server's metrics were seen through every stage that sent something."""
    stages = sorted(seen.by_stage)
    uncovered = [stage for stage in stages if not _covered(seen, seen.by_stage[stage])]
    missing = [
        name for name, names in NEEDED.items() if not any(table.series(one) for table in seen.tables for one in names)
    ]
    if not seen.records:
        outcome = Outcome.NOT_RUN
    else:
        outcome = Outcome.INCONCLUSIVE if uncovered or missing else Outcome.PASS
    return _about(
        "capacity.metrics.seen",
        outcome,
        Bearing.EVIDENCE,
        values={
            "stages": len(stages),
            "stages_uncovered": ", ".join(uncovered[:5]) or None,
            "series_missing": ", ".join(missing) or None,
            "scrapes": sum(len(t.t_ns) for t in seen.tables),
            "scrapes_failed": sum(len(t.failed) for t in seen.tables),
        },
        limit={"gap_s": GAP_S},
        evidence=metrics_cited(
            seen.tables,
            min((r.sent_ns for r in seen.records), default=0),
            max((r.end_ns for r in seen.records), default=0),
        ),
        items=(7, 8),
    )


def _covered(seen: Seen, records: Sequence[Record]) -> bool:
    """Scrapes on both sides, and none of the gaps between them longer than the bound."""
    begun, ended = min(r.sent_ns for r in records), max(r.end_ns for r in records)
    for table in seen.tables:
        near = [int(t) for t in table.t_ns if begun - window.REACH_NS <= t <= ended + window.REACH_NS]
        if len(near) < 2 or near[0] > begun + window.REACH_NS or near[-1] < ended - window.REACH_NS:
            return False
        if max(b - a for a, b in itertools.pairwise(near)) > GAP_S * 1e9:
            return False
    return bool(seen.tables)

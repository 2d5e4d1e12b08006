"""Load: how the server came up, from its launch log; and that it really answers."""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, State
from signoff.judge import summaries
from signoff.judge.capacity.stages import Seen, cited
from signoff.read.launch_log import LaunchLog, LogNote

SLACK_S = 1.0
"""Times of the log are rounded, and taken by different processes."""
BEARINGS = {
    Cause.ENVIRONMENT: Bearing.CHAIN,
    Cause.TOPOLOGY: Bearing.LAUNCH,
    Cause.LONG_INPUT: Bearing.LAUNCH,
    Cause.CONCURRENCY: Bearing.LAUNCH,
    Cause.MODEL_PARSER: Bearing.LAUNCH,
    Cause.PREFIX_CACHE: Bearing.LAUNCH,
    Cause.HARDWARE: Bearing.HOST,
}


def findings(seen: Seen) -> list[Finding]:
    return [_state(seen), _ready(seen)]


def _split(log: LaunchLog) -> dict[str, Value]:
    return {
        "weights_gib": log.weights_gib,
        "kv_gib": log.kv_gib,
        "kv_tokens": log.kv_tokens,
        "kv_concurrency": log.kv_concurrency,
        "load_s": log.load_s,
        "weights_s": log.weights_s,
        "engine_init_s": log.engine_init_s,
        "compile_s": log.compile_s,
        "capture_s": log.capture_s,
        "ranks": len(log.ranks) or None,
        "world_size": max((rank.world_size for rank in log.ranks), default=None),
        "boots": log.boots,
    }


def contradictions(log: LaunchLog) -> list[str]:
    """Parts of the load time that are longer than their whole, and ranks that never spoke."""
    pairs = (("weights_s", "load_s"), ("compile_s", "engine_init_s"), ("capture_s", "engine_init_s"))
    found = []
    for part, whole in pairs:
        a, b = getattr(log, part), getattr(log, whole)
        if a is not None and b is not None and a > b + SLACK_S:
            found.append(f"{part} over {whole}")
    world = max((rank.world_size for rank in log.ranks), default=0)
    if log.ranks and len({rank.rank for rank in log.ranks}) < world:
        found.append("ranks_missing")
    return found


def startup_failure(log: LaunchLog) -> LogNote | None:
    """The failure by which the last boot did not come up; `None` when it came up."""
    return None if log.ready else log.first_error


def _state(seen: Seen) -> Finding:
    """Readiness, memory, time split and ranks, as far as the log says them."""
    log = seen.log
    code, phase, items = "capacity.load.state", Phase.LOAD, (4, 6, 7)
    if log is None:
        outcome = Outcome.INCONCLUSIVE if seen.records else Outcome.NOT_RUN
        return Finding(
            code=code,
            gate=Gate.CAPACITY,
            outcome=outcome,
            bearing=Bearing.EVIDENCE,
            phase=phase,
            values={"reason": "no_launch_log"},
            items=items,
        )
    failed, odd = startup_failure(log), contradictions(log)
    values = _split(log) | {"ready": log.ready, "odd": ", ".join(odd) or None}
    cause, bearing, line = Cause.NONE, Bearing.EVIDENCE, ""
    if failed is not None and not _answered(seen):
        outcome, cause = Outcome.FAIL, failed.cause if failed.cause is not Cause.NONE else Cause.TOPOLOGY
        phase = failed.phase if failed.phase is not Phase.NA else Phase.LOAD
        bearing = BEARINGS.get(cause, Bearing.SERVICE)
        line = f"#L{failed.line}"
        values |= {"log_says": failed.kind, "log_text": failed.text[:200]}
    elif odd or not (log.ready or _answered(seen)) or (log.weights_gib is None and log.kv_tokens is None):
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS
    return Finding(
        code=code,
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=bearing,
        cause=cause,
        phase=phase,
        scope=Scope.LAUNCH if bearing is Bearing.LAUNCH else None,
        values=values,
        evidence=(f"sha256:{seen.log_digest}{line}",),
        items=items,
    )


def _answered(seen: Seen) -> bool:
    return any(r.state is State.OK for r in seen.records)


def _ready(seen: Seen) -> Finding:
    """The first real completion: a health endpoint generates nothing."""
    first = seen.of("capacity.load")
    good = [r for r in first if r.state is State.OK]
    if not first:
        outcome = Outcome.NOT_RUN
    elif good:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.FAIL if any(r.state is not State.ABORTED for r in first) else Outcome.NOT_RUN
    return Finding(
        code="capacity.load.ready",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.SERVICE,
        cause=Cause.NONE,
        phase=Phase.LOAD,
        values={
            "state": str(first[0].state) if first else None,
            "status": first[0].status if first else None,
            "ttft_ms": summaries.ttft_ms(good[0]) if good else None,
            "says": first[0].error[:200] if first and not good else None,
        },
        evidence=cited(first),
        items=(6,),
    )

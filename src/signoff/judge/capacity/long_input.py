"""Long input: which lengths held, and whether long prompts were understood as well as short ones."""

from collections.abc import Sequence

from msgspec import Struct

from signoff.core.events import StageStarted
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, State
from signoff.judge import summaries
from signoff.judge.capacity import window
from signoff.judge.capacity.answers import CHANCE_MAX, asked_of, contrast, judged, waived
from signoff.judge.capacity.level import speaks
from signoff.judge.capacity.pressure import KV_BOUND
from signoff.judge.capacity.sizes import prompt_tokens
from signoff.judge.capacity.stages import NO_EVENT, Seen, cited, metrics_cited, recalled, whole

STAGE = "capacity.long_input"
OVERFLOW = "maximum context length"
"""In the server's refusal of a prompt that passes its window."""
LENGTH_SHARE = 0.95
"""Of the rung's tokens that a prompt must have by the server's own count."""


class Rung(Struct, frozen=True, kw_only=True):
    """One length."""

    tokens: int
    outcome: Outcome
    """`pass`: most requests of each kind succeeded; `not_run`: nothing was sent."""
    records: tuple[Record, ...]
    stopped: str
    overflow: bool
    """The server refused the prompt as longer than its window."""


def findings(seen: Seen) -> list[Finding]:
    ladder = rungs(seen)
    return [_window(seen, ladder), _floor(seen, ladder), _recall(seen, ladder)]


def rungs(seen: Seen) -> list[Rung]:
    """The lengths of the plan's ladder, and any other of which there is a word or a request, rising."""
    stages = [*seen.by_stage, *(e.stage for e in seen.dossier.events if isinstance(e, StageStarted))]
    found = {n for stage in stages if stage.startswith(STAGE + ".") and (n := whole(stage[len(STAGE) + 1 :]))}
    return [_rung(seen, n) for n in sorted(found | set(seen.sizes.rungs))]


def _rung(seen: Seen, tokens: int) -> Rung:
    stage = f"{STAGE}.{tokens}"
    finished, own = seen.dossier.finished(stage), [r for r in seen.of(stage) if r.stage == stage]
    spoken = [r for r in own if speaks(r)]
    begun = seen.dossier.started(stage) is not None and finished is not None
    kinds = sorted({r.labels.get("kind", "") for r in own})
    held = [_most_succeeded([r for r in spoken if r.labels.get("kind") == kind]) for kind in kinds]
    overflow = any(r.state is State.HTTP_ERROR and OVERFLOW in r.error for r in own)
    if overflow or any(h is False for h in held):
        outcome = Outcome.FAIL
    elif not own:
        outcome = Outcome.NOT_RUN
    elif begun and len(kinds) > 1 and all(held) and _long_enough(spoken, prompt_tokens(tokens, seen.sizes)):
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
    return Rung(
        tokens=tokens,
        outcome=outcome,
        records=tuple(own),
        stopped=finished.stopped if begun and finished is not None else NO_EVENT,
        overflow=overflow,
    )


def _long_enough(spoken: Sequence[Record], wanted: int) -> bool:
    """Whether the server itself counted prompts as long as the rung; one that does not count cannot prove a length."""
    good = [r for r in spoken if r.state is State.OK]
    return all((r.prompt_tokens or 0) >= LENGTH_SHARE * wanted for r in good)


def _most_succeeded(spoken: Sequence[Record]) -> bool | None:
    good = sum(r.state is State.OK for r in spoken)
    return None if not spoken else good * 2 > len(spoken)


def held_tokens(ladder: Sequence[Rung]) -> int | None:
    """The longest input up to which every length held."""
    held = None
    for rung in ladder:
        if rung.outcome is not Outcome.PASS:
            break
        held = rung.tokens
    return held


def _judged(seen: Seen, ladder: Sequence[Rung], wanted: int) -> tuple[Outcome, str]:
    """Whether inputs of `wanted` tokens held, and why not."""
    held, declared = held_tokens(ladder), seen.sizes.window
    failed = next((rung for rung in ladder if rung.outcome is Outcome.FAIL), None)
    if held is not None and held >= wanted:
        return Outcome.PASS, ""
    if failed is not None and failed.tokens <= wanted:
        return Outcome.FAIL, "refused_as_too_long" if failed.overflow else "failed"
    if declared is not None and declared < wanted:
        return Outcome.FAIL, "window_declared_smaller"
    if not any(rung.records for rung in ladder):
        return Outcome.NOT_RUN, ""
    return Outcome.INCONCLUSIVE, next((rung.stopped for rung in ladder if rung.stopped), "not_reached")


def _values(seen: Seen, ladder: Sequence[Rung], why: str) -> dict[str, Value]:
    objective = seen.dossier.plan.objective.input_tokens
    top = next((rung for rung in reversed(ladder) if rung.records), None)
    took = [t for r in (top.records if top else ()) if r.state is State.OK and (t := summaries.ttft_ms(r)) is not None]
    failed = next((rung for rung in ladder if rung.outcome is Outcome.FAIL), None)
    return {
        "held": held_tokens(ladder),
        "target": objective.target,
        "floor": objective.floor,
        "window": seen.sizes.window,
        "failed_at": failed.tokens if failed else None,
        "failures": sum(r.state is not State.OK and speaks(r) for rung in ladder for r in rung.records),
        "kv_high": _kv(seen, failed or top),
        "longest_ttft_ms": six(max(took)) if took else None,
        "output_tokens": seen.sizes.long_output_tokens,
        "reason": why or None,
    }


def _kv(seen: Seen, rung: Rung | None) -> float | None:
    if rung is None or not rung.records:
        return None
    begun, ended = min(r.sent_ns for r in rung.records), max(r.end_ns for r in rung.records)
    high = window.highest(seen.tables, window.KV_NAMES, begun, ended)
    return None if high is None else six(high)


def _evidence(seen: Seen, ladder: Sequence[Rung]) -> tuple[str, ...]:
    worst = next((rung for rung in ladder if rung.outcome is Outcome.FAIL), None)
    shown = worst or next((rung for rung in reversed(ladder) if rung.records), None)
    if shown is None:
        return ("plan.yaml#objective.input_tokens",)
    begun = min((r.sent_ns for r in shown.records), default=0)
    ended = max((r.end_ns for r in shown.records), default=0)
    return (*cited(shown.records), *metrics_cited(seen.tables, begun, ended), "plan.yaml#objective.input_tokens")


def _about(code: str, seen: Seen, ladder: Sequence[Rung], wanted: int, bearing: Bearing) -> Finding:
    outcome, why = _judged(seen, ladder, wanted)
    values = _values(seen, ladder, why)
    cause = Cause.NONE
    if outcome is Outcome.FAIL:
        cause = Cause.TOPOLOGY if why == "window_declared_smaller" else Cause.LONG_INPUT
    kv = values["kv_high"]
    full = outcome is Outcome.FAIL and why == "failed" and isinstance(kv, float) and kv >= KV_BOUND
    return Finding(
        code=code,
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=bearing,
        cause=cause,
        phase=Phase.LONG_INPUT,
        resource="kv" if full else "",
        values=values,
        limit={"input_tokens": wanted},
        evidence=_evidence(seen, ladder),
        items=(6, 7),
    )


def _window(seen: Seen, ladder: Sequence[Rung]) -> Finding:
    target = seen.dossier.plan.objective.input_tokens.target
    return _about("capacity.long_input.window", seen, ladder, target, Bearing.TARGET)


def _floor(seen: Seen, ladder: Sequence[Rung]) -> Finding:
    floor = seen.dossier.plan.objective.input_tokens.floor
    return _about("capacity.long_input.floor", seen, ladder, floor, Bearing.FLOOR)


def _recall(seen: Seen, ladder: Sequence[Rung]) -> Finding:
    """Compared with the first rung: wrong answers on long prompts prove something only where short ones were right, and
    only when they are more than the shorter ones' share and chance explain. A share within the error rate warns."""
    asked = [rung for rung in ladder if rung.records]
    short = asked_of(seen, _whole(seen, asked[0].records) if asked else ())
    long_ = asked_of(seen, [r for rung in asked[1:] for r in _whole(seen, rung.records)])
    limit = seen.dossier.plan.objective.limits.error_rate
    each = [asked_of(seen, _whole(seen, rung.records)) for rung in asked]
    upper = [contrast(each[:cut], each[cut:]) for cut in range(1, len(each))]
    outcome, severity, chance = judged(short, long_, upper, limit)
    if not asked:
        outcome = Outcome.NOT_RUN
    return Finding(
        code="capacity.long_input.recall",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.SERVICE,
        severity=severity,
        required=not (outcome is Outcome.INCONCLUSIVE and waived(seen, short, long_)),
        cause=Cause.LONG_INPUT if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.LONG_INPUT,
        values={
            "short_right": len(short.right),
            "short_asked": short.compared,
            "long_right": len(long_.right),
            "long_asked": long_.compared,
            "unread": long_.asked - long_.compared,
            "wrong_from_tokens": min((_tokens(r) for r in long_.wrong), default=None),
            "chance": chance if long_.wrong else None,
        },
        limit={"chance": CHANCE_MAX, "error_rate": limit},
        evidence=cited(long_.wrong or (*short.right, *long_.right)),
        items=(6,),
    )


def _whole(seen: Seen, records: Sequence[Record]) -> list[Record]:
    """Without the wrong answers that the window cut: those prove nothing."""
    least = seen.sizes.long_output_tokens
    cut = {r.id for r in records if r.state is State.OK and (r.completion_tokens or 0) < least}
    return [r for r in records if r.id not in cut or recalled(seen.dossier, r) is not False]


def _tokens(record: Record) -> int:
    return whole(record.stage[len(STAGE) + 1 :]) or 0

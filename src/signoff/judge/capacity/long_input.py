"""Long input: which lengths held, and whether long prompts were understood as well as short ones."""

from collections.abc import Sequence

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity, State
from signoff.judge import summaries
from signoff.judge.capacity import window
from signoff.judge.capacity.level import caller_fault, speaks
from signoff.judge.capacity.pressure import KV_BOUND
from signoff.judge.capacity.sizes import prompt_tokens
from signoff.judge.capacity.stages import Seen, cited, metrics_cited, recalled

STAGE = "capacity.long_input"
OVERFLOW = "maximum context length"
"""In the server's refusal of a prompt that passes its window."""
LENGTH_SHARE = 0.95
"""Of the rung's tokens that a prompt must have by the server's own count."""
RECALL_SHARE_MIN = 0.5
"""A model that recalls fewer short prompts than this cannot be asked about long ones."""


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
    """The lengths that were begun, rising."""
    found = []
    for event in seen.dossier.events:
        step = event.stage.removeprefix(STAGE + ".") if hasattr(event, "stage") else ""
        if hasattr(event, "conditions") and step.isdigit() and event is seen.dossier.started(f"{STAGE}.{step}"):
            found.append(_rung(seen, int(step)))
    return sorted(found, key=lambda rung: rung.tokens)


def _rung(seen: Seen, tokens: int) -> Rung:
    stage = f"{STAGE}.{tokens}"
    finished, own = seen.dossier.finished(stage), [r for r in seen.of(stage) if r.stage == stage]
    spoken = [r for r in own if speaks(r)]
    kinds = sorted({r.labels.get("kind", "") for r in own})
    held = [_most_succeeded([r for r in spoken if r.labels.get("kind") == kind]) for kind in kinds]
    overflow = any(caller_fault(r) and OVERFLOW in r.error for r in own)
    if overflow or any(h is False for h in held):
        outcome = Outcome.FAIL
    elif not own:
        outcome = Outcome.NOT_RUN
    elif len(kinds) > 1 and all(held) and _long_enough(spoken, prompt_tokens(tokens, seen.sizes)):
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
    return Rung(
        tokens=tokens,
        outcome=outcome,
        records=tuple(own),
        stopped=finished.stopped if finished is not None else "killed",
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
    """Compared with the first rung: wrong answers on long prompts prove something only where short ones were right."""
    asked = [
        (rung.tokens, r, right) for rung in ladder for r in rung.records if _asked(seen, r, right := _right(seen, r))
    ]
    short = [right for tokens, _, right in asked if tokens == ladder[0].tokens] if ladder else []
    long_ = [(tokens, r, right) for tokens, r, right in asked if tokens != ladder[0].tokens] if ladder else []
    wrong = [(tokens, r) for tokens, r, right in long_ if not right]
    able = bool(short) and sum(bool(s) for s in short) / len(short) > RECALL_SHARE_MIN
    if not ladder or not any(rung.records for rung in ladder):
        outcome = Outcome.NOT_RUN
    elif not able or not long_:
        outcome = Outcome.INCONCLUSIVE
    elif len(wrong) > 1 or (wrong and len(wrong) == len(long_)):
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.INCONCLUSIVE if wrong else Outcome.PASS
    laboratory = seen.dossier.profile.scope == "laboratory"
    return Finding(
        code="capacity.long_input.recall",
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.SERVICE,
        severity=Severity.FAIL,
        required=not (laboratory and not able),
        cause=Cause.LONG_INPUT if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.LONG_INPUT,
        values={
            "short_right": sum(bool(s) for s in short),
            "short_asked": len(short),
            "long_right": len(long_) - len(wrong),
            "long_asked": len(long_),
            "wrong_from_tokens": min((tokens for tokens, _ in wrong), default=None),
        },
        evidence=cited([r for _, r in wrong] or [r for _, r, _ in asked]),
        items=(6,),
    )


def _right(seen: Seen, record: Record) -> bool | None:
    """A wrong answer counts only when it was as long as asked: one that the window cut proves nothing."""
    right = recalled(seen.dossier, record)
    cut = (record.completion_tokens or 0) < seen.sizes.long_output_tokens
    return None if right is False and cut else right


def _asked(seen: Seen, record: Record, right: bool | None) -> bool:
    return record.state is State.OK and right is not None

"""What all kinds say together: streamed against whole, and whether reasoning and control text stay in their places."""

from collections import Counter
from collections.abc import Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.rounding import six
from signoff.core.sample import KINDS
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase
from signoff.judge.agent.attempt import Judged
from signoff.judge.agent.contrast import Contrast
from signoff.judge.summaries import rate

ANSWERS_MIN = 10
"""Answers with thinking on, below which an absent reasoning field proves nothing."""
SPEECH_CHARS = 20
"""Content beside a call that is longer than a blank or a stray mark."""
CITED_MAX = 8

Kinds = Mapping[str, Sequence[Judged]]


def lanes(dossier: Dossier, kinds: Kinds) -> list[Finding]:
    return [_agree(dossier, kinds), _separate(dossier, kinds)]


def _finding(
    code: str,
    outcome: Outcome,
    values: dict[str, Value],
    cited: Sequence[Judged] = (),
    bearing: Bearing = Bearing.MINOR,
) -> Finding:
    return Finding(
        code=code,
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=bearing,
        phase=Phase.AGENT,
        cause=Cause.MODEL_PARSER if outcome is Outcome.FAIL else Cause.NONE,
        values=values,
        evidence=tuple(a.cited for a in cited[:CITED_MAX]),
        items=(11,),
    )


def contrast_of(a: Sequence[Judged], b: Sequence[Judged]) -> Contrast:
    return Contrast(
        a_failed=sum(x.failure is not None for x in a),
        a=len(a),
        b_failed=sum(x.failure is not None for x in b),
        b=len(b),
    )


def _agree(dossier: Dossier, kinds: Kinds) -> Finding:
    """The same turns were sent in both lanes; a lane that fails more loses something on its way."""
    code = "agent.lanes.agree"
    readable = {kind: [a for a in found if not a.unread] for kind, found in kinds.items()}
    everything = [a for found in readable.values() for a in found]
    if not everything:
        return _finding(code, Outcome.NOT_RUN, {})
    groups = {"all": everything, **readable}
    contrasts = {
        name: contrast_of(
            [a for a in group if a.label("streamed") == "true"], [a for a in group if a.label("streamed") == "false"]
        )
        for name, group in groups.items()
    }
    whole = contrasts["all"]
    name, worst = min(contrasts.items(), key=lambda item: (item[1].chance, item[0]))
    values: dict[str, Value] = {
        "streamed_failed": whole.a_failed,
        "streamed": whole.a,
        "whole_failed": whole.b_failed,
        "whole": whole.b,
        "chance": worst.chance,
        "where": name,
    }
    if not whole.a or not whole.b:
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "one_lane_only"})
    if whole.a_failed == whole.a and whole.b_failed == whole.b:
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "nothing_succeeded"}, everything)
    if worst.differ(len(contrasts)):
        broken = [a for a in groups[name] if a.failure is not None]
        return _finding(code, Outcome.FAIL, values, broken)
    if min(whole.a, whole.b) < dossier.profile.floors.agent_attempts:
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "too_few_attempts"}, everything)
    if _gone(kinds):
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "bodies_not_kept"}, everything)
    return _finding(code, Outcome.PASS, values, everything)


def _gone(kinds: Kinds) -> bool:
    """Whether what some attempt was answered can no longer be told."""
    return any(a.unread for found in kinds.values() for a in found)


def _separate(dossier: Dossier, kinds: Kinds) -> Finding:
    """Control text anywhere, thoughts in content, or a reasoning field that stays empty though the model thought."""
    code = "agent.reasoning.separate"
    answered = [
        a for kind in KINDS for a in kinds.get(kind, ()) if a.answer is not None and a.answer.readable and not a.unread
    ]
    if not answered:
        return _finding(code, Outcome.NOT_RUN, {})
    marked = [a for a in answered if a.answer is not None and a.answer.markers]
    places = Counter(m.place for a in marked if a.answer is not None for m in a.answer.markers)
    thinking = [a for a in answered if a.label("thinking") == "on"] if dossier.profile.reasoning_parser else []
    silent = [a for a in thinking if not _reasoning(a)]
    lost = [a for a in silent if _thought(a)]
    spoken = [a for a in silent if _speech_beside_call(a)]
    never = len(silent) == len(thinking) >= ANSWERS_MIN
    first = marked[0].answer.markers[0] if marked and marked[0].answer is not None else None
    values: dict[str, Value] = {
        "answers": len(answered),
        "leaked": len(marked),
        "places": ", ".join(f"{place} {places[place]}" for place in sorted(places)) or None,
        "marker": first.text if first is not None else None,
        "example": first.excerpt[:300] if first is not None else None,
        "thinking_answers": len(thinking),
        "reasoning_share": six(1 - len(silent) / len(thinking)) if thinking else None,
        "lost": len(silent) if never else len({a.record.id for a in (*lost, *spoken)}),
        "field": ", ".join(
            sorted({a.answer.reasoning_field for a in answered if a.answer and a.answer.reasoning_field})
        )
        or None,
    }
    if marked or lost or spoken or never:
        spoiled = silent if never else list({a.record.id: a for a in (*lost, *spoken)}.values())
        seen = [a for a in marked if a.answer is not None and any(m.place != "reasoning" for m in a.answer.markers)]
        often = above(dossier, len(seen), len(answered)) or above(dossier, len(spoiled), len(thinking))
        bearing = Bearing.CALLS if often else Bearing.MINOR
        return _finding(code, Outcome.FAIL, values, [*marked, *spoiled], bearing)
    if dossier.profile.reasoning_parser and len(thinking) < ANSWERS_MIN:
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "too_few_answers_with_thinking"}, answered)
    if _gone(kinds):
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": "bodies_not_kept"}, answered)
    return _finding(code, Outcome.PASS, values, answered)


def above(dossier: Dossier, failed: int, tried: int) -> bool:
    """Whether a rate is proved above the plan's limit, at the plan's confidence."""
    asked = dossier.plan.agent.failure_rate
    return asked.limit is not None and rate(failed, tried, 2 * asked.confidence - 1).low > asked.limit


def _reasoning(attempt: Judged) -> str:
    return (attempt.answer.reasoning or "").strip() if attempt.answer is not None else ""


def _thought(attempt: Judged) -> bool:
    """The server itself counted reasoning tokens."""
    usage = attempt.answer.usage if attempt.answer is not None else None
    return usage is not None and bool(usage.reasoning_tokens)


def _speech_beside_call(attempt: Judged) -> bool:
    answer = attempt.answer
    return answer is not None and bool(answer.calls) and len((answer.content or "").strip()) >= SPEECH_CHARS

"""Is there a gateway, and do answers come through it whole? The same samples, both ways, compared by their meaning.

A renamed reasoning field and an empty last chunk are no losses. What fails just as often without the gateway is not
the gateway's."""

from collections.abc import Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.sample import KINDS, Pack
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase
from signoff.judge.agent.attempt import Judged, classes_of, judged
from signoff.judge.agent.contrast import Contrast
from signoff.judge.agent.lanes import Kinds, above, contrast_of
from signoff.judge.agent.rates import example
from signoff.judge.summaries import rate

STAGE = "agent.gateway"
CITED_MAX = 8


def gateway(dossier: Dossier, pack: Pack | None, direct: Kinds) -> list[Finding]:
    return [_said(dossier), _intact(dossier, pack, direct)]


def _finding(code: str, outcome: Outcome, bearing: Bearing, values: dict[str, Value], **more: object) -> Finding:
    return Finding(
        code=code,
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=bearing,
        phase=Phase.AGENT,
        cause=Cause.GATEWAY if outcome is Outcome.FAIL else Cause.NONE,
        values=values,
        items=(11,),
        **more,  # type: ignore[arg-type]
    )


def _said(dossier: Dossier) -> Finding:
    url = dossier.plan.service.gateway_url
    outcome = Outcome.INCONCLUSIVE if url is None else Outcome.NOT_APPLICABLE if url == "none" else Outcome.PASS
    return _finding(
        "agent.gateway.said",
        outcome,
        Bearing.EVIDENCE,
        {"gateway_url": url},
        evidence=("plan.yaml#service.gateway_url",),
    )


def _intact(dossier: Dossier, pack: Pack | None, direct: Kinds) -> Finding:
    code, url = "agent.gateway.intact", dossier.plan.service.gateway_url
    if url == "none":
        return _finding(code, Outcome.NOT_APPLICABLE, Bearing.MINOR, {}, evidence=("plan.yaml#service.gateway_url",))
    if url is None:  # the open question stands in agent.gateway.said
        return _finding(code, Outcome.NOT_RUN, Bearing.MINOR, {}, required=False)
    found = judged(dossier, pack, STAGE) if pack is not None else []
    through: dict[str, list[Judged]] = {kind: [a for a in found if a.label("kind") == kind] for kind in KINDS}
    if not found:
        return _finding(code, Outcome.NOT_RUN, Bearing.CALLS, {})
    if any(a.unread for a in found) or not all(direct.get(kind) for kind in KINDS if through[kind]):
        reason = "bodies_not_kept" if any(a.unread for a in found) else "no_direct_lane"
        return _finding(code, Outcome.INCONCLUSIVE, Bearing.CALLS, {"attempts": len(found), "reason": reason})
    broken = {kind: contrast_of(direct.get(kind, ()), through[kind]) for kind in KINDS}
    worse = [kind for kind, c in broken.items() if c.b_failed * c.a > c.a_failed * c.b and c.differ(len(broken) + 1)]
    thoughts = _reasoning_contrast([a for kind in KINDS for a in direct.get(kind, ())], found)
    lost = thoughts.b_failed * thoughts.a > thoughts.a_failed * thoughts.b and thoughts.differ(len(broken) + 1)
    shown = [a for kind in worse for a in through[kind]] or found
    values: dict[str, Value] = {
        "attempts": len(found),
        "failed": sum(a.failure is not None for a in found),
        "direct_attempts": sum(c.a for c in broken.values()),
        "direct_failed": sum(c.a_failed for c in broken.values()),
        "worse_kinds": ", ".join(worse) or None,
        "direct_classes": ", ".join(classes_of([a for kind in KINDS for a in direct.get(kind, ())])) or None,
        "without_reasoning": f"{thoughts.b_failed} of {thoughts.b}",
        "direct_without_reasoning": f"{thoughts.a_failed} of {thoughts.a}",
        "lost": _lost_words(worse, lost),
        **example(shown if worse else ()),
    }
    often = _above_limit(dossier, worse, through) or (lost and above(dossier, thoughts.b_failed, thoughts.b))
    bearing = Bearing.CALLS if often else Bearing.MINOR
    outcome = Outcome.FAIL if worse or lost else Outcome.PASS
    if outcome is Outcome.PASS and any(c.a_failed == c.a for c in broken.values() if c.b):
        values["reason"] = "direct_lane_fails_too"  # what always breaks before the gateway shows nothing about it
        return _finding(code, Outcome.INCONCLUSIVE, bearing, values, evidence=tuple(a.cited for a in found[:CITED_MAX]))
    if outcome is Outcome.PASS and (reason := _too_few(dossier, pack, direct, through)):
        values["reason"] = reason
        return _finding(code, Outcome.INCONCLUSIVE, bearing, values, evidence=tuple(a.cited for a in found[:CITED_MAX]))
    cited = [a for a in shown if a.failure is not None or not worse][:CITED_MAX]
    return _finding(code, outcome, bearing, values, evidence=tuple(a.cited for a in cited))


def _too_few(dossier: Dossier, pack: Pack | None, direct: Kinds, through: Kinds) -> str:
    """Why no loss proves nothing: a kind of the pack was not sent the profile's least number of times both ways."""
    floor = dossier.profile.floors.agent_attempts
    kinds = [kind for kind in KINDS if pack is not None and pack.of_kind(kind)]
    if any(len(through[kind]) < floor or len(direct.get(kind, ())) < floor for kind in kinds):
        return "too_few_attempts"
    if any([a.number for a in through[kind]] != list(range(len(through[kind]))) for kind in kinds):
        return "attempts_missing"
    return "bodies_not_kept" if any(a.unread for kind in kinds for a in direct.get(kind, ())) else ""


def _lost_words(worse: Sequence[str], lost: bool) -> str | None:
    parts = [f"answers of {', '.join(worse)}"] if worse else []
    return " and ".join(parts + (["the reasoning field"] if lost else [])) or None


def _reasoning_contrast(direct: Sequence[Judged], through: Sequence[Judged]) -> Contrast:
    """Answers without reasoning, of those that came whole with thinking on or left to the model."""

    def silent(group: Sequence[Judged]) -> tuple[int, int]:
        chosen = [
            a.answer for a in group if a.answer is not None and a.answer.readable and a.label("thinking") != "off"
        ]
        return sum(not (answer.reasoning or "").strip() for answer in chosen), len(chosen)

    (a_failed, a), (b_failed, b) = silent(direct), silent(through)
    return Contrast(a_failed=a_failed, a=a, b_failed=b_failed, b=b)


def _above_limit(dossier: Dossier, worse: Sequence[str], through: Kinds) -> bool:
    """Whether a critical kind is proved to fail above the plan's limit through the gateway; the error is shared."""
    asked = dossier.plan.agent.failure_rate
    if asked.limit is None:
        return False
    share = (1 - asked.confidence) / len(KINDS)
    return any(
        kind in dossier.plan.agent.critical
        and rate(sum(a.failure is not None for a in through[kind]), len(through[kind]), 1 - 2 * share).low > asked.limit
        for kind in worse
    )

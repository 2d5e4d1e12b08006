"""The failure rate of each kind of sample, over both lanes, alone and together."""

from collections.abc import Mapping, Sequence

from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.sample import KINDS, Kind, Pack
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase
from signoff.judge.agent.attempt import Judged, classes_of, share, worst_of
from signoff.judge.agent.next_step import Looks, looked_at, planned_looks, settled

ITEMS = (5, 11)
CITED_MAX = 8


def rates(
    dossier: Dossier, pack: Pack | None, card: Evidence | None, kinds: Mapping[str, Sequence[Judged]]
) -> list[Finding]:
    """One finding a kind."""
    plan = planned_looks(dossier.plan, dossier.profile, pack)
    return [_rate(dossier, pack, card, kind, plan, kinds[kind]) for kind in KINDS]


def bearing_of(dossier: Dossier, kind: str) -> Bearing:
    """Whether failures of this kind bound the verdict."""
    return Bearing.CALLS if kind in dossier.plan.agent.critical else Bearing.MINOR


def cause_of(worst: Judged | None) -> Cause:
    """Model or parser unless no answer came at all; a GPU is never blamed for a format."""
    if worst is None or worst.failure is None or worst.failure.cls == "transport":
        return Cause.NONE
    return Cause.MODEL_PARSER


def _rate(
    dossier: Dossier,
    pack: Pack | None,
    card: Evidence | None,
    kind: Kind,
    plan: Looks,
    everything: Sequence[Judged],
) -> Finding:
    def finding(outcome: Outcome, values: dict[str, Value], **more: object) -> Finding:
        return Finding(
            code=f"agent.{kind}.rate",
            gate=Gate.AGENT,
            outcome=outcome,
            bearing=bearing_of(dossier, kind),
            phase=Phase.AGENT,
            values=values,
            limit={"failure_rate": plan.limit},
            items=ITEMS,
            **more,  # type: ignore[arg-type]
        )

    if not dossier.of_stage(f"agent.{kind}"):
        return finding(Outcome.NOT_RUN, {"attempts": 0})
    if pack is None or card is None:
        return finding(Outcome.INCONCLUSIVE, {"reason": "samples_not_kept"})
    counted = everything[: looked_at(len(everything), plan)]
    shown = counted or everything
    broken, unread = sum(a.failure is not None for a in shown), sum(bool(a.unread) for a in shown)
    outcome, reason = _outcome(counted, broken, unread, plan)
    _, measured = settled(broken, len(shown), plan)
    values: dict[str, Value] = {
        "attempts": len(shown),
        "failed": broken,
        "unread": unread,
        "failed_share": measured.share,
        "share_low": measured.low,
        "share_high": measured.high,
        "confidence": round(plan.confidence, 6),
        "looks": ", ".join(str(size) for size in plan.sizes),
        "lane_attempts_min": plan.floor,
        "reason": reason or None,
        "pack": f"{pack.name} version {pack.version}",
        **_cells(shown),
        **example(shown),
    }
    cited = (f"sha256:{card.digest}", *_citations(shown))
    cause = cause_of(worst_of(shown)) if outcome is Outcome.FAIL else Cause.NONE
    return finding(outcome, values, evidence=cited, cause=cause)


def _outcome(counted: Sequence[Judged], broken: int, unread: int, plan: Looks) -> tuple[Outcome, str]:
    """What cannot be read counts against whichever side it could help; few attempts can condemn and never pass."""
    if plan.limit is None:
        return Outcome.INCONCLUSIVE, "no_limit_in_plan"
    if not counted:
        return Outcome.INCONCLUSIVE, "first_look_not_reached"
    best, _ = settled(broken, len(counted), plan)
    worst, _ = settled(broken + unread, len(counted), plan)
    if best is Outcome.FAIL:
        return Outcome.FAIL, ""
    if short_of(counted, plan.floor):
        return Outcome.INCONCLUSIVE, "too_few_attempts"
    if [a.number for a in counted] != list(range(len(counted))):
        return Outcome.INCONCLUSIVE, "attempts_missing"
    if best is worst is Outcome.PASS:
        return Outcome.PASS, ""
    if unread:
        return Outcome.INCONCLUSIVE, "bodies_not_kept"
    return Outcome.INCONCLUSIVE, "limit_inside_interval"


def short_of(attempts: Sequence[Judged], floor: int) -> bool:
    """Whether either lane has fewer than `floor` attempts."""
    return any(sum(a.label("streamed") == lane for a in attempts) < floor for lane in ("true", "false"))


def _cells(shown: Sequence[Judged]) -> dict[str, Value]:
    cells = {
        "streamed": share(shown, streamed="true"),
        "whole": share(shown, streamed="false"),
        "alone": share(shown, load="alone"),
        "together": share(shown, load="together"),
        "thinking_on": share(shown, thinking="on"),
        "thinking_off": share(shown, thinking="off"),
        "choice_auto": share(shown, choice="auto"),
        "choice_required": share(shown, choice="required"),
    }
    return {name: value for name, value in cells.items() if value}


def example(shown: Sequence[Judged]) -> dict[str, Value]:
    """The classes seen, and the worst one with its raw part, so that a reader sees what came."""
    worst = worst_of(shown)
    if worst is None or worst.failure is None:
        return {"worst": None}
    counts = classes_of(shown)
    return {
        "classes": ", ".join(f"{cls} {counts[cls]}" for cls in sorted(counts, key=lambda c: (-counts[c], c))),
        "worst": str(worst.failure.cls),
        "worst_count": counts[worst.failure.cls],
        "side": worst.failure.side,
        "detail": worst.failure.detail,
        "example": worst.failure.raw or None,
        "example_record": worst.record.id,
        "example_sample": worst.sample.id,
        **_arguments(shown, worst),
    }


def _arguments(shown: Sequence[Judged], worst: Judged) -> dict[str, Value]:
    """Raw broken arguments, when the worst class has none to show."""
    classes = ("not_json", "double_encoded", "wrong_type", "missing_argument", "extra_argument", "schema_broken")
    if worst.failure is not None and worst.failure.cls in classes:
        return {}
    found = next((a.failure for a in shown if a.failure is not None and a.failure.cls in classes), None)
    return {} if found is None else {"arguments": found.raw, "arguments_class": str(found.cls)}


def _citations(shown: Sequence[Judged]) -> list[str]:
    broken = [a for a in shown if a.failure is not None]
    chosen = (broken or list(shown))[:CITED_MAX]
    return [a.cited for a in chosen]

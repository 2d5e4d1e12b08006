"""Answers: whether facts are recalled under load, and through the soak, as they are by a single request."""

from collections.abc import Sequence

from msgspec import Struct

from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity, State
from signoff.judge import summaries
from signoff.judge.capacity.honest import LACKS
from signoff.judge.capacity.stages import Seen, recalled, whole

CHANCE_MAX = 0.01
"""So seldom would chance alone make answers under load so much worse than the control's."""
ABLE_SHARE = 0.5
"""A model that recalls fewer facts than this alone cannot be asked about them under load."""
READ_SHARE = 0.9
"""Of the answers that were to be kept and compared: fewer are no comparison."""
STRAY_SHARE_MIN = 0.01
SOAK, LONG = "capacity.soak", "capacity.long_input"


class Asked(Struct, frozen=True, kw_only=True):
    """Answers that were to hold a fact."""

    asked: int
    """Answered requests that asked for one, whether the bytes are there or not."""
    right: tuple[Record, ...]
    wrong: tuple[Record, ...]

    @property
    def compared(self) -> int:
        return len(self.right) + len(self.wrong)

    @property
    def complete(self) -> bool:
        """Enough of them can be read."""
        return self.asked > 0 and self.compared >= READ_SHARE * self.asked


class Contrast(Struct, frozen=True, kw_only=True):
    """Wrong of compared answers, under less load and under more."""

    less_wrong: int
    less: int
    wrong: int
    compared: int

    @property
    def chance(self) -> float:
        """How seldom chance alone puts so many of all wrong answers under the load."""
        return summaries.chance_of_so_many(self.wrong, self.compared, self.less_wrong, self.less)


def findings(seen: Seen) -> list[Finding]:
    alone = control(seen)
    by_load = {n: [r for x in seen.levels if x.streams == n for r in seen.of(x.stage)] for n in _loads(seen)}
    steps = [alone, *(asked_of(seen, own) for own in by_load.values())]
    loaded = asked_of(seen, [r for own in by_load.values() for r in own])
    soaked = asked_of(seen, seen.of(SOAK))
    rising = [contrast(steps[:cut], steps[cut:]) for cut in range(1, len(steps))]
    lasting = [contrast([alone], [soaked]), contrast([alone, loaded], [soaked])]
    held, soak = any(by_load.values()), bool(seen.of(SOAK))
    return [
        _about("capacity.concurrency.answers", seen, held, alone, loaded, rising, Cause.CONCURRENCY),
        _about("capacity.soak.answers", seen, soak, alone, soaked, lasting, Cause.SUSTAINED),
    ]


def _loads(seen: Seen) -> list[int]:
    return sorted({x.streams for x in seen.levels if x.streams > 1})


def contrast(less: Sequence[Asked], more: Sequence[Asked]) -> Contrast:
    return Contrast(
        less_wrong=sum(len(x.wrong) for x in less),
        less=sum(x.compared for x in less),
        wrong=sum(len(x.wrong) for x in more),
        compared=sum(x.compared for x in more),
    )


def asked_of(seen: Seen, records: Sequence[Record]) -> Asked:
    asked = [r for r in records if r.labels.get("expect") and (r.state is State.OK or LACKS in r.labels)]
    said = [(r, recalled(seen.dossier, r)) for r in asked]
    return Asked(
        asked=len(asked),
        right=tuple(r for r, right in said if right is True),
        wrong=tuple(r for r, right in said if right is False),
    )


def control(seen: Seen) -> Asked:
    """One request at a time, and none much longer than a turn: the load of one stream, the idle server before all
    load, and the shorter of the long inputs."""
    single = [r for x in seen.levels if x.streams == 1 for r in seen.of(x.stage)]
    rungs = [n for stage in seen.by_stage if (n := whole(stage.removeprefix(LONG + "."))) is not None]
    near = [n for n in rungs if n <= max(2 * seen.sizes.input_tokens, min(rungs))]
    short = [r for n in sorted(near) for r in seen.of(f"{LONG}.{n}")]
    return asked_of(seen, [*seen.of("capacity.load"), *short, *single])


def able(alone: Asked) -> bool:
    return len(alone.right) > ABLE_SHARE * alone.compared


def waived(seen: Seen, alone: Asked, loaded: Asked) -> bool:
    """A laboratory's model may be too small to recall anything: then what was compared, all of it, decides nothing.
    Answers that are not there are missing everywhere."""
    return seen.dossier.profile.scope == "laboratory" and alone.complete and loaded.complete


def judged(
    alone: Asked, loaded: Asked, contrasts: Sequence[Contrast], limit: float | None
) -> tuple[Outcome, Severity, float]:
    """Wrong answers are proved by a contrast with less load, several contrasts sharing the chance; a share within the
    plan's error rate is a warning."""
    sharpest = min(contrasts, key=lambda c: c.chance, default=None)
    chance = 1.0 if sharpest is None else six(min(1.0, sharpest.chance * len(contrasts)))
    if not loaded.complete or not alone.complete or not able(alone):
        return Outcome.INCONCLUSIVE, Severity.FAIL, chance
    if not loaded.wrong:
        return Outcome.PASS, Severity.FAIL, chance
    most = max(limit or 0.0, STRAY_SHARE_MIN)
    proved = sharpest is not None and chance <= CHANCE_MAX
    if proved and sharpest is not None and summaries.rate(sharpest.wrong, sharpest.compared).low > most:
        return Outcome.FAIL, Severity.FAIL, chance
    stray = len(loaded.wrong) <= most * loaded.compared
    return Outcome.PASS if stray else Outcome.INCONCLUSIVE, Severity.WARN if stray else Severity.FAIL, chance


def _about(
    code: str,
    seen: Seen,
    ran: bool,
    alone: Asked,
    loaded: Asked,
    contrasts: Sequence[Contrast],
    cause: Cause,
) -> Finding:
    limit = seen.dossier.plan.objective.limits.error_rate
    outcome, severity, chance = judged(alone, loaded, contrasts, limit)
    outcome = outcome if ran else Outcome.NOT_RUN
    streams = {x.stage: x.streams for x in seen.levels}
    measured = summaries.rate(len(loaded.wrong), loaded.compared)
    return Finding(
        code=code,
        gate=Gate.CAPACITY,
        outcome=outcome,
        bearing=Bearing.SERVICE,
        severity=severity,
        required=not (outcome is Outcome.INCONCLUSIVE and waived(seen, alone, loaded)),
        cause=cause if outcome is Outcome.FAIL else Cause.NONE,
        phase=Phase.SOAK if cause is Cause.SUSTAINED else Phase.CONCURRENCY,
        values={
            "single_asked": alone.compared,
            "single_wrong": len(alone.wrong),
            "asked": loaded.compared,
            "unread": loaded.asked - loaded.compared,
            "wrong": len(loaded.wrong),
            "wrong_share": measured.share,
            "wrong_share_low": measured.low if loaded.compared else None,
            "wrong_from": min((streams[r.stage] for r in loaded.wrong if r.stage in streams), default=None),
            "chance": chance if loaded.wrong else None,
        },
        limit={"chance": CHANCE_MAX, "error_rate": limit},
        evidence=tuple(f"record:{r.id}" for r in loaded.wrong[:8]),
        items=(5, 6),
    )

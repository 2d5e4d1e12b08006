"""The answers themselves: a cache that serves another prompt's state answers wrongly with healthy counters."""

from collections.abc import Sequence

from msgspec import Struct
from scipy import stats

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.rounding import six
from signoff.core.words import Outcome, Severity
from signoff.judge.prefix.made import made, rounds_needed
from signoff.judge.prefix.trials import Trial, View
from signoff.read.stream import read_stream

WRONG_BY_CHANCE = 0.01


class Recalled(Struct, frozen=True, kw_only=True):
    """Which answers held the value that their prompt noted."""

    uncached: tuple[bool, ...]
    cached: tuple[bool, ...]
    foreign: tuple[Trial, ...]
    """Answers with the value of another prompt instead."""
    turned: tuple[int, ...]
    """Rounds whose cold answer was right and whose replay's was not."""
    unread: tuple[Trial, ...]
    """Answered requests of which the answer, or the value asked for, is gone."""
    rounds: int
    """Whole rounds with answers of both kinds."""


def answer_of(view: View, trial: Trial) -> str | None:
    """Everything the server said, reasoning included; `None` when it was not kept or cannot be read."""
    if not trial.record.response_digest:
        return None
    try:
        answer = read_stream(view.dossier.blob(trial.record.response_digest))
    except KeyError:
        return None
    return f"{answer.reasoning or ''}\n{answer.content or ''}" if answer.readable else None


def recalled(view: View) -> Recalled:
    """Every readable answer held against the values of this run."""
    needles = {t.record.labels.get("needle", "") for t in view.trials} - {""}
    right: dict[str, bool] = {}
    foreign: list[Trial] = []
    unread: list[Trial] = []
    for trial in view.trials:
        if not trial.ok:
            continue
        needle, said = trial.record.labels.get("needle", ""), answer_of(view, trial)
        if said is None or not needle:
            unread.append(trial)
            continue
        right[trial.record.id] = needle in said
        if needle not in said and any(other in said for other in needles - {needle}):
            foreign.append(trial)
    replays = {t.round: right.get(t.record.id) for t in view.of("replay")}
    colds = {t.round: right.get(t.record.id) for t in view.of("cold")}
    uncached = [t for t in view.trials if t.arm == "cold" or t.control == "head"]
    read = [{t.round for t in arms if t.record.id in right} for arms in (view.of("cold"), view.of("warm", "replay"))]
    return Recalled(
        uncached=tuple(right[t.record.id] for t in uncached if t.record.id in right),
        cached=tuple(right[t.record.id] for t in view.of("warm", "replay") if t.record.id in right),
        foreign=tuple(foreign),
        turned=tuple(k for k, fine in sorted(colds.items()) if fine and replays.get(k) is False),
        unread=tuple(unread),
        rounds=len(read[0] & read[1] & view.whole),
    )


def output_same(view: View) -> Finding:
    """`prefix.output.same`: what was recalled uncached must be recalled out of the cache too.

    Fails when an answer holds the value of another prompt, or when cached answers are right less often than chance
    allows (one-sided Fisher's exact test at 1 %). A replay that turns its own cold prompt's right answer wrong is
    never passed over; another question that is answered wrong now and then may be the model's own doing. Passing needs
    every answer of enough rounds; only in a laboratory may the model be too small to recall what it reads."""
    seen = recalled(view)
    cold, warm = seen.uncached, seen.cached
    chance = _chance(cold, warm)
    required, severity, reason = True, Severity.FAIL, ""
    if seen.foreign:
        outcome, reason = Outcome.FAIL, "other_prompts_value"
    elif chance is not None and chance < WRONG_BY_CHANCE:
        outcome, reason = Outcome.FAIL, "wrong_out_of_cache"
    elif not cold or not warm:
        outcome, reason = Outcome.INCONCLUSIVE, "no_answers"
    elif seen.unread:
        outcome, reason = Outcome.INCONCLUSIVE, "answers_not_kept"
    elif seen.rounds < rounds_needed(view.dossier):
        outcome, reason = Outcome.INCONCLUSIVE, "too_few_rounds"
    elif 2 * sum(cold) < len(cold):
        outcome, reason = Outcome.INCONCLUSIVE, "model_cannot_recall"
        required = view.dossier.profile.scope != "laboratory"
    elif seen.turned:
        outcome, reason = Outcome.INCONCLUSIVE, "replay_answers_otherwise"
    elif all(cold) and not all(warm):
        outcome, reason, severity = Outcome.PASS, "some_wrong_out_of_cache", Severity.WARN
    else:
        outcome = Outcome.PASS
    values: dict[str, Value] = {
        "uncached_right": sum(cold),
        "uncached": len(cold),
        "cached_right": sum(warm),
        "cached": len(warm),
        "other_prompts_value": len(seen.foreign),
        "replays_turned_wrong": len(seen.turned),
        "answers_gone": len(seen.unread),
        "rounds": seen.rounds,
        "chance": chance,
        "reason": reason,
    }
    return made(
        "prefix.output.same",
        outcome,
        values,
        limit={"chance_min": WRONG_BY_CHANCE, "rounds_min": rounds_needed(view.dossier)},
        evidence=view.cite(seen.foreign or view.of("warm", "replay")),
        required=required,
        severity=severity,
    )


def _chance(cold: Sequence[bool], warm: Sequence[bool]) -> float | None:
    """The chance of so few right answers out of the cache if it made no difference."""
    if not cold or not warm:
        return None
    table = [[sum(warm), len(warm) - sum(warm)], [sum(cold), len(cold) - sum(cold)]]
    return six(float(stats.fisher_exact(table, alternative="less").pvalue))

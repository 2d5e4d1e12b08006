"""Whether every request that shares a prefix was served exactly what the cache model expects, and if not, why not."""

import math
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Outcome
from signoff.judge.prefix.caching import Caching
from signoff.judge.prefix.expected import lawful
from signoff.judge.prefix.made import made, rounds_needed
from signoff.judge.prefix.trials import CHANNELS, Trial, View
from signoff.read.answer import decoded, mapping_of

GATED = ("warm", "replay")


class Tally(Struct, frozen=True, kw_only=True):
    """The gated trials by what became of them."""

    met: tuple[Trial, ...] = ()
    short: tuple[Trial, ...] = ()
    """Fewer hits than any working cache gives, in two channels."""
    void: tuple[Trial, ...] = ()
    """Nothing could hit: the prompts as rendered share less than one unit."""
    over: tuple[Trial, ...] = ()
    """More than the unit allows."""
    unknown: tuple[Trial, ...] = ()
    """No two channels agree, no tokens, or the request failed."""

    def rounds(self, whole: frozenset[int]) -> int:
        """Whole rounds whose every gated trial was met."""
        bad = {t.round for t in (*self.short, *self.void, *self.over, *self.unknown)}
        return len(({t.round for t in self.met} - bad) & whole)


def tally(view: View) -> Tally:
    """Sort the gated trials."""
    kinds: dict[str, list[Trial]] = {name: [] for name in Tally.__struct_fields__}
    for trial in view.of(*GATED):
        kinds[kind_of(trial, view)].append(trial)
    return Tally(**{name: tuple(trials) for name, trials in kinds.items()})


def kind_of(trial: Trial, view: View) -> str:
    """The field of `Tally` that a trial belongs to."""
    if not trial.ok or trial.expected is None or view.rule is None:
        return "unknown"
    hit = trial.hit
    if hit is None:
        return "unknown"
    if hit > trial.expected.best:
        return "over"
    if trial.expected.best == 0:
        return "void"
    return "met" if lawful(hit, trial.expected, view.rule.unit) else "short"


def hits_expected(view: View, caching: Caching) -> Finding:
    """`prefix.hits.expected`."""
    sorted_out = tally(view)
    decided = [*sorted_out.met, *sorted_out.short]
    expected = sum(t.expected.best for t in decided if t.expected is not None)
    hit = sum(t.hit or 0 for t in decided)
    channels = sorted({name for t in decided for name in t.witnesses})
    outcome, reason = _outcome(view, caching, sorted_out)
    values: dict[str, Value] = {
        "rounds": sorted_out.rounds(view.whole),
        "requests": len(view.of(*GATED)),
        "met": len(sorted_out.met),
        "short": len(sorted_out.short),
        "undecided": len(sorted_out.unknown) + len(sorted_out.over) + len(sorted_out.void),
        "expected_tokens": expected,
        "hit_tokens": hit,
        "share": six(hit / expected) if expected else None,
        "unit_tokens": view.unit.tokens,
        "witnesses": ", ".join(channels),
        "reason": reason,
        "rendered_otherwise": sum(rendered_otherwise(t) for t in view.trials),
        "observed_unit_tokens": observed_unit(decided),
        "echo": echo(view),
        "held_hit_tokens": view.held,
        "rivals": ", ".join(rivals(view)) if reason == "never_hits" else "",
    }
    shown = sorted_out.short or sorted_out.void or sorted_out.over or sorted_out.unknown or sorted_out.met
    return made(
        "prefix.hits.expected",
        outcome,
        values,
        limit={"rounds_min": rounds_needed(view.dossier), "channels_min": 2},
        evidence=view.cite(shown),
        required=view.dossier.profile.hits_required or view.dossier.profile.cache.caching_required,
    )


def _outcome(view: View, caching: Caching, found: Tally) -> tuple[Outcome, str]:
    """Outcome and named reason."""
    bad = (*found.short, *found.void)
    if bad:
        if caching.reason:
            return Outcome.FAIL, caching.reason
        if not any(value for t in view.of(*GATED) for value in t.witnesses.values()) and reuse_on_the_clock(view):
            return Outcome.INCONCLUSIVE, "counter_not_wired"
        return Outcome.FAIL, _why(view, found)
    if found.over:
        return Outcome.INCONCLUSIVE, "finer_unit" if not any(beyond(t) for t in found.over) else "false_hits"
    if found.unknown:
        return Outcome.INCONCLUSIVE, _unknown(view, found.unknown)
    if found.rounds(view.whole) < rounds_needed(view.dossier):
        return Outcome.INCONCLUSIVE, "too_few_rounds"
    return Outcome.PASS, ""


def _unknown(view: View, trials: Sequence[Trial]) -> str:
    if any(not t.ok for t in trials):
        return "requests_failed"
    if view.rule is None:
        return "unit_unknown"
    if any(t.ids is None for t in trials):
        return "no_token_ids"
    disturbed = next((t.disturbed for t in trials if t.disturbed), "")
    if disturbed:
        return disturbed
    if dead_channels(view.trials):
        return "counter_not_wired"
    return "channels_disagree" if any(len(t.witnesses) > 1 for t in trials) else "one_channel"


def dead_channels(trials: Sequence[Trial]) -> list[str]:
    """Channels that never say a hit where another channel says one."""
    seen = [t.witnesses for t in trials if t.ok and any(t.witnesses.values())]
    return [name for name in CHANNELS if any(name in said for said in seen) and not any(s.get(name) for s in seen)]


def _why(view: View, found: Tally) -> str:
    """The named reason of a shortfall, the surest first."""
    unit = view.unit.tokens or 1
    if found.void and not found.short:
        long = [t for t in found.void if t.ids is not None and len(t.ids) > unit]
        return "head_changed" if long else "below_unit"
    if 2 * sum(rendered_otherwise(t) for t in found.short) > len(found.short) or echo(view) == "differs":
        return "head_changed"
    if 2 * sum(elsewhere(view, t) for t in found.short) > len(found.short):
        return "scattered"
    if all(t.arm == "warm" for t in found.short) and any(t.arm == "replay" for t in found.met):
        return "retention"
    if all(t.ids is not None and len(t.ids) % unit in (0, 1) for t in found.short):
        return "boundary"
    if all(t.expected is not None and t.expected.least - (t.hit or 0) == unit for t in found.short):
        return "boundary"
    if found.met or any(t.hit for t in found.short) or (view.held or 0) >= unit:
        return "evicted"
    return "never_hits"


def elsewhere(view: View, trial: Trial) -> bool:
    """Whether another engine served the trial than its round's cold prompt."""
    cold = next((t for t in view.of("cold") if t.round == trial.round), None)
    if cold is None or cold.moved is None or trial.moved is None:
        return False
    return bool(cold.moved.served_by and trial.moved.served_by) and cold.moved.served_by != trial.moved.served_by


def rivals(view: View) -> list[str]:
    """What can explain that prompts are looked up and never hit, those left out that this run refutes.

    What misses even while another request holds the same prompt was not evicted."""
    found = ["silently_disabled", "head_changed"]
    return found if view.held == 0 else [*found, "evicted"]


def echo(view: View) -> str:
    """Whether the server rendered a prompt as its tokeniser said: `same`, `differs`, or `not_offered`."""
    said = set()
    for record in view.echo:
        cold = next((t.ids for t in view.of("cold") if str(t.round) == record.labels.get("round")), None)
        told = _told_ids(view, record)
        if told is not None and cold is not None:
            said.add("same" if told == cold.tolist() else "differs")
    return "differs" if "differs" in said else "same" if said else "not_offered"


def _told_ids(view: View, record: Record) -> list[int] | None:
    if not record.response_digest:
        return None
    try:
        ids = mapping_of(decoded(view.dossier.blob(record.response_digest))[0]).get("prompt_token_ids")
    except KeyError:
        return None
    return ids if isinstance(ids, list) and all(type(i) is int for i in ids) else None


def rendered_otherwise(trial: Trial) -> bool:
    """Whether the server computed another number of prompt tokens than its own tokeniser told us."""
    told = trial.record.prompt_tokens
    return trial.ids is not None and told is not None and told != len(trial.ids)


def beyond(trial: Trial) -> bool:
    """Whether a trial hit more than its shared tokens, which no unit and no retention rule can explain."""
    if trial.expected is None or trial.hit is None or trial.ids is None:
        return False
    return trial.hit > min(trial.expected.shared, len(trial.ids) - 1)


def observed_unit(trials: Sequence[Trial]) -> int | None:
    """The largest number that every hit is a multiple of; `None` without hits."""
    hits = [t.hit for t in trials if t.hit]
    return math.gcd(*hits) if hits else None


def reuse_on_the_clock(view: View) -> bool:
    """Whether replays came in under half the time of cold prompts, in every round."""
    cold = {t.round: t.ttft_ms for t in view.of("cold") if t.ok and t.ttft_ms is not None}
    again = {t.round: t.ttft_ms for t in view.of("replay") if t.ok and t.ttft_ms is not None}
    both = [(cold[k], again[k]) for k in sorted(cold.keys() & again.keys())]
    return (
        len(both) >= 3 and median(b for _, b in both) < 0.5 * median(a for a, _ in both) and all(b < a for a, b in both)
    )

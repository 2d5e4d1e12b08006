"""Negative controls: what changed must have reached the prompt, and then nothing beyond the shared tokens may hit."""

from collections.abc import Sequence

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Outcome
from signoff.judge.prefix.expected import shared_tokens
from signoff.judge.prefix.hits import rendered_otherwise
from signoff.judge.prefix.made import made, rounds_needed
from signoff.judge.prefix.trials import Trial, View

KINDS = ("head", "tools", "salt")
REQUIRED_KINDS = ("head",)
"""Templates may drop tools, and a server may ignore the salt; neither makes the service wrong."""


def template_tokens(view: View) -> int:
    """Tokens that every prompt begins with: the template's own, which any earlier traffic may have cached."""
    colds = [t.ids for t in view.of("cold") if t.ids is not None]
    return min((shared_tokens(colds[0], ids) for ids in colds[1:]), default=0)


def ceiling(trial: Trial, template: int) -> int | None:
    """The most tokens that can lawfully hit, whatever unit and retention: what is shared, less the last token."""
    if trial.expected is None or trial.ids is None:
        return None
    shared = trial.expected.shared if trial.control == "salt" else max(trial.expected.shared, template)
    return min(shared, len(trial.ids) - 1)


def control_zero(view: View) -> list[Finding]:
    """`prefix.control.zero`: for the salt apart, for every other arm together."""
    plain = [t for t in view.trials if t.control != "salt"]
    salted = [t for t in view.trials if t.control == "salt"]
    return [_zero(view, plain, "head", ""), _zero(view, salted, "salt", "salt")]


def _zero(view: View, trials: Sequence[Trial], counted: str, subject: str) -> Finding:
    """`counted` is the control whose rounds must be enough; every trial is held against its ceiling.

    A round counts when it is whole and every answered trial in it can be held so: one whose tokens or hits are gone may
    be the one that hit. And only there is a hit false: a prompt of which nobody knows may have been what was hit."""
    template = template_tokens(view)
    told = {t.round for t in view.of("cold") if t.ids is not None} & view.whole
    over_two: list[Trial] = []
    over_one: list[Trial] = []
    for trial in trials:
        most = ceiling(trial, template)
        if most is None or not trial.ok:
            continue
        above = [value for value in trial.witnesses.values() if value > most]
        if len(above) >= 2 and not rendered_otherwise(trial) and trial.round in told:
            over_two.append(trial)
        elif above:
            over_one.append(trial)
    controls = [t for t in trials if t.control == counted and t.ok and t.hit is not None and t.expected is not None]
    blind = {t.round for t in trials if t.ok and (t.hit is None or ceiling(t, template) is None)}
    rounds = len(({t.round for t in controls} - blind) & view.whole)
    values: dict[str, Value] = {
        "requests": len(trials),
        "rounds": rounds,
        "template_tokens": template,
        "hit_tokens": sum(t.hit or 0 for t in controls),
        "lawful_tokens": sum(t.expected.best for t in controls if t.expected is not None),
        "false_hits": len(over_two),
        "false_hits_in_one_channel": len(over_one),
        "worst_excess_tokens": max(
            (max(t.witnesses.values()) - (ceiling(t, template) or 0) for t in (*over_two, *over_one)), default=0
        ),
        "reason": "",
    }
    enough = rounds >= rounds_needed(view.dossier)
    if over_two and subject == "salt":
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "salt_not_honoured"
    elif over_two:
        outcome, values["reason"] = Outcome.FAIL, "false_hit"
    elif over_one:
        untold = any(t.round not in told for t in over_one)
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_rounds" if untold else "one_channel"
    elif not enough:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_rounds" if rounds else "no_witness"
    else:
        outcome = Outcome.PASS
    return made(
        "prefix.control.zero",
        outcome,
        values,
        limit={"rounds_min": rounds_needed(view.dossier)},
        evidence=view.cite(over_two or over_one or controls),
        subject=subject,
        required=subject == "",
    )


def control_valid(view: View) -> list[Finding]:
    """`prefix.control.valid`, one a control."""
    return [_valid(view, kind) for kind in KINDS]


def _valid(view: View, kind: str) -> Finding:
    trials = [t for t in view.trials if t.control == kind]
    sent = [t for t in trials if t.ok]
    reached = [t for t in sent if _reached(t, kind)]
    unknown = [t for t in sent if t.ids is None or t.shared_cold is None]
    shared = [t.shared_cold for t in sent if t.shared_cold is not None]
    values: dict[str, Value] = {
        "requests": len(trials),
        "answered": len(sent),
        "reached": len(reached),
        "shared_tokens_max": max(shared, default=None),
        "reason": "",
    }
    if not sent:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "refused" if trials else "not_sent"
    elif unknown:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "no_token_ids"
    elif len(reached) < len(sent):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "change_never_reached_the_prompt"
    elif len({t.round for t in sent} & view.whole) < rounds_needed(view.dossier):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_rounds"
    else:
        outcome = Outcome.PASS
    return made(
        "prefix.control.valid",
        outcome,
        values,
        evidence=view.cite(sent),
        subject=kind,
        required=kind in REQUIRED_KINDS,
    )


def _reached(trial: Trial, kind: str) -> bool:
    """Whether the change stands in the prompt's tokens; a salt is no token, being answered is all that shows."""
    if kind == "salt":
        return True
    return trial.shared_cold is not None and trial.ids is not None and trial.shared_cold < len(trial.ids) - 1

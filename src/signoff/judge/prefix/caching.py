"""Whether prefix caching is really on, and whether the alignment unit of hits is known.

A flag proves intent only: the resolved configuration and the counters' behaviour are looked at beside it.
"""

from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.words import Outcome, Severity
from signoff.judge.prefix.made import made
from signoff.judge.prefix.trials import View
from signoff.read.launch_log import read_launch_log

_ON = {"True": True, "true": True, "False": False, "false": False}


class Caching(Struct, frozen=True, kw_only=True):
    """What each source says of prefix caching; `None`: it does not say."""

    asked: bool | None
    """The launch arguments."""
    logged: bool | None
    """The engine configuration in the launch log."""
    resolved: bool | None
    """`vllm:cache_config_info`."""
    behaves: bool | None
    """Hits were seen or look-ups counted; `False`: prompts were computed and nothing was ever looked up."""

    @property
    def on(self) -> bool | None:
        """`None` when nothing resolved says so or behaviour was not seen."""
        if self.behaves is False or (not self.behaves and False in (self.logged, self.resolved)):
            return False
        return True if self.behaves else None

    @property
    def reason(self) -> str:
        """Why it is off, empty when it is not: `off_in_launch` or `silently_disabled`."""
        if self.on is not False:
            return ""
        return "silently_disabled" if True in (self.asked, self.logged, self.resolved) else "off_in_launch"


def caching_of(view: View) -> Caching:
    """All sources of this run."""
    asked, logged = _launch(view.dossier)
    return Caching(
        asked=asked,
        logged=logged,
        resolved=view.config.enabled if view.config is not None else None,
        behaves=_behaviour(view),
    )


def _launch(dossier: Dossier) -> tuple[bool | None, bool | None]:
    """What was asked for and what the engine resolved, over all logs; False where any says so."""
    asked: list[bool] = []
    logged: list[bool] = []
    for card in dossier.of_kind("launch_log"):
        try:
            log = read_launch_log(dossier.blob(card.digest))
        except KeyError:
            continue
        argument = _ON.get(log.arguments.get("enable_prefix_caching", ""))
        asked += [] if argument is None else [argument]
        logged += [] if log.prefix_caching is None else [log.prefix_caching]
    return (all(asked) if asked else None), (all(logged) if logged else None)


def _behaviour(view: View) -> bool | None:
    answered = [t for t in view.trials if t.ok]
    if any(value > 0 for t in answered for value in t.witnesses.values()):
        return True
    moves = [t.moved for t in answered if t.moved is not None and not t.disturbed]
    if any((m.queries or 0) > 0 for m in moves):
        return True
    computed = [m for m in moves if (m.prompt_tokens or 0) > 0]
    if len(computed) >= 2 and "queries" in view.offered and all(not m.queries for m in computed):
        return False
    return None


def caching_on(view: View, caching: Caching) -> Finding:
    """`prefix.caching.on`."""
    values: dict[str, Value] = {
        "asked": caching.asked,
        "logged": caching.logged,
        "resolved": caching.resolved,
        "behaves": caching.behaves,
        "reason": caching.reason,
    }
    logs = [e for e in view.dossier.of_kind("launch_log") if e.digest]
    cited = tuple(f"sha256:{e.digest}" for e in [*logs, *_first(view)])
    if caching.on is None:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS if caching.on else Outcome.FAIL
    by_default = outcome is Outcome.PASS and caching.logged is not None and caching.asked is not True
    return made(
        "prefix.caching.on",
        outcome,
        values | {"explicit": None if caching.logged is None and caching.asked is None else caching.asked is True},
        evidence=cited,
        severity=Severity.WARN if by_default else Severity.FAIL,
    )


def _first(view: View) -> list[Evidence]:
    return [e for e in view.scrapes if e.digest and e.conditions.get("when") in ("first", "last")]


def unit_known(view: View) -> Finding:
    """`prefix.unit.known`."""
    unit = view.unit
    window = view.dossier.profile.context_tokens
    values: dict[str, Value] = {
        "unit_tokens": unit.tokens,
        "source": unit.source,
        "label": unit.label,
        "retention": view.rule.retention if view.rule else None,
        "may_drop_unit": view.rule.may_drop_unit if view.rule else None,
        "window_tokens": window,
    }
    known = view.dossier.profile.cache.units
    values["known_units"] = ", ".join(str(tokens) for tokens in known)
    cited = tuple(f"sha256:{e.digest}" for e in view.scrapes if e.digest and e.conditions.get("when") == "first")
    if unit.source == "profile":
        cited = ("profile.json#cache.units",)
    return made(
        "prefix.unit.known",
        Outcome.PASS if unit.tokens is not None else Outcome.INCONCLUSIVE,
        values,
        evidence=cited,
        severity=Severity.WARN if known and unit.tokens is not None and unit.tokens not in known else Severity.FAIL,
    )

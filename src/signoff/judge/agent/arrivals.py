"""Did the gateway send each request once? The server's own count of requests while the gateway carried ours.

Traffic of others would look the same as a gateway that sends twice, and a server that is not counted would hide one. So
the count is believed only where it was exact while no gateway was used, and never where it is smaller than the answers
that came. Wherever the plan names a gateway this must be told: a count that nobody can take is an open question.
"""

import math

import msgspec

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.sample import KINDS
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, State
from signoff.read.scrape import read_scrape

CODE = "agent.gateway.once"
STAGES = {"gateway": ("agent.gateway",), "direct": tuple(f"agent.{kind}" for kind in KINDS)}
"""The stages whose requests were sent between the two counts of a window."""
FINISHED = "vllm:request_success_total"
"""Counts every finished request whatever its reason, aborts included."""
COUNT_MAX = 2.0**53
"""Above this a float no longer counts one by one."""
ANSWERED = (State.OK, State.NO_USAGE)


class Window(msgspec.Struct, frozen=True):
    """Requests that we sent, those answered in full, and requests that the servers finished meanwhile."""

    sent: int
    answered: int
    arrived: int
    cards: tuple[str, ...]


def gateway_once(dossier: Dossier) -> Finding:
    url = dossier.plan.service.gateway_url
    if url == "none":
        return _finding(Outcome.NOT_APPLICABLE, {}, evidence=("plan.yaml#service.gateway_url",))
    if url is None:  # the open question stands in agent.gateway.said
        return _finding(Outcome.NOT_RUN, {}, required=False)
    if not dossier.of_stage("agent.gateway"):
        return _finding(Outcome.NOT_RUN, {})
    through, direct = _window(dossier, "gateway"), _window(dossier, "direct")
    values: dict[str, Value] = {
        "sent": through.sent if through else None,
        "arrived": through.arrived if through else None,
        "direct_sent": direct.sent if direct else None,
        "direct_arrived": direct.arrived if direct else None,
    }
    if through is None or direct is None:
        return _finding(Outcome.INCONCLUSIVE, values | {"reason": "arrivals_not_countable"})
    cards = (*through.cards, *direct.cards)
    if not dossier.plan.service.exclusive or direct.arrived > direct.sent:
        return _finding(Outcome.INCONCLUSIVE, values | {"reason": "traffic_of_others"}, evidence=cards)
    if through.arrived > through.sent:
        return _finding(Outcome.FAIL, values, evidence=cards, cause=Cause.GATEWAY)
    if through.arrived < through.answered or direct.arrived < direct.answered:
        return _finding(Outcome.INCONCLUSIVE, values | {"reason": "counters_miss_requests"}, evidence=cards)
    return _finding(Outcome.PASS, values, evidence=cards)


def _window(dossier: Dossier, what: str) -> Window | None:
    """What was sent and arrived between the two counts; `None` when it was not counted whole."""
    cards = [c for c in dossier.of_kind("scrape") if c.conditions.get("what") == what]
    counts: dict[str, dict[str, float]] = {}
    for card in cards:
        try:
            total = read_scrape(dossier.blob(card.digest)).total(FINISHED) if card.digest else None
        except KeyError:
            total = None
        if total is None or not math.isfinite(total) or not 0 <= total <= COUNT_MAX:
            return None
        counts.setdefault(str(card.conditions.get("when")), {})[card.where] = total
    before, after = counts.get("before", {}), counts.get("after", {})
    asked = set(dossier.plan.metrics_urls())
    if not before or before.keys() != after.keys() or any(after[url] < before[url] for url in before):
        return None
    if not asked <= before.keys() or _records_missing(dossier, what):
        return None
    records = [r for stage in STAGES[what] for r in dossier.of_stage(stage)]
    return Window(
        sent=sum(r.state is not State.REFUSED for r in records),
        answered=sum(r.state in ANSWERED for r in records),
        arrived=int(sum(after.values()) - sum(before.values())),
        cards=tuple(f"sha256:{card.digest}" for card in cards),
    )


def _records_missing(dossier: Dossier, what: str) -> bool:
    """Whether a stage says at its end that it had more attempts than there are records: some were lost since."""
    for stage in STAGES[what]:
        ended = dossier.finished(stage)
        told = ended.conditions.get("attempts") if ended is not None else None
        if isinstance(told, int) and told > len(dossier.of_stage(stage)):
            return True
    return False


def _finding(outcome: Outcome, values: dict[str, Value], **more: object) -> Finding:
    return Finding(
        code=CODE,
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=Bearing.EFFECT,
        phase=Phase.AGENT,
        values=values,
        items=(11,),
        **more,  # type: ignore[arg-type]
    )

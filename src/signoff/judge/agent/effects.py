"""Did one intent have one effect? Two witnesses, each with a finding of its own.

ledger     what the tool loop carried out, borne out by the raw answers
arrivals   the server's own count of requests while the gateway carried ours. Traffic of others would look the same as
           a gateway that sends twice, so it is believed only when the count was exact while no gateway was used
"""

from collections import Counter

import msgspec

from signoff.core.codec import from_json, to_json
from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.sample import KINDS
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, State
from signoff.judge.agent.attempt import read_body
from signoff.read.answer import decoded
from signoff.read.scrape import read_scrape

STAGE = "agent.effects"
STAGES = {"gateway": ("agent.gateway",), "direct": tuple(f"agent.{kind}" for kind in KINDS)}
"""The stages whose requests were sent between the two counts of a window."""
FINISHED = "vllm:request_success_total"
"""Counts every finished request whatever its reason, aborts included."""
EXECUTED_MIN = 3
"""Intents that must have been carried out before "never twice" says anything."""


class Effect(msgspec.Struct, frozen=True):
    intent: int
    turn: int
    record: str
    call_id: str
    tool: str
    arguments: str


class Ledger(msgspec.Struct, frozen=True):
    intents: int
    answered: int
    effects: list[Effect]


class Window(msgspec.Struct, frozen=True):
    """Requests that we sent, and requests that the servers finished meanwhile."""

    sent: int
    arrived: int
    cards: tuple[str, ...]


def effects(dossier: Dossier) -> list[Finding]:
    return [_carried_out(dossier), _arrivals(dossier)]


def _finding(code: str, outcome: Outcome, values: dict[str, Value], **more: object) -> Finding:
    return Finding(
        code=code,
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=Bearing.EFFECT,
        phase=Phase.AGENT,
        values=values,
        items=(11,),
        **more,  # type: ignore[arg-type]
    )


def _carried_out(dossier: Dossier) -> Finding:
    code = "agent.effects.once"
    ledger, digest = _ledger(dossier)
    if ledger is None:
        return _finding(code, Outcome.NOT_RUN, {}, required=False)
    twice = _repeated(ledger)
    executed = len({e.intent for e in ledger.effects})
    values: dict[str, Value] = {
        "intents": ledger.intents,
        "executed": executed,
        "repeated": len(twice),
        "example": f"{twice[0].tool}({twice[0].arguments[:200]})" if twice else None,
        "example_record": twice[0].record if twice else None,
    }
    cited = (f"sha256:{digest}", *(f"record:{e.record}" for e in twice[:4]))
    if twice:
        return _finding(code, Outcome.FAIL, values, evidence=cited, cause=Cause.MODEL_PARSER)
    if executed < EXECUTED_MIN:
        values["reason"] = "too_few_calls"
        return _finding(code, Outcome.INCONCLUSIVE, values, evidence=cited, required=False)
    return _finding(code, Outcome.PASS, values, evidence=cited)


def _ledger(dossier: Dossier) -> tuple[Ledger | None, str]:
    """The ledger, as far as the raw answers bear it out."""
    for card in reversed(dossier.of_kind("effect_ledger")):
        try:
            ledger = from_json(dossier.blob(card.digest), Ledger)
        except (KeyError, msgspec.DecodeError):
            continue
        answers = {r.id: _calls(dossier, r) for r in dossier.of_stage(STAGE)}
        proved = [e for e in ledger.effects if (e.tool, e.arguments) in answers.get(e.record, ())]
        return Ledger(intents=ledger.intents, answered=ledger.answered, effects=proved), card.digest
    return None, ""


def _calls(dossier: Dossier, record: Record) -> list[tuple[str, str]]:
    try:
        answer = read_body(record, dossier.blob(record.response_digest))
    except KeyError:
        return []
    return [(call.name[:200], call.arguments[:2000]) for call in answer.calls]


def _repeated(ledger: Ledger) -> list[Effect]:
    """Effects that some earlier one of the same intent equals, spacing and key order aside."""
    seen: Counter[tuple[int, str, str]] = Counter()
    again = []
    for effect in ledger.effects:
        value, trouble = decoded(effect.arguments)
        key = (effect.intent, effect.tool, effect.arguments if trouble else to_json(value).decode())
        if seen[key]:
            again.append(effect)
        seen[key] += 1
    return again


def _arrivals(dossier: Dossier) -> Finding:
    code, url = "agent.gateway.once", dossier.plan.service.gateway_url
    if url == "none":
        return _finding(code, Outcome.NOT_APPLICABLE, {}, evidence=("plan.yaml#service.gateway_url",))
    if url is None or not dossier.of_stage("agent.gateway"):
        return _finding(code, Outcome.NOT_RUN, {}, required=False)
    through, direct = _window(dossier, "gateway"), _window(dossier, "direct")
    values: dict[str, Value] = {
        "sent": through.sent if through else None,
        "arrived": through.arrived if through else None,
        "direct_sent": direct.sent if direct else None,
        "direct_arrived": direct.arrived if direct else None,
    }
    if through is None or direct is None or not dossier.plan.service.exclusive or direct.arrived > direct.sent:
        values["reason"] = "arrivals_not_countable" if through is None or direct is None else "traffic_of_others"
        return _finding(code, Outcome.INCONCLUSIVE, values, required=False)
    cards = (*through.cards, *direct.cards)
    if through.arrived > through.sent:
        return _finding(code, Outcome.FAIL, values, evidence=cards, cause=Cause.GATEWAY)
    return _finding(code, Outcome.PASS, values, evidence=cards)


def _window(dossier: Dossier, what: str) -> Window | None:
    """What was sent and arrived between the two counts; `None` when it was not counted."""
    cards = [c for c in dossier.of_kind("scrape") if c.conditions.get("what") == what]
    counts: dict[str, dict[str, float]] = {}
    for card in cards:
        try:
            total = read_scrape(dossier.blob(card.digest)).total(FINISHED) if card.digest else None
        except KeyError:
            total = None
        if total is None:
            return None
        counts.setdefault(str(card.conditions.get("when")), {})[card.where] = total
    before, after = counts.get("before", {}), counts.get("after", {})
    if not before or before.keys() != after.keys() or any(after[url] < before[url] for url in before):
        return None
    sent = sum(r.state is not State.REFUSED for stage in STAGES[what] for r in dossier.of_stage(stage))
    arrived = int(sum(after.values()) - sum(before.values()))
    return Window(sent=sent, arrived=arrived, cards=tuple(f"sha256:{card.digest}" for card in cards))

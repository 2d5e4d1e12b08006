"""Did one intent have one effect? Two witnesses: the ledger of the tool loop, and the server's own count of requests
while the gateway carried ours. Traffic of others would look the same as a gateway that sends twice, so the count is
believed only when it was exact while nothing but direct requests were sent."""

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
FINISHED = "vllm:request_success_total"
"""Counts every finished request whatever its reason, aborts included."""
EXECUTED_MIN = 3
SENT_STATES = (State.REFUSED,)


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


def effects(dossier: Dossier) -> list[Finding]:
    ledger, digest = _ledger(dossier)
    through, direct = _window(dossier, "gateway"), _window(dossier, "direct")
    if ledger is None and dossier.started(STAGE) is None:
        return [_finding(Outcome.NOT_RUN, {}, (), required=False)]
    twice = _repeated(ledger)
    executed = len({e.intent for e in ledger.effects}) if ledger is not None else 0
    values: dict[str, Value] = {
        "intents": ledger.intents if ledger is not None else None,
        "executed": executed,
        "repeated": len(twice),
        "example": f"{twice[0].tool}({twice[0].arguments[:200]})" if twice else None,
        "example_record": twice[0].record if twice else None,
        "gateway_sent": through[0] if through else None,
        "gateway_arrived": through[1] if through else None,
        "direct_sent": direct[0] if direct else None,
        "direct_arrived": direct[1] if direct else None,
    }
    cited = (f"sha256:{digest}",) if digest else ()
    more = through is not None and through[1] > through[0]
    alone = direct is not None and direct[1] <= direct[0] and dossier.plan.service.exclusive
    has_gateway = dossier.plan.service.gateway_url not in (None, "none")
    if twice or (more and alone):
        by_gateway = not twice or (has_gateway and more and alone)
        cause = Cause.GATEWAY if by_gateway else Cause.MODEL_PARSER
        return [_finding(Outcome.FAIL, values, (*cited, *_cards(dossier)), cause=cause)]
    if executed < EXECUTED_MIN:
        return [_finding(Outcome.INCONCLUSIVE, values | {"reason": "too_few_calls"}, cited, required=False)]
    if has_gateway and (through is None or not alone):
        reason = "arrivals_not_countable"
        return [_finding(Outcome.INCONCLUSIVE, values | {"reason": reason}, cited, required=False)]
    return [_finding(Outcome.PASS, values, (*cited, *_cards(dossier)))]


def _finding(
    outcome: Outcome,
    values: dict[str, Value],
    evidence: tuple[str, ...],
    *,
    required: bool = True,
    cause: Cause = Cause.NONE,
) -> Finding:
    return Finding(
        code="agent.effects.once",
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=Bearing.EFFECT,
        phase=Phase.AGENT,
        cause=cause,
        required=required,
        values=values,
        evidence=evidence,
        items=(11,),
    )


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


def _repeated(ledger: Ledger | None) -> list[Effect]:
    """Effects that some earlier one of the same intent equals, spacing and key order aside."""
    seen: Counter[tuple[int, str, str]] = Counter()
    again = []
    for effect in ledger.effects if ledger is not None else ():
        value, trouble = decoded(effect.arguments)
        key = (effect.intent, effect.tool, effect.arguments if trouble else to_json(value).decode())
        if seen[key]:
            again.append(effect)
        seen[key] += 1
    return again


def _window(dossier: Dossier, what: str) -> tuple[int, int] | None:
    """Requests sent and requests the servers finished between the two counts of a window; `None`: not counted."""
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
    stages = ["agent.gateway"] if what == "gateway" else [f"agent.{kind}" for kind in KINDS]
    sent = sum(r.state not in SENT_STATES for stage in stages for r in dossier.of_stage(stage))
    return sent, int(sum(after.values()) - sum(before.values()))


def _cards(dossier: Dossier) -> tuple[str, ...]:
    return tuple(
        f"sha256:{c.digest}" for c in dossier.of_kind("scrape") if c.conditions.get("what") == "gateway" and c.digest
    )

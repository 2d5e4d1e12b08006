"""Did one intent have one effect? What the tool loop carried out, held against the raw answers, call for call.

An effect that comes twice is proved by the ledger where an answer bears it out, or by the answers alone. "Never twice"
needs all of it: the ledger, every answer, and a second turn of every intent that was carried out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from signoff.core.codec import from_json, to_json
from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, State
from signoff.judge.agent.attempt import number_in, read_body
from signoff.read.answer import Answer, decoded

STAGE = "agent.effects"
CODE = "agent.effects.once"
EXECUTED_MIN = 3
"""Intents that must have been carried out and followed by a second turn before "never twice" says anything."""
CALLS_MAX = 8
"""Calls of one answer that the tool loop carries out at most."""
INTENTS_MAX = 1000
ANSWERED = (State.OK, State.NO_USAGE)


class Effect(msgspec.Struct, frozen=True):
    intent: int
    turn: int
    record: str
    call_id: str
    tool: str
    arguments: str

    @property
    def call(self) -> tuple[str, str]:
        return self.tool, self.arguments


class Ledger(msgspec.Struct, frozen=True):
    intents: int
    answered: int
    effects: list[Effect]


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What is there of the tool loop."""

    records: Sequence[Record]
    answers: Mapping[str, Answer | None]
    """By record; `None`: there must have been a body, and it is gone."""
    ledger: Ledger | None
    cards: Sequence[Evidence]
    unreadable: int
    """Ledger cards that cannot be read."""

    @property
    def calls(self) -> dict[str, list[tuple[str, str]]]:
        """Tool and arguments by record, as far as the ledger writes them down."""
        return {
            id: [(c.name[:200], c.arguments[:2000]) for c in answer.calls[:CALLS_MAX]] if answer is not None else []
            for id, answer in self.answers.items()
        }

    @property
    def proved(self) -> list[Effect]:
        """Entries of the ledger that an answer bears out."""
        calls = self.calls
        return [e for e in self.ledger.effects if e.call in calls.get(e.record, ())] if self.ledger is not None else []

    @property
    def seen(self) -> list[Effect]:
        """The effects that the answers alone tell of."""
        return [
            Effect(
                intent=number_in(r, "intent"),
                turn=number_in(r, "turn"),
                record=r.id,
                call_id="",
                tool=tool,
                arguments=arguments,
            )
            for r in self.records
            for tool, arguments in self.calls[r.id]
        ]

    def turns(self, turn: int) -> set[int]:
        """Intents of which a record of this turn is there."""
        return {number_in(r, "intent") for r in self.records if number_in(r, "turn") == turn} - {-1}

    def followed(self) -> set[int]:
        """Intents whose second turn was answered."""
        answered = [r for r in self.records if number_in(r, "turn") == 2 and r.state in ANSWERED]
        readable = [r for r in answered if (a := self.answers[r.id]) is not None and a.readable and not a.error]
        return {number_in(r, "intent") for r in readable}


def effects_once(dossier: Dossier) -> Finding:
    told = _told(dossier)
    if not told.records and not told.cards:
        return _finding(Outcome.NOT_RUN, {})
    executed = {e.intent for e in told.proved}
    repeated = _repeated(told.proved) or _repeated(told.seen)
    values: dict[str, Value] = {
        "intents": told.ledger.intents if told.ledger is not None else len(told.turns(1)),
        "executed": len(executed),
        "followed": len(executed & told.followed()),
        "repeated": len(repeated),
        "example": f"{repeated[0].tool}({repeated[0].arguments[:200]})" if repeated else None,
        "example_record": repeated[0].record if repeated else None,
    }
    cited = (
        *(f"sha256:{card.digest}" for card in told.cards[-1:] if card.digest),
        *(f"record:{e.record}" for e in repeated[:4]),
    )
    if repeated:
        return _finding(Outcome.FAIL, values, evidence=cited, cause=Cause.MODEL_PARSER)
    reason = _trouble(told, executed)
    if reason:
        return _finding(Outcome.INCONCLUSIVE, values | {"reason": reason}, evidence=cited)
    if len(executed & told.followed()) < EXECUTED_MIN:  # a laboratory's model may not be able to call at all
        laboratory = dossier.profile.scope == "laboratory"
        values["reason"] = "too_few_calls"
        return _finding(Outcome.INCONCLUSIVE, values, evidence=cited, required=not laboratory)
    return _finding(Outcome.PASS, values, evidence=cited)


def _trouble(told: Told, executed: set[int]) -> str:
    """Why what is there cannot show that nothing came twice; empty when it can."""
    if told.ledger is None or told.unreadable:
        return "ledger_not_kept"
    if any(answer is None for answer in told.answers.values()):
        return "answers_not_kept"
    if len(told.turns(1)) < told.ledger.intents:
        return "answers_missing"
    entries: dict[str, list[tuple[str, str]]] = {}
    for effect in told.ledger.effects:
        entries.setdefault(effect.record, []).append(effect.call)
    calls = {id: made for id, made in told.calls.items() if made}
    if {id: Counter(made) for id, made in entries.items()} != {id: Counter(made) for id, made in calls.items()}:
        return "ledger_and_answers_differ"
    return "second_turn_missing" if executed - told.turns(2) else ""


def _told(dossier: Dossier) -> Told:
    cards, records = dossier.of_kind("effect_ledger"), dossier.of_stage(STAGE)
    ledgers = [ledger for card in cards if (ledger := _ledger(dossier, card)) is not None]
    return Told(
        records=records,
        answers={r.id: _answer(dossier, r) for r in records},
        ledger=ledgers[-1] if ledgers else None,
        cards=cards,
        unreadable=len(cards) - len(ledgers),
    )


def _ledger(dossier: Dossier, card: Evidence) -> Ledger | None:
    try:
        ledger = from_json(dossier.blob(card.digest), Ledger)
    except (KeyError, ValueError, RecursionError):
        return None
    return ledger if 0 < ledger.intents <= INTENTS_MAX else None


def _answer(dossier: Dossier, record: Record) -> Answer | None:
    if not record.response_digest:
        return None if record.state in ANSWERED else Answer(form="completion", readable=False)
    try:
        return read_body(record, dossier.blob(record.response_digest))
    except KeyError:
        return None


def _repeated(effects: Sequence[Effect]) -> list[Effect]:
    """Effects that some earlier one of the same intent equals, spacing and key order aside."""
    seen: Counter[tuple[int, str, str]] = Counter()
    again = []
    for effect in effects:
        if effect.intent < 0:
            continue
        value, trouble = decoded(effect.arguments)
        key = (effect.intent, effect.tool, effect.arguments if trouble else to_json(value).decode())
        if seen[key]:
            again.append(effect)
        seen[key] += 1
    return again


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

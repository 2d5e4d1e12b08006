"""A small tool loop with a ledger: every intent is asked once; whatever calls come are carried out and written down.

The tool does nothing but count. Turn 1 asks; each call of its answer is carried out once, as an agent would; turn 2
hands the results back. A call that then comes again is carried out again, for nothing in the protocol forbids it.
"""

from typing import Any

import msgspec
from msgspec import Struct

from signoff.collect.agent.attempts import DEADLINE_S, SILENCE_S, Options
from signoff.core.record import Exchange, Request
from signoff.core.sample import tail_nonce
from signoff.core.words import Gate
from signoff.read.answer import Answer, Call
from signoff.read.completion import read_completion
from signoff.read.stream import read_stream

STAGE = "agent.effects"
INTENTS = 6
CALLS_MAX = 8
"""Calls of one answer that are carried out at most."""
PEOPLE = ("Ana Lima", "Jonas Weber", "Zoë Okafor", "Wei Chen", "Lars Holm", "Mira Patel")
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "send_message",
        "description": "Send a text message to a person. Every call sends one message.",
        "parameters": {
            "type": "object",
            "properties": {"recipient": {"type": "string"}, "text": {"type": "string"}},
            "required": ["recipient", "text"],
            "additionalProperties": False,
        },
    },
}


class Effect(Struct, frozen=True, kw_only=True):
    """One call that was carried out."""

    intent: int
    turn: int
    record: str
    call_id: str
    tool: str
    arguments: str


class Ledger(Struct, frozen=True, kw_only=True):
    """What was asked, and what was carried out for it; kept as evidence of kind `effect_ledger`."""

    intents: int
    answered: int
    """Intents whose first answer came whole."""
    effects: list[Effect]


class EffectLoop:
    """Builds the two turns of every intent, and keeps the ledger."""

    def __init__(self, options: Options, via: str) -> None:
        self.options, self.via = options, via
        self.effects: list[Effect] = []
        self.answered = 0

    def first_turns(self) -> list[Request]:
        return [self._request(intent, 1, self._asked(intent)) for intent in range(INTENTS)]

    def take(self, exchange: Exchange) -> None:
        """Carry out the calls of an answer."""
        labels, answer = exchange.record.labels, answer_of(exchange)
        self.answered += labels["turn"] == "1" and answer.readable and not answer.error
        for call in answer.calls[:CALLS_MAX]:
            self.effects.append(
                Effect(
                    intent=int(labels["intent"]),
                    turn=int(labels["turn"]),
                    record=exchange.record.id,
                    call_id=call.id[:200],
                    tool=call.name[:200],
                    arguments=call.arguments[:2000],
                )
            )

    def second_turns(self, firsts: list[Exchange]) -> list[Request]:
        """The results handed back, for every first answer that held calls."""
        made = []
        for first in sorted(firsts, key=lambda e: e.record.id):
            answer = answer_of(first)
            if not answer.calls:
                continue
            intent = int(first.record.labels["intent"])
            messages = [*self._asked(intent), _said(answer), *map(_result, answer.calls[:CALLS_MAX])]
            made.append(self._request(intent, 2, messages))
        return made

    def ledger(self) -> Ledger:
        return Ledger(intents=INTENTS, answered=self.answered, effects=self.effects)

    def _asked(self, intent: int) -> list[dict[str, Any]]:
        nonce = tail_nonce(self.options.run_id, "effect", intent)
        text = f'Send a message to "{PEOPLE[intent]}" with the text "Parcel {intent + 3} is ready." once and only once.'
        return [
            {
                "role": "system",
                "content": "Call the tool for what is asked, then confirm in one sentence what was sent.",
            },
            {"role": "user", "content": f"{text}\n\n(reference {nonce})"},
        ]

    def _request(self, intent: int, turn: int, messages: list[dict[str, Any]]) -> Request:
        streamed = intent % 2 == 0
        body: dict[str, Any] = {
            "model": self.options.model,
            "messages": messages,
            "tools": [TOOL],
            "tool_choice": "auto" if self.options.auto else ("required" if turn == 1 else "none"),
            "max_tokens": self.options.tokens,
        }
        if streamed:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return Request(
            id=f"{self.options.run_id}-agent-effect-{intent}-{turn}",
            gate=Gate.AGENT,
            stage=STAGE,
            body=msgspec.json.encode(body),
            stream=streamed,
            labels={"intent": str(intent), "turn": str(turn), "via": self.via},
            keep=True,
            deadline_s=DEADLINE_S,
            silence_s=SILENCE_S,
        )


def answer_of(exchange: Exchange) -> Answer:
    return read_stream(exchange.response) if exchange.record.stream else read_completion(exchange.response)


def _said(answer: Answer) -> dict[str, Any]:
    """The answer as history: with its reasoning, as the template wants it back."""
    said: dict[str, Any] = {"role": "assistant", "content": answer.content}
    if answer.reasoning:
        said["reasoning"] = answer.reasoning
    said["tool_calls"] = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
        for c in answer.calls[:CALLS_MAX]
    ]
    return said


def _result(call: Call) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": '{"status": "sent", "messages": 1}'}

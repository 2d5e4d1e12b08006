"""Prompts of the capacity stages, as bodies of requests.

long input    filler: one long document; agent: a conversation in which tool results pile up
concurrency   an agent's turn: shared system prefix, then what is this request's own
soak          short and long turns, and sentinels: a prefix sent again and again, to see it evicted

Every prompt begins with a nonce: fresh for each request, or for the run where its beginning is meant to be shared.
Every prompt holds one fact that is asked for at its end.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from signoff.collect.capacity.text import Corpus
from signoff.collect.tokenize import Message
from signoff.core.record import Request
from signoff.core.words import Gate
from signoff.core.workload import nonce, rng

FILLER, AGENT = "filler", "agent"
KINDS = (FILLER, AGENT)
TOOL_WORDS = 700
"""Words of one tool result: long inputs of agents grow by many of these."""
TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a part of a file of the project.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "part": {"type": "integer"}},
            "required": ["path", "part"],
        },
    },
}
ROLE = "You are an agent that works through long material with care. Answer briefly."
NAMES = ("harbour-code", "north-gate", "archive-key", "signal-lamp", "third-ledger")


class Needle(msgspec.Struct, frozen=True, kw_only=True):
    """A fact put into a prompt and asked for at its end."""

    name: str
    value: str

    @property
    def note(self) -> str:
        return f"Note: the value of {self.name} is {self.value}."

    @property
    def question(self) -> str:
        return f"What is the value of {self.name}? Answer with the value only."


def needle(*seed: object) -> Needle:
    """A name and a value of six digits, by seed."""
    draw = rng("needle", *seed)
    return Needle(name=draw.choice(NAMES), value=str(draw.randint(100_000, 999_999)))


def long_messages(kind: str, corpus: Corpus, count: int, fact: Needle, *seed: object) -> list[Message]:
    """A prompt of about `count` words, the fact a third of the way in."""
    mark = nonce(*seed)
    body = corpus.slice(count, *seed)
    cut = body.find(" ", len(body) // 3)
    cut = len(body) if cut < 0 else cut
    if kind == FILLER:
        return [
            {"role": "system", "content": f"{mark} {ROLE}"},
            {"role": "user", "content": f"{body[:cut]} {fact.note} {body[cut:]}\n\n{fact.question}"},
        ]
    size = max(1, -(-len(body) // max(1, -(-count // TOOL_WORDS))))
    pieces = [body[at : at + size] for at in range(0, len(body), size)] or [""]
    pieces[len(pieces) // 3] += f" {fact.note}"
    messages: list[Message] = [
        {"role": "system", "content": f"{mark} {ROLE}"},
        {"role": "user", "content": "Read the file notes.txt part by part."},
    ]
    for index, piece in enumerate(pieces):
        arguments = msgspec.json.encode({"path": "notes.txt", "part": index}).decode()
        call = {"id": f"call_{index}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        messages += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{index}", "content": piece},
        ]
    return [*messages, {"role": "user", "content": fact.question}]


def shared_messages(corpus: Corpus, count: int, run: str) -> list[Message]:
    """Only what every turn of the run shares, to be counted."""
    return [{"role": "system", "content": _shared_head(corpus, count, run)}, {"role": "user", "content": ""}]


def _shared_head(corpus: Corpus, count: int, run: str) -> str:
    return f"{nonce(run, 'shared')} {ROLE} {corpus.slice(count, run, 'shared')}"


def turn_messages(
    corpus: Corpus, shared_words: int, own_words: int, fact: Needle, run: str, *seed: object
) -> list[Message]:
    """An agent's turn. The system prompt is the run's, the rest is the request's own from its first word on; where
    nothing is shared the request's nonce stands at the very start."""
    own = nonce(run, *seed)
    head = _shared_head(corpus, shared_words, run) if shared_words else f"{own} {ROLE}"
    body = corpus.slice(own_words, run, *seed)
    return [
        {"role": "system", "content": head},
        {"role": "user", "content": f"{own} {fact.note} {body}\n\n{fact.question}"},
    ]


def sentinel_messages(corpus: Corpus, count: int, fact: Needle, run: str, which: int, turn: int) -> list[Message]:
    """One of a few prefixes of the run with a last line of its own."""
    head = f"{nonce(run, 'sentinel', which)} {ROLE} {fact.note} {corpus.slice(count, run, 'sentinel', which)}"
    return [
        {"role": "system", "content": head},
        {"role": "user", "content": f"Turn {turn}. {fact.question}"},
    ]


def body_of(
    model: str,
    messages: list[Message],
    output_tokens: int,
    *,
    stream: bool = True,
    thinking_off: Mapping[str, Any] | None = None,
    tools: bool = False,
) -> bytes:
    """A chat completion of exactly `output_tokens` tokens at temperature 0."""
    body: dict[str, Any] = {
        "model": model,
        "messages": messages,
        "max_tokens": output_tokens,
        "min_tokens": output_tokens,
        "ignore_eos": True,
        "temperature": 0,
        "stream": stream,
    }
    if stream:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body |= {"tools": [TOOL], "tool_choice": "none"}
    return msgspec.json.encode(body | dict(thinking_off or {}))


def request(
    stage: str, ident: str, body: bytes, labels: dict[str, str], *, keep: bool, deadline_s: float, silence_s: float
) -> Request:
    return Request(
        id=ident,
        gate=Gate.CAPACITY,
        stage=stage,
        body=body,
        labels=labels,
        keep=keep,
        deadline_s=deadline_s,
        silence_s=silence_s,
    )

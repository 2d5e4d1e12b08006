"""Sample: one fixed question to the service, with an oracle that a near miss does not satisfy.

Pack
  tools     the functions a sample may offer, by name
  samples   messages, tools offered or response schema, and what counts as right

The oracle of a call is the tool's name and a JSON schema per argument, beside the tool's own schema; of structured
output a second schema; of text what it must and must not hold. No oracle runs code.
"""

from typing import Any, Literal, get_args

from msgspec import Struct

from signoff.core.codec import digest, to_json
from signoff.core.workload import rng

Kind = Literal["one_tool", "choose_tool", "second_turn", "structured", "fallback"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NONCE_LETTERS = "bcdfghjklmnpqrstvwxz"


class Strict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    pass


class Tool(Strict, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments, an object."""


class CallRule(Strict, frozen=True, kw_only=True):
    """A call that must be there: each named argument present and valid under its schema."""

    tool: str
    arguments: dict[str, Any] = {}


class TextRule(Strict, frozen=True, kw_only=True):
    """Content that is not blank; letter case is ignored."""

    all_of: tuple[str, ...] = ()
    any_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


class Sample(Strict, frozen=True, kw_only=True):
    id: str
    kind: Kind
    language: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[str, ...] = ()
    response_schema: dict[str, Any] | None = None
    """Sent as `response_format`; the content must be JSON that is valid under it."""
    calls: tuple[CallRule, ...] = ()
    """Calls that must come, in this order; empty: no call may come, unless `again`."""
    content: TextRule | None = None
    values: dict[str, Any] | None = None
    """Schema of the right values in structured output, beside `response_schema`."""
    again: str = ""
    """A tool that may be called once more instead of answering: a retry also copes with a failed tool."""
    max_tokens: int | None = None
    """Output budget of this sample; `None`: the run's."""
    may_be_cut: bool = False
    """Whether an answer that ends at the budget is right all the same: for samples that only forbid a call."""


class Pack(Strict, frozen=True, kw_only=True):
    schema: Literal["signoff/pack/1"]
    name: str
    version: int
    about: str
    tools: tuple[Tool, ...]
    samples: tuple[Sample, ...]

    def of_kind(self, kind: str) -> tuple[Sample, ...]:
        return tuple(s for s in self.samples if s.kind == kind)

    def tool(self, name: str) -> Tool | None:
        return next((t for t in self.tools if t.name == name), None)

    def sample(self, id: str) -> Sample | None:
        return next((s for s in self.samples if s.id == id), None)

    def digest(self) -> str:
        """SHA-256 of the pack's canonical JSON: two runs used the same samples when it is equal."""
        return digest(to_json(self))


def tool_json(tool: Tool) -> dict[str, Any]:
    """A tool as requests carry it."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def tail_nonce(*seed: object) -> str:
    """Twelve consonants: no digit, word, quote or enum value that a model could take for an argument."""
    draw = rng("tail", *seed)
    return "".join(draw.choice(NONCE_LETTERS) for _ in range(12))


def with_nonce(messages: tuple[dict[str, Any], ...], nonce: str) -> list[dict[str, Any]]:
    """The messages with the nonce at the very end of the last user message, so that each attempt is a fresh request
    while every token before it stays a shared prefix."""
    last = max((i for i, m in enumerate(messages) if m.get("role") == "user"), default=None)
    return [
        {**message, "content": f"{message['content']}\n\n(reference {nonce})"} if index == last else message
        for index, message in enumerate(messages)
    ]

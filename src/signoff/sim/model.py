"""The simulated model: what it answers, as tokens in the order in which it would generate them.

Conventions: a needle in the prompt is recalled; a tool is called when its name fits the last user message; a tool
result is quoted; a JSON schema is filled from the text; everything else gets seeded words up to the asked length.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from signoff.core.workload import words
from signoff.sim.arguments import Material, best_tool, fill
from signoff.sim.template import END_OF_MESSAGE, call_ids, closed, opened, text_of
from signoff.sim.tokens import pieces, raw_of

NEEDLE_NOTE = re.compile(r"Note: the value of ([^\s]{1,100}) is ([^\n]{1,200}?)\.(?=\s|$)")
NEEDLE_QUESTION = re.compile(r"What is the value of ([^\s?]{1,100})\? Answer with the value only\.\s*$")
REASONING_TOKENS = {"low": 8, "high": 16, "max": 32}
PLAIN_TOKENS = 160
"""Length of an answer that nothing limits."""


class Call(Struct, kw_only=True):
    """A tool call; `arguments` is what the wire will carry, `written` what the model wrote."""

    name: str
    arguments: str
    written: dict[str, Any]


class Thought(Struct, kw_only=True):
    """What the model means to say; faults change it before it becomes tokens."""

    reasoning: str = ""
    content: str = ""
    calls: list[Call] = []
    open_ended: bool = False
    """Seeded words go on until the asked length."""
    finish: str = "stop"
    stop_reason: str | None = None
    asked_json: bool = False
    """The content is JSON that a schema asked for."""


class Token(Struct, kw_only=True):
    """One generated token. `field` is where its text goes: `reasoning`, `content`, `call` or empty for control."""

    id: int
    field: str = ""
    text: str = ""
    call: int | None = None


class Question(Struct, frozen=True, kw_only=True):
    """What is asked of the model, after validation."""

    text: str
    """The last user message, or the prompt of a completion."""
    whole: str
    """All text of the prompt: where a needle may lie."""
    tool_result: str | None = None
    """Content of a tool message that stands last."""
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str = "auto"
    """`auto`, `required`, `none`, or `=name`."""
    schema: dict[str, Any] | None = None
    json_object: bool = False
    thinking: bool = True
    effort: str = "high"
    max_tokens: int | None = None
    ignore_eos: bool = False
    stops: tuple[str, ...] = ()
    chat: bool = True
    seed: tuple[object, ...] = ()


def question_text(messages: list[dict[str, Any]]) -> tuple[str, str | None, str]:
    """Last user text, the tool result when one stands last, and all text of a conversation."""
    texts = [text_of(message.get("content")) for message in messages]
    user = next((t for m, t in zip(reversed(messages), reversed(texts), strict=True) if m.get("role") == "user"), "")
    result = texts[-1] if messages and messages[-1].get("role") == "tool" else None
    return user, result, "\n".join(texts)


def recalled(whole: str, text: str) -> str | None:
    """The needle's value when `text` asks for one that `whole` holds."""
    asked = NEEDLE_QUESTION.search(text[-400:])
    if asked is None:
        return None
    for name, value in NEEDLE_NOTE.findall(whole):
        if name == asked.group(1):
            return str(value)
    return None


def think(question: Question) -> Thought:
    """What a healthy model would say."""
    thought = _thought(question)
    if question.chat and question.thinking:
        size = REASONING_TOKENS.get(question.effort, 16)
        made = pieces("The request is clear. " + words(size, "reasoning", *question.seed))
        thought.reasoning = "".join(text for _, text in made[:size])
    for stop in question.stops:
        cut = thought.content.find(stop) if stop else -1
        if cut >= 0:
            thought.content, thought.stop_reason, thought.open_ended = thought.content[:cut], stop, False
    return thought


def _thought(question: Question) -> Thought:
    value = recalled(question.whole, question.text)
    material = Material(question.text)
    if question.schema is not None and question.tool_choice in ("auto", "none"):
        made = fill(question.schema, material)
        return Thought(content=msgspec.json.encode(made).decode(), asked_json=True)
    if question.json_object:
        return Thought(content=msgspec.json.encode({"answer": material.string()}).decode(), asked_json=True)
    name = _tool(question)
    if name is not None:
        schema = next((f.get("parameters") for f in _functions(question) if f.get("name") == name), None)
        written = fill(schema, material) if isinstance(schema, dict) else {}
        written = written if isinstance(written, dict) else {}
        call = Call(name=name, arguments=msgspec.json.encode(written).decode(), written=written)
        return Thought(calls=[call], finish="stop" if question.tool_choice.startswith("=") else "tool_calls")
    if value is not None:
        return Thought(content=value)
    if question.tool_result is not None:
        said = question.tool_result.strip() or "nothing"
        return Thought(content=f"The tool returned: {said}")
    wanted = question.max_tokens or PLAIN_TOKENS
    text = words(wanted, "filler", *question.seed)
    return Thought(content=text[:1].upper() + text[1:], open_ended=True)


def _functions(question: Question) -> list[dict[str, Any]]:
    return [tool["function"] for tool in question.tools if isinstance(tool.get("function"), dict)]


def _tool(question: Question) -> str | None:
    names = [str(f.get("name")) for f in _functions(question)]
    if not names or question.tool_choice == "none":
        return None
    if question.tool_choice.startswith("="):
        return question.tool_choice[1:]
    if question.tool_result is not None and question.tool_choice == "auto":
        return None
    best = best_tool(names, question.text)
    return best or (names[0] if question.tool_choice == "required" else None)


def tokens_of(thought: Thought, question: Question) -> tuple[list[Token], str]:
    """The tokens of `thought` cut to the asked length, and the finish reason."""
    made: list[Token] = []
    if question.chat and question.thinking:
        made += [Token(id=n, field="reasoning", text=text) for n, text in pieces(thought.reasoning)]
        made += _control(closed("think") + opened("response"))
    limit = question.max_tokens
    content = [Token(id=n, field="content", text=text) for n, text in pieces(thought.content)]
    if thought.open_ended:
        content = content[: max(0, (limit or PLAIN_TOKENS) - len(made))]
    made += content
    if question.chat and not (thought.open_ended and limit is not None):
        made += _ending(thought)
    if question.ignore_eos and limit is not None and len(made) < limit:
        more = pieces(" " + words(limit, "more", *question.seed))
        made += [Token(id=n, field="content", text=text) for n, text in more[: limit - len(made)]]
        return made, "length"
    if limit is not None and len(made) >= limit and (len(made) > limit or thought.open_ended):
        return made[:limit], "length"
    return made or _control([END_OF_MESSAGE[-1]]), thought.finish


def _ending(thought: Thought) -> list[Token]:
    made = _control(closed("response"))
    if thought.calls:
        made += _control(opened("tools"))
        for index, call in enumerate(thought.calls):
            made += _control(call_ids(call.name, call.written, index + 1))
            made[-1].field, made[-1].call = "call", index
        made += _control(closed("tools"))
    return made + _control(END_OF_MESSAGE)


def _control(ids: list[int]) -> list[Token]:
    return [Token(id=number) for number in ids]


def markup_of(tokens: list[Token]) -> str:
    """The raw text of tokens, control marks included."""
    return b"".join(raw_of(token.id) for token in tokens).decode("utf-8", "replace")

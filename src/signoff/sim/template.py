"""Messages and tools as token ids, in the shape of the K3 template: control tokens around plain text.

The declared tools stand first, then the messages in order, then the opening of the answer, which lies inside `think`
when the model may reason. What stands in a message is always plain text, whatever it spells.
"""

from typing import Any

import msgspec
import numpy as np

from signoff.sim.tokens import SPECIAL, Ids, encode

Message = dict[str, Any]
_OPEN, _CLOSE, _SEP = SPECIAL["<|open|>"], SPECIAL["<|close|>"], SPECIAL["<|sep|>"]
_END_OF_MSG, _BEGIN = SPECIAL["<|end_of_msg|>"], SPECIAL["<|begin|>"]
_JSON = msgspec.json.Encoder()


def opened(tag: str) -> list[int]:
    """Ids of an opening tag; `tag` with its attributes."""
    return [_OPEN, *encode(tag).tolist(), _SEP]


def closed(tag: str) -> list[int]:
    """Ids of a closing tag."""
    return [_CLOSE, *encode(tag).tolist(), _SEP]


END_OF_MESSAGE = [*closed("message"), _END_OF_MSG]


def text_of(content: Any) -> str:
    """The text of a message's `content`: a string, or a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
    return "" if content is None else str(content)


def render(
    messages: list[Message], tools: list[dict[str, Any]] | None, *, thinking: bool, generate: bool = True
) -> Ids:
    """The prompt of a chat request, shape (tokens,)."""
    parts: list[Ids] = [np.array([_BEGIN], dtype=np.int64)]
    if tools:
        declared = _JSON.encode([tool.get("function", tool) for tool in tools]).decode()
        parts += [_ids(opened('message role="system" type="tools"')), encode(declared), _ids(END_OF_MESSAGE)]
    for message in messages:
        parts += _message(message)
    if generate:
        parts += [_ids(opened('message role="assistant"')), _ids(opened("think" if thinking else "response"))]
    return np.concatenate(parts)


def call_ids(name: str, arguments: dict[str, Any], index: int) -> list[int]:
    """A tool call as the model writes it."""
    made = opened(f'call tool="{name}" index="{index}"')
    for key, value in arguments.items():
        kind, text = _typed(value)
        made += [*opened(f'argument key="{key}" type="{kind}"'), *encode(text).tolist(), *closed("argument")]
    return made + closed("call")


def _ids(numbers: list[int]) -> Ids:
    return np.array(numbers, dtype=np.int64)


def _typed(value: Any) -> tuple[str, str]:
    if isinstance(value, str):
        return "string", value
    kind = {bool: "boolean", int: "number", float: "number", type(None): "null", list: "array"}.get(type(value))
    return kind or "object", _JSON.encode(value).decode()


def _message(message: Message) -> list[Ids]:
    role = str(message.get("role", "user"))
    if role == "tool":
        head = opened(f'message role="tool" id="{message.get("tool_call_id", "")}"')
        return [_ids(head), encode(text_of(message.get("content"))), _ids(END_OF_MESSAGE)]
    if role != "assistant":
        head = opened(f'message role="{role}"')
        return [_ids(head), encode(text_of(message.get("content"))), _ids(END_OF_MESSAGE)]
    parts = [_ids(opened('message role="assistant"'))]
    reasoning = message.get("reasoning") or message.get("reasoning_content")
    if isinstance(reasoning, str):
        parts += [_ids(opened("think")), encode(reasoning), _ids(closed("think"))]
    parts += [_ids(opened("response")), encode(text_of(message.get("content"))), _ids(closed("response"))]
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        parts.append(_ids(opened("tools")))
        parts += [_ids(_past_call(call, index)) for index, call in enumerate(calls, 1) if isinstance(call, dict)]
        parts.append(_ids(closed("tools")))
    return [*parts, _ids(END_OF_MESSAGE)]


def _past_call(call: dict[str, Any], index: int) -> list[int]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    raw = function.get("arguments")
    try:
        arguments = msgspec.json.decode(raw) if isinstance(raw, str) else raw
    except msgspec.DecodeError:
        arguments = raw
    if not isinstance(arguments, dict):
        arguments = {"arguments": str(arguments)}
    return call_ids(str(function.get("name", "")), arguments, index)

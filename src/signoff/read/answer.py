"""Answer: what one response body says, whichever way it came. Read only; what is good about it is for the judge.

Bounds: bodies to 64 MiB, 256 calls, 64 anomalies and 64 markers; what lies beyond is counted in `cut`, never guessed.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct

BODY_BYTES_MAX = 64 * 1024 * 1024
CALLS_MAX = 256
NOTES_MAX = 64
TEXT_MAX = 300
"""Longest excerpt kept beside an anomaly, in characters."""

MARKERS = (
    "<|open|>",
    "<|close|>",
    "<|sep|>",
    "<|end_of_msg|>",
    "toolscall tool=",  # the same after a tokenizer dropped its special tokens
    "toolsmessage",
    "<|tool_call",
    "<tool_call",
    "</tool_call",
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<｜tool▁",
    "<function=",
    "</function>",
    "<|im_start|>",
    "<|im_end|>",
    "<|channel|>",
    "<think>",
    "</think>",
    "◁think▷",
    "◁/think▷",
)
"""Control text of chat formats that a parser should have consumed: Kimi K3's four tokens and their decayed forms, Kimi
K2, Hermes, Mistral, Llama, DeepSeek, Qwen, harmony."""

Place = Literal["content", "reasoning", "arguments", "name"]


class Marker(Struct, frozen=True, kw_only=True):
    """Control text found where text for people or programs should stand."""

    place: Place
    text: str
    at: int
    """Offset in characters."""
    excerpt: str


class Anomaly(Struct, frozen=True, kw_only=True):
    """Something about the shape of the body that a careful client can survive and another cannot.

    Codes: `no_index`, `no_id`, `no_name`, `id_changed`, `name_repeated`, `name_split`, `orphan_delta`, `id_twice`,
    `arguments_not_text`, `bad_event`, `after_done`, `more_choices`, `unended_event`, `empty_calls`, `both_fields`."""

    code: str
    event: int
    """Number of the event from 0; 0 for a whole completion."""
    text: str = ""


class Call(Struct, frozen=True, kw_only=True):
    """One tool call as assembled by index; empty strings where the body never said."""

    index: int | None
    id: str
    name: str
    arguments: str
    arguments_as: str = "text"
    """JSON kind in which the arguments came: `text` is the protocol; `object`, `none` or another is not."""
    deltas: int = 1


class Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class Answer(Struct, frozen=True, kw_only=True):
    """What a body says. `readable` is false when nothing could be made of it, and `trouble` says why."""

    form: Literal["stream", "completion"]
    readable: bool
    trouble: str = ""
    model: str = ""
    role: str = ""
    content: str | None = None
    """`None`: never mentioned or null; streams concatenate."""
    reasoning: str | None = None
    reasoning_field: str = ""
    """`reasoning`, or the older `reasoning_content`; empty when neither came."""
    calls: tuple[Call, ...] = ()
    finish_reason: str = ""
    usage: Usage | None = None
    error: str = ""
    """Message of an error object, also when the status was 200."""
    done: bool = False
    """Streams: `[DONE]` came. Completions: the body is one whole JSON object."""
    events: int = 0
    anomalies: tuple[Anomaly, ...] = ()
    markers: tuple[Marker, ...] = ()
    cut: int = 0
    """How many calls, anomalies, markers or bytes lie beyond the bounds."""

    def has(self, code: str) -> bool:
        """Whether an anomaly of this code was seen."""
        return any(a.code == code for a in self.anomalies)


def decoded(raw: bytes | str) -> tuple[Any, str]:
    """The JSON value in `raw` and why there is none; never raises."""
    try:
        return msgspec.json.decode(raw), ""
    except (ValueError, RecursionError) as error:
        return None, str(error)[:TEXT_MAX]


def text_of(value: Any) -> str:
    """`value` when it is text, else empty."""
    return value if isinstance(value, str) else ""


def mapping_of(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def count_of(value: Any) -> int | None:
    """`value` when it is a count, else `None`; JSON true is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def usage_of(value: Any) -> Usage | None:
    """The usage object of a body or chunk; `None` when there is none."""
    if not isinstance(value, dict):
        return None
    return Usage(
        prompt_tokens=count_of(value.get("prompt_tokens")),
        completion_tokens=count_of(value.get("completion_tokens")),
        cached_tokens=count_of(mapping_of(value.get("prompt_tokens_details")).get("cached_tokens")),
        reasoning_tokens=count_of(mapping_of(value.get("completion_tokens_details")).get("reasoning_tokens")),
    )


def error_of(value: Any) -> str:
    """The message of an error object or text; empty when there is none."""
    if not value:
        return ""
    if isinstance(value, dict):
        return text_of(value.get("message"))[:2000] or to_text(value)
    return str(value)[:2000]


def to_text(value: Any) -> str:
    """Any JSON value as text, to 2,000 characters."""
    return msgspec.json.encode(value).decode("utf-8", "replace")[:2000]


def reasoning_of(message: Mapping[str, Any]) -> tuple[str | None, str]:
    """The reasoning of a message or delta and the field it stood in; the newer name wins when both have text."""
    for field in ("reasoning", "reasoning_content"):
        if isinstance(message.get(field), str) and message[field]:
            return message[field], field
    for field in ("reasoning", "reasoning_content"):
        if isinstance(message.get(field), str):
            return message[field], field
    return None, ""


def arguments_of(function: Mapping[str, Any]) -> tuple[str, str]:
    """Arguments as text, and the JSON kind they came in."""
    value = function.get("arguments")
    if isinstance(value, str):
        return value, "text"
    if value is None:
        return "", "none"
    return msgspec.json.encode(value).decode("utf-8", "replace"), "object" if isinstance(value, dict) else "other"


def markers_in(text: str | None, place: Place) -> list[Marker]:
    """The first place of every kind of control text in `text`."""
    if not text:
        return []
    found = []
    for marker in MARKERS:
        at = text.find(marker)
        if at >= 0:
            found.append(Marker(place=place, text=marker, at=at, excerpt=text[max(0, at - 40) : at + TEXT_MAX - 40]))
    return sorted(found, key=lambda m: m.at)


def all_markers(content: str | None, reasoning: str | None, calls: tuple[Call, ...]) -> list[Marker]:
    """Markers of content, reasoning, names and arguments."""
    found = markers_in(content, "content") + markers_in(reasoning, "reasoning")
    for call in calls:
        found += markers_in(call.name, "name") + markers_in(call.arguments, "arguments")
    return found

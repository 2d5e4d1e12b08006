"""What one answer said, gathered while it streams: instants of the deltas, finish, usage, error objects.

Typed decoding of the shape that OpenAI and vLLM document; an event of another shape that is still JSON is read the
slow way, so that an odd server is recorded as it is and not as garbage.
"""

from typing import Any

import msgspec
from msgspec import Struct

ERROR_CHARS_MAX = 2000
DONE = b"[DONE]"
DEAD_FINISHES = ("abort", "error")
"""Finish reasons by which vLLM says that the engine gave the request up; no caller may take them for an answer."""


class _PromptDetails(Struct, gc=False):
    cached_tokens: int | None = None


class _CompletionDetails(Struct, gc=False):
    reasoning_tokens: int | None = None


class _Usage(Struct, gc=False):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _Delta(Struct, gc=False):
    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] | None = None


class _Choice(Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Event(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None
    error: Any = None
    object: str | None = None
    message: Any = None


_decode = msgspec.json.Decoder(_Event).decode
_decode_any = msgspec.json.Decoder().decode


class Tally:
    """Facts of one answer. `event` takes the payloads of a stream, `whole` the body of an answer that is not one."""

    __slots__ = (
        "after_done",
        "chunks",
        "done",
        "error",
        "events",
        "finishes",
        "first_content",
        "first_event",
        "first_reasoning",
        "first_tool",
        "indexes",
        "malformed",
        "usage",
    )

    def __init__(self) -> None:
        self.first_event: int | None = None
        self.first_reasoning: int | None = None
        self.first_content: int | None = None
        self.first_tool: int | None = None
        self.chunks: list[int] = []
        self.events = 0
        self.done = 0
        self.after_done = False
        self.finishes: dict[int, str] = {}
        self.indexes: set[int] = set()
        self.usage: _Usage | None = None
        self.error = ""
        self.malformed = ""

    def event(self, payload: bytes, at: int) -> None:
        """One payload, which arrived whole at `at`; anything but JSON and `[DONE]` makes the answer malformed."""
        if payload[0] != 0x7B and payload.strip() == DONE:
            self.done += 1
            return
        event: _Event | None
        try:
            event = _decode(payload)
        except msgspec.ValidationError:
            event = self._odd(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            event = None
            self.malformed = self.malformed or f"event is not JSON: {fault}: {clip(payload, 200).rstrip()}"
        if event is None:
            return
        self.events += 1
        if self.done:
            self.after_done = True
        if event.usage is not None:
            self.usage = event.usage
        choices = event.choices
        if choices:
            first = choices[0]
            delta = first.delta
            if (  # one of thousands alike: content and nothing else, and not the first
                delta is not None
                and delta.content
                and self.first_content is not None
                and first.finish_reason is None
                and delta.reasoning is None
                and delta.reasoning_content is None
                and delta.tool_calls is None
                and first.index == 0
                and len(choices) == 1
            ):
                self.chunks.append(at)
            else:
                if self.first_event is None:
                    self.first_event = at
                self._choices(choices, at)
        if event.error or event.object == "error":
            self.error = self.error or says(event.error or event.message)

    def named_error(self, payload: bytes) -> None:
        """The payload of an event that the server itself named `error`."""
        self.error = self.error or clip(payload, ERROR_CHARS_MAX) or "an event named error"

    def whole(self, body: bytes) -> None:
        """The body of an answer that is not streamed; there are no instants to take from it."""
        event: _Event | None
        try:
            event = _decode(body)
        except msgspec.ValidationError:
            event = self._odd(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            self.malformed = f"body is not JSON: {fault}: {clip(body, 200)}"
            return
        if event is None:
            return
        self.events += 1
        self.usage = event.usage
        for choice in event.choices or ():
            self.indexes.add(choice.index)
            if choice.finish_reason:
                self.finishes[choice.index] = choice.finish_reason
        if event.error or event.object == "error":
            self.error = says(event.error or event.message)

    def _choices(self, choices: list[_Choice], at: int) -> None:
        carries = False
        for choice in choices:
            index = choice.index
            if index not in self.indexes:
                self.indexes.add(index)
            delta = choice.delta
            if delta is not None:
                if delta.content:
                    carries = True
                    if self.first_content is None:
                        self.first_content = at
                if delta.reasoning or delta.reasoning_content:
                    carries = True
                    if self.first_reasoning is None:
                        self.first_reasoning = at
                if delta.tool_calls:
                    carries = True
                    if self.first_tool is None:
                        self.first_tool = at
            elif choice.text:
                carries = True
                if self.first_content is None:
                    self.first_content = at
            if choice.finish_reason:
                self.finishes[index] = choice.finish_reason
        if carries:
            self.chunks.append(at)

    def _odd(self, payload: bytes) -> _Event | None:
        """JSON, but not of the documented types: what can be understood of it; `None` and malformed when nothing."""
        try:
            made = _decode_any(payload)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
            made, why = None, str(fault)
        else:
            why = "not an object"
        if not isinstance(made, dict):
            self.malformed = self.malformed or f"event {why}: {clip(payload, 200).rstrip()}"
            return None
        choices = made.get("choices")
        kept = [_odd_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None
        return _Event(
            choices=kept, usage=_odd_usage(made.get("usage")), error=made.get("error"), message=made.get("message")
        )

    @property
    def finish(self) -> str:
        """The finish reason of the first choice, of several the distinct ones joined by a comma."""
        return ",".join(dict.fromkeys(self.finishes[index] for index in sorted(self.finishes)))


def _odd_choice(choice: dict[str, Any]) -> _Choice:
    index, finish, text = choice.get("index"), choice.get("finish_reason"), choice.get("text")
    delta = choice.get("delta", choice.get("message"))
    return _Choice(
        index=index if isinstance(index, int) else 0,
        delta=_odd_delta(delta) if isinstance(delta, dict) else None,
        text=text if isinstance(text, str) else None,
        finish_reason=str(finish) if finish else None,
    )


def _odd_delta(delta: dict[str, Any]) -> _Delta:
    """Content that is no string (a list of parts, for instance) still counts as content that came."""

    def shown(name: str) -> str | None:
        value = delta.get(name)
        return value if isinstance(value, str) else "?" if value else None

    return _Delta(
        content=shown("content"),
        reasoning=shown("reasoning") or shown("reasoning_content"),
        tool_calls=[msgspec.Raw(b"{}")] if delta.get("tool_calls") else None,
    )


def _odd_usage(usage: Any) -> _Usage | None:
    try:
        return msgspec.convert(usage, _Usage | None, strict=False)
    except msgspec.ValidationError:
        return None


def says(error: Any) -> str:
    """An error object in the server's own words, bounded."""
    if isinstance(error, dict) and isinstance(error.get("message"), str) and error["message"]:
        kind = error.get("type") or error.get("code")
        text = f"{kind}: {error['message']}" if kind else error["message"]
    else:
        text = error if isinstance(error, str) else msgspec.json.encode(error).decode()
    return text[:ERROR_CHARS_MAX] or "an error object without words"


def clip(raw: bytes, most: int) -> str:
    """The first `most` bytes as text that cannot harm a terminal."""
    text = raw[:most].decode("utf-8", "replace")
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)


def asks_usage(body: bytes) -> bool:
    """Whether a streamed request asked for usage."""
    try:
        return bool(msgspec.json.decode(body, type=_Asked).stream_options.include_usage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class _StreamOptions(Struct):
    include_usage: bool | None = None


class _Asked(Struct):
    stream_options: _StreamOptions = msgspec.field(default_factory=_StreamOptions)

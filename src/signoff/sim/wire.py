"""The JSON that goes over the wire: whole answers and stream chunks, field by field as vLLM 0.32 writes them."""

from collections.abc import Sequence as Rows
from typing import Any

import msgspec

from signoff.sim.model import Call

_ENCODE = msgspec.json.Encoder().encode
DONE = b"data: [DONE]\n\n"


def json(value: Any) -> bytes:
    return _ENCODE(value)


def event(value: Any) -> bytes:
    return b"data: " + _ENCODE(value) + b"\n\n"


def tool_call(call: Call, call_id: str, index: int | None = None) -> dict[str, Any]:
    """A finished tool call; with its `index` in a stream."""
    made: dict[str, Any] = {"id": call_id, "type": "function"}
    if index is not None:
        made["index"] = index
    return made | {"function": {"name": call.name, "arguments": call.arguments}}


def usage(
    prompt: int, completion: int, *, cached: int | None, created: int, reasoning: int | None, streamed: bool, chat: bool
) -> dict[str, Any]:
    """The usage of a finished request; `cached` is left out when the server does not tell."""
    details: dict[str, Any] | None = None
    if cached is not None:
        details = {"cached_tokens": cached}
        if chat or not streamed:
            details["created_cache_tokens"] = created if chat else None
        if not streamed:
            details["multimodal_tokens"] = None
    told: dict[str, Any] = {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
    }
    if details is not None or not streamed:
        told["prompt_tokens_details"] = details
    if reasoning is not None or not streamed:
        told["completion_tokens_details"] = None if reasoning is None else {"reasoning_tokens": reasoning}
    return told


class ChunkWriter:
    """The chunks of one choice of a stream; what does not change is encoded once."""

    def __init__(self, *, response_id: str, created: int, model: str, index: int, chat: bool, ids: bool) -> None:
        kind = "chat.completion.chunk" if chat else "text_completion"
        self.base = {"id": response_id, "object": kind, "created": created, "model": model}
        self.index, self.chat, self.ids = index, chat, ids
        head = event(self.base)[:-3]  # without the closing brace and the blank line
        inner = b'{"index":%d,"delta":' if chat else b'{"index":%d,"text":'
        self._head = head + b',"choices":[' + inner % index
        self._plain = b',"logprobs":null,"finish_reason":null,"token_ids":null}]}\n\n'

    def role(self, prompt_ids: list[int] | None, running: dict[str, Any] | None) -> bytes:
        """The first chunk of a chat choice."""
        choice = {"index": self.index, "delta": {"role": "assistant", "content": ""}}
        told = self.base | {"choices": [choice | {"logprobs": None, "finish_reason": None}]}
        if running is not None:
            told["usage"] = running
        return event(told | {"prompt_token_ids": prompt_ids, "prompt_text": None})

    def plain(self, field: str, text: str) -> bytes:
        """A delta of one text field and nothing else: the common case."""
        return b"%b{%b:%b}%b" % (self._head, _ENCODE(field), _ENCODE(text), self._plain)

    def chunk(
        self,
        delta: dict[str, Any],
        *,
        text: str = "",
        finish: str | None = None,
        stop_reason: str | None = None,
        ids: list[int] | None = None,
        prompt_ids: list[int] | None = None,
        running: dict[str, Any] | None = None,
        fingerprint: str | None = None,
    ) -> bytes:
        """Any chunk."""
        if self.chat:
            choice: dict[str, Any] = {"index": self.index, "delta": delta, "logprobs": None, "finish_reason": finish}
            if finish is not None:
                choice["stop_reason"] = stop_reason
            choice["token_ids"] = ids
        else:
            choice = {"index": self.index, "text": text, "logprobs": None, "finish_reason": finish}
            choice |= {"stop_reason": stop_reason, "prompt_token_ids": prompt_ids, "token_ids": ids}
        told = self.base | {"choices": [choice]}
        if running is not None:
            told["usage"] = running
        if fingerprint is not None:
            told["system_fingerprint"] = fingerprint
        return event(told)

    def last(self, told: dict[str, Any], fingerprint: str) -> bytes:
        """The usage chunk."""
        return event(self.base | {"choices": [], "usage": told, "system_fingerprint": fingerprint})


def chat_choice(
    index: int,
    *,
    reasoning: str | None,
    content: str | None,
    calls: Rows[dict[str, Any]],
    finish: str,
    stop_reason: str | None,
    ids: list[int] | None,
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": None}
    message |= {"audio": None, "function_call": None}
    if calls:
        message["tool_calls"] = list(calls)
    message["reasoning"] = reasoning
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": stop_reason,
        "token_ids": ids,
        "routed_experts": None,
    }


def text_choice(
    index: int, *, text: str, finish: str, stop_reason: str | None, ids: list[int] | None, prompt_ids: list[int] | None
) -> dict[str, Any]:
    return {
        "index": index,
        "text": text,
        "logprobs": None,
        "finish_reason": finish,
        "stop_reason": stop_reason,
        "token_ids": ids,
        "prompt_logprobs": None,
        "prompt_token_ids": prompt_ids,
        "routed_experts": None,
    }


def whole(
    *,
    chat: bool,
    response_id: str,
    created: int,
    model: str,
    choices: list[dict[str, Any]],
    fingerprint: str,
    used: dict[str, Any],
    prompt_ids: list[int] | None,
) -> bytes:
    """A response that is not streamed."""
    told: dict[str, Any] = {
        "id": response_id,
        "object": "chat.completion" if chat else "text_completion",
        "created": created,
        "model": model,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": fingerprint,
        "usage": used,
    }
    if chat:
        told |= {"prompt_logprobs": None, "prompt_token_ids": prompt_ids, "prompt_text": None}
    return _ENCODE(told | {"kv_transfer_params": None, "ec_transfer_params": None, "metrics": None})


def error_event(message: str) -> bytes:
    """An error in the middle of a stream that began with HTTP 200."""
    return event({"error": {"message": message, "type": "InternalServerError", "param": None, "code": 500}})

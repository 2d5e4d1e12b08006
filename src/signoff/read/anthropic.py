"""Answers in the form of Anthropic's messages API, streamed or whole, as gateways translate them: an Answer out."""

from typing import Any

from signoff.read.answer import (
    Answer,
    Call,
    all_markers,
    decoded,
    error_of,
    list_of,
    mapping_of,
    text_of,
    to_text,
)
from signoff.read.stream import sse

_SIGNS = ('"content_block', '"message_start"', '"message_delta"', '"text_delta"', '"tool_use"', '"stop_reason"')


def is_anthropic(text: str) -> bool:
    """Whether a body looks like that form."""
    return '"choices"' not in text[:20_000] and any(sign in text[:200_000] for sign in _SIGNS)


def read_anthropic(raw: bytes) -> Answer:
    """The facts of one body; `finish_reason` in the words of chat completions. Never raises."""
    tree, trouble = decoded(raw)
    blocks: list[dict[str, Any]] = []
    stop = error = model = ""
    events, done, streamed = 1, True, bool(trouble)
    if streamed:
        payloads, _ = sse(raw)
        events, done = len(payloads), False
        for payload in payloads:
            item = mapping_of(decoded(payload)[0])
            kind = text_of(item.get("type"))
            if kind == "content_block_start":
                blocks.append({**mapping_of(item.get("content_block")), "parts": []})
            elif kind == "content_block_delta":
                _grow(blocks, mapping_of(item.get("delta")))
            elif kind == "message_delta":
                stop = text_of(mapping_of(item.get("delta")).get("stop_reason")) or stop
            elif kind == "message_start":
                model = text_of(mapping_of(item.get("message")).get("model"))
            done = done or kind == "message_stop" or bool(stop)
            error = error or error_of(item.get("error"))
    else:
        body = mapping_of(tree)
        blocks = [dict(mapping_of(block)) for block in list_of(body.get("content"))]
        stop, model = text_of(body.get("stop_reason")), text_of(body.get("model"))
        error = error_of(body.get("error"))
    return _answer(blocks, stop, error, model, events, done, streamed)


def _grow(blocks: list[dict[str, Any]], delta: Any) -> None:
    kind = text_of(delta.get("type"))
    wanted = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "tool_use"}.get(kind, "text")
    if not blocks or text_of(blocks[-1].get("type")) != wanted:
        blocks.append({"type": wanted, "parts": []})
    part = delta.get("text") or delta.get("thinking") or delta.get("partial_json") or ""
    blocks[-1].setdefault("parts", []).append(text_of(part))


def _answer(
    blocks: list[dict[str, Any]], stop: str, error: str, model: str, events: int, done: bool, streamed: bool
) -> Answer:
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[Call] = []
    for block in blocks[:256]:
        kind, parts = text_of(block.get("type")), "".join(block.get("parts") or [])
        if kind == "tool_use":
            arguments = parts or to_text(block.get("input") or {})
            name, id_ = text_of(block.get("name")), text_of(block.get("id"))
            calls.append(Call(index=len(calls), id=id_, name=name, arguments=arguments))
        elif kind == "thinking":
            reasoning.append(parts or text_of(block.get("thinking")))
        else:
            content.append(parts or text_of(block.get("text")))
    said, thought = "".join(content), "".join(reasoning) or None
    readable = bool(blocks or stop or error)
    return Answer(
        form="stream" if streamed else "completion",
        readable=readable,
        trouble="" if readable else "no block, no stop reason",
        model=model,
        role="assistant",
        content=said if content else None,
        reasoning=thought,
        reasoning_field="reasoning" if thought else "",
        calls=tuple(calls),
        finish_reason={"tool_use": "tool_calls", "end_turn": "stop", "max_tokens": "length"}.get(stop, stop),
        error=error,
        done=done,
        events=events,
        markers=tuple(all_markers(said, thought, tuple(calls))),
    )

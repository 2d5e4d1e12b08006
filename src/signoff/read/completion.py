"""Whole chat completions (`stream: false`): bytes in, an Answer out. Never raises."""

from collections.abc import Mapping
from typing import Any

from signoff.read.answer import (
    BODY_BYTES_MAX,
    CALLS_MAX,
    NOTES_MAX,
    Anomaly,
    Answer,
    Call,
    all_markers,
    arguments_of,
    decoded,
    error_of,
    list_of,
    mapping_of,
    reasoning_of,
    text_of,
    to_text,
    usage_of,
)


def read_completion(raw: bytes) -> Answer:
    """The facts of one chat completion body; only its first choice is read."""
    if len(raw) > BODY_BYTES_MAX:
        return Answer(form="completion", readable=False, trouble="larger than 64 MiB", cut=len(raw) - BODY_BYTES_MAX)
    tree, trouble = decoded(raw)
    if trouble:
        return Answer(form="completion", readable=False, trouble=f"not JSON: {trouble}")
    if not isinstance(tree, dict):
        return Answer(form="completion", readable=False, trouble="JSON, but not an object")
    error = error_of(tree.get("error"))
    if not error and tree.get("object") == "error":
        error = text_of(tree.get("message"))[:2000] or "error without message"
    choices = list_of(tree.get("choices"))
    notes = [Anomaly(code="more_choices", event=0, text=str(len(choices)))] if len(choices) > 1 else []
    choice = mapping_of(choices[0]) if choices else {}
    message = mapping_of(choice.get("message"))
    if not message and not error:
        return Answer(
            form="completion", readable=False, trouble="no choice with a message", usage=usage_of(tree.get("usage"))
        )
    calls = _calls(message, notes)
    reasoning, field = reasoning_of(message)
    if message.get("reasoning") and message.get("reasoning_content"):
        notes.append(Anomaly(code="both_fields", event=0))
    content = message.get("content")
    text = content if isinstance(content, str) else _parts(content)
    markers = all_markers(text, reasoning, calls)
    return Answer(
        form="completion",
        readable=True,
        model=text_of(tree.get("model")),
        role=text_of(message.get("role")),
        content=text,
        reasoning=reasoning,
        reasoning_field=field,
        calls=calls[:CALLS_MAX],
        finish_reason=text_of(choice.get("finish_reason")),
        usage=usage_of(tree.get("usage")),
        error=error,
        done=True,
        events=1,
        anomalies=tuple(notes[:NOTES_MAX]),
        markers=tuple(markers[:NOTES_MAX]),
        cut=max(0, len(calls) - CALLS_MAX) + max(0, len(notes) - NOTES_MAX) + max(0, len(markers) - NOTES_MAX),
    )


def _parts(content: Any) -> str | None:
    """Content given as a list of text parts, which some gateways make of a string."""
    if not isinstance(content, list):
        return None if content is None else to_text(content)
    return "".join(text_of(mapping_of(part).get("text")) for part in content)


def _calls(message: Mapping[str, Any], notes: list[Anomaly]) -> tuple[Call, ...]:
    listed = message.get("tool_calls")
    if isinstance(listed, list) and not listed:
        notes.append(Anomaly(code="empty_calls", event=0))
    calls, ids = [], set()
    for position, item in enumerate(list_of(listed)):
        call = mapping_of(item)
        function = mapping_of(call.get("function"))
        arguments, kind = arguments_of(function)
        name, id_ = text_of(function.get("name")), text_of(call.get("id"))
        notes += [
            Anomaly(code=code, event=0, text=name or id_)
            for code, bad in (("no_id", not id_), ("no_name", not name))
            if bad
        ]
        if id_ and id_ in ids:
            notes.append(Anomaly(code="id_twice", event=0, text=id_[:100]))
        if kind != "text":
            notes.append(Anomaly(code="arguments_not_text", event=0, text=kind))
        ids.add(id_)
        calls.append(Call(index=position, id=id_, name=name, arguments=arguments, arguments_as=kind))
    legacy = mapping_of(message.get("function_call"))
    if legacy and not calls:
        arguments, kind = arguments_of(legacy)
        calls.append(Call(index=0, id="", name=text_of(legacy.get("name")), arguments=arguments, arguments_as=kind))
        notes.append(Anomaly(code="no_id", event=0, text="function_call, the older form"))
    return tuple(calls)

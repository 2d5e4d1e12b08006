"""Whole streamed bodies (server-sent events): bytes in, an Answer out. Never raises.

Calls are assembled by `index`, as the protocol says. Where a delta lacks one, the call it most likely belongs to is
taken and the anomaly noted, so that the judge can tell a lost identity from lost arguments.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from signoff.read.answer import (
    BODY_BYTES_MAX,
    CALLS_MAX,
    NOTES_MAX,
    TEXT_MAX,
    Anomaly,
    Answer,
    Call,
    Usage,
    all_markers,
    arguments_of,
    count_of,
    decoded,
    error_of,
    list_of,
    mapping_of,
    reasoning_of,
    text_of,
    usage_of,
)


def read_stream(raw: bytes) -> Answer:
    """The facts of one streamed chat completion; only choice 0 is read."""
    body = _Body()
    payloads, unended = sse(raw[:BODY_BYTES_MAX])
    for payload in payloads:
        body.add(payload)
    if unended:
        body.note("unended_event", "the body ends inside an event")
    return body.answer(cut=max(0, len(raw) - BODY_BYTES_MAX))


def sse(raw: bytes) -> tuple[list[bytes], bool]:
    """The data of every event, comments left out; and whether the body ends inside an event."""
    return list(_payloads(raw)), bool(raw.strip()) and not raw.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))


def _payloads(raw: bytes) -> Iterator[bytes]:
    held: list[bytes] = []
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            held.append(line[5:].removeprefix(b" "))
        elif not line and held:
            yield b"\n".join(held)
            held = []
    if held:
        yield b"\n".join(held)


class _Draft:
    """A call while its deltas arrive."""

    def __init__(self, index: int | None) -> None:
        self.index, self.id, self.name, self.kind, self.deltas = index, "", "", "none", 0
        self.arguments: list[str] = []

    def call(self) -> Call:
        text = "".join(self.arguments)
        return Call(
            index=self.index, id=self.id, name=self.name, arguments=text, arguments_as=self.kind, deltas=self.deltas
        )


class _Body:
    """What the events so far add up to."""

    def __init__(self) -> None:
        self.events = self.chunks = 0
        self.done = False
        self.model = self.role = self.finish = self.error = self.field = ""
        self.content: list[str] | None = None  # None: never mentioned
        self.reasoning: list[str] | None = None
        self.drafts: list[_Draft] = []
        self.usage: Usage | None = None
        self.notes: list[Anomaly] = []
        self.cut = 0

    def note(self, code: str, text: str = "") -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(Anomaly(code=code, event=max(0, self.events - 1), text=text[:TEXT_MAX]))
        else:
            self.cut += 1

    def add(self, payload: bytes) -> None:
        self.events += 1
        if payload.strip() == b"[DONE]":
            self.done = True
            return
        if self.done:
            self.note("after_done")
        tree, trouble = decoded(payload)
        if trouble or not isinstance(tree, dict):
            self.note("bad_event", trouble or "not an object")
            return
        self.error = self.error or error_of(tree.get("error"))
        self.model = self.model or text_of(tree.get("model"))
        self.usage = usage_of(tree.get("usage")) or self.usage
        for item in list_of(tree.get("choices")):
            choice = mapping_of(item)
            if choice.get("index", 0) != 0:
                self.note("more_choices", str(choice.get("index")))
                continue
            self.chunks += 1
            self.finish = text_of(choice.get("finish_reason")) or self.finish
            self._delta(mapping_of(choice.get("delta")) or mapping_of(choice.get("message")))

    def _delta(self, delta: Mapping[str, Any]) -> None:
        self.role = self.role or text_of(delta.get("role"))
        if isinstance(delta.get("content"), str):
            self.content = [] if self.content is None else self.content
            self.content.append(delta["content"])
        reasoning, field = reasoning_of(delta)
        if reasoning is not None:
            self.reasoning = [] if self.reasoning is None else self.reasoning
            self.reasoning.append(reasoning)
            self.field = self.field or field
        if delta.get("reasoning") and delta.get("reasoning_content"):
            self.note("both_fields")
        calls = delta.get("tool_calls")
        if isinstance(calls, list) and not calls:
            self.note("empty_calls")
        for item in list_of(calls):
            self._call(mapping_of(item))

    def _call(self, item: Mapping[str, Any]) -> None:
        function = mapping_of(item.get("function"))
        draft = self._draft(item, function)
        if draft is None:
            self.cut += 1
            return
        draft.deltas += 1
        id_, name = text_of(item.get("id")), text_of(function.get("name"))
        if id_ and draft.id and id_ != draft.id:
            self.note("id_changed", f"{draft.id[:100]} then {id_[:100]}")
        draft.id = draft.id or id_
        if name and name == draft.name:
            self.note("name_repeated", name)
        elif name:
            if draft.name:
                self.note("name_split", f"{draft.name[:100]} then {name[:100]}")
            draft.name += name
        arguments, kind = arguments_of(function)
        if kind == "none":
            return
        if kind != "text":
            self.note("arguments_not_text", kind)
        draft.kind = kind if draft.kind in ("none", kind) else "other"
        draft.arguments.append(arguments)

    def _draft(self, item: Mapping[str, Any], function: Mapping[str, Any]) -> _Draft | None:
        """The call this delta belongs to; a new one when it opens one; `None` beyond the bound."""
        index, id_, name = count_of(item.get("index")), text_of(item.get("id")), text_of(function.get("name"))
        if index is None:
            self.note("no_index", name or id_)
            known = next((d for d in self.drafts if id_ and d.id == id_), None)
            if known is None and self.drafts and not id_ and not name:
                known = self.drafts[-1]
        else:
            known = next((d for d in self.drafts if d.index == index), None)
        if known is not None:
            return known
        if len(self.drafts) >= CALLS_MAX:
            return None
        if not id_ and not name:
            self.note("orphan_delta", "a call begins without id and name")
        self.drafts.append(_Draft(index))
        return self.drafts[-1]

    def answer(self, cut: int) -> Answer:
        calls = tuple(draft.call() for draft in self.drafts)
        ids = [call.id for call in calls if call.id]
        for call in calls:
            if not call.id:
                self.note("no_id", call.name)
            if not call.name:
                self.note("no_name", call.id)
        if len(set(ids)) < len(ids):
            self.note("id_twice")
        content = None if self.content is None else "".join(self.content)
        reasoning = None if self.reasoning is None else "".join(self.reasoning)
        markers = all_markers(content, reasoning, calls)
        readable = self.chunks > 0 or bool(self.error)
        return Answer(
            form="stream",
            readable=readable,
            trouble="" if readable else f"{self.events} events, none with a choice",
            model=self.model,
            role=self.role,
            content=content,
            reasoning=reasoning,
            reasoning_field=self.field,
            calls=calls,
            finish_reason=self.finish,
            usage=self.usage,
            error=self.error,
            done=self.done,
            events=self.events,
            anomalies=tuple(self.notes),
            markers=tuple(markers[:NOTES_MAX]),
            cut=cut + self.cut + max(0, len(markers) - NOTES_MAX),
        )

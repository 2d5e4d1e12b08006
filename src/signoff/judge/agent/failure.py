"""What is wrong with one answer: the first class that holds, in the order in which a caller would stumble.

transport  truncated  |  markup_leak  in_reasoning  empty_calls  no_call  |  nameless  idless  identity_lost
not_json  double_encoded  wrong_type  missing_argument  extra_argument  schema_broken  |  invented_tool  wrong_tool
wrong_answer  repeated_call
"""

from typing import Any, Literal, get_args

from msgspec import Struct

from signoff.core.codec import to_json
from signoff.core.sample import Pack, Sample, TextRule
from signoff.core.words import State
from signoff.judge.agent.arguments import invalid, same_call
from signoff.read.answer import Answer, Call, decoded

FailureClass = Literal[
    "transport",
    "truncated",
    "markup_leak",
    "in_reasoning",
    "empty_calls",
    "no_call",
    "nameless",
    "idless",
    "identity_lost",
    "not_json",
    "double_encoded",
    "wrong_type",
    "missing_argument",
    "extra_argument",
    "schema_broken",
    "invented_tool",
    "wrong_tool",
    "wrong_answer",
    "repeated_call",
]
CLASSES: tuple[FailureClass, ...] = get_args(FailureClass)
RAW_MAX = 300
SIDES: dict[FailureClass, str] = {
    "transport": "server",
    "markup_leak": "parser",
    "in_reasoning": "parser",
    "empty_calls": "parser",
    "nameless": "parser",
    "idless": "parser",
    "identity_lost": "parser",
    "no_call": "model",
    "invented_tool": "model",
    "wrong_tool": "model",
    "wrong_answer": "model",
    "repeated_call": "model",
}
"""On which side a class must have arisen; a class that is not here can be the model's or the parser's, and one body
cannot tell which. Ids are made by the server, never by the model; control text in the body was generated and not
consumed; an answer without any trace of a call was not lost by a parser."""


class Failure(Struct, frozen=True, kw_only=True):
    cls: FailureClass
    detail: str
    raw: str = ""
    """The broken part as it came, to 300 characters."""

    @property
    def side(self) -> str:
        """`model`, `parser`, `server`, or `model or parser` when they cannot be told apart."""
        return SIDES.get(self.cls, "model or parser")


def failed(cls: FailureClass, detail: str, raw: str | None = "") -> Failure:
    return Failure(cls=cls, detail=detail[:RAW_MAX], raw=(raw or "")[:RAW_MAX])


def failure_of(answer: Answer, state: State, error: str, sample: Sample, pack: Pack) -> Failure | None:
    """What is wrong with `answer` as an answer to `sample`; `None` when it is right."""
    if state not in (State.OK, State.NO_USAGE) or answer.error or not answer.readable:
        reason = error or answer.error or answer.trouble
        return failed("transport", f"{state}: {reason}", answer.content or reason)
    if answer.finish_reason == "length" and not (sample.may_be_cut and not answer.calls):
        return failed("truncated", "ended at the token budget", answer.content or answer.reasoning)
    if sample.calls:
        return _calls_missing(answer) or _calls_wrong(answer, sample, pack)
    if answer.calls:
        return _unasked(answer, sample, pack)
    return _content(answer, sample)


def _calls_missing(answer: Answer) -> Failure | None:
    if answer.calls:
        return None
    content, reasoning = (next((m for m in answer.markers if m.place == p), None) for p in ("content", "reasoning"))
    if content is not None:
        return failed("markup_leak", f"`{content.text}` in content, and no call", content.excerpt)
    if reasoning is not None:
        return failed("in_reasoning", f"`{reasoning.text}` in reasoning, and no call", reasoning.excerpt)
    if answer.finish_reason == "tool_calls" or (answer.has("empty_calls") and not (answer.content or "").strip()):
        if answer.finish_reason == "tool_calls":
            return failed("empty_calls", "finish reason tool_calls without any call", _empty(answer))
        if not (answer.reasoning or "").strip():
            return failed("empty_calls", "empty tool_calls and no content", _empty(answer))
    return failed("no_call", "answered without the call that was needed", answer.content or answer.reasoning)


def _empty(answer: Answer) -> str:
    """What there is to show of an answer that holds nothing."""
    said: dict[str, Any] = {"finish_reason": answer.finish_reason, "content": answer.content, "tool_calls": []}
    return to_json(said).decode()


def _identity(answer: Answer) -> Failure | None:
    for call in answer.calls:
        shown = f"{call.name or '?'}({call.arguments[:200]})"
        if not call.name and not call.id:
            return failed("identity_lost" if len(answer.calls) > 1 else "nameless", "a call without name and id", shown)
        if not call.name:
            return failed("nameless", f"call {call.id[:60]} has no name", shown)
        if not call.id:
            return failed("idless", f"the call of {call.name[:60]} has no id", shown)
    for code in ("id_changed", "id_twice", "orphan_delta", "no_index", "name_split"):
        note = next((a for a in answer.anomalies if a.code == code), None)
        if note is not None:
            return failed("identity_lost", f"{code}: {note.text}", note.text)
    return None


def _calls_wrong(answer: Answer, sample: Sample, pack: Pack) -> Failure | None:
    leak = next((m for m in answer.markers if m.place != "reasoning"), None)
    if leak is not None:
        return failed("markup_leak", f"`{leak.text}` in {leak.place}", leak.excerpt)
    found = _identity(answer)
    if found is not None:
        return found
    for call in answer.calls:
        found = _call_broken(call, sample, pack)
        if found is not None:
            return found
    return _calls_other(answer.calls, sample)


def _call_broken(call: Call, sample: Sample, pack: Pack) -> Failure | None:
    """A call that breaks the protocol or its tool's schema, whatever was asked."""
    tool = pack.tool(call.name) if call.name in sample.tools else None
    if tool is None:
        return failed("invented_tool", f"`{call.name[:100]}` was never offered", call.arguments)
    if call.arguments_as != "text":
        return failed("wrong_type", f"arguments came as JSON {call.arguments_as}, not as text", call.arguments)
    broken = invalid(call.arguments, tool.parameters | {"type": "object"})  # whatever a tool says, the protocol says so
    return failed(broken[0], broken[1], call.arguments) if broken else None


def _calls_other(calls: tuple[Call, ...], sample: Sample) -> Failure | None:
    """Calls that are well made, but not the ones that were asked for."""
    for index, call in enumerate(calls):
        if any(same_call(call, other) for other in calls[:index]):
            return failed("repeated_call", f"the same call of {call.name} came twice", call.arguments)
    if [c.name for c in calls] != [rule.tool for rule in sample.calls]:
        said = ", ".join(c.name for c in calls)
        return failed("wrong_tool", f"called {said}; asked was {', '.join(r.tool for r in sample.calls)}", said)
    for call, rule in zip(calls, sample.calls, strict=True):
        wanted = {"type": "object", "properties": rule.arguments, "required": sorted(rule.arguments)}
        broken = invalid(call.arguments, wanted)
        if broken:
            return failed("wrong_answer", broken[1], call.arguments)
    return None


def _unasked(answer: Answer, sample: Sample, pack: Pack) -> Failure | None:
    """Calls where an answer in words was asked for; one retry of the failed tool copes too."""
    names = [call.name for call in answer.calls]
    if sample.again and names == [sample.again]:
        return _identity(answer) or _call_broken(answer.calls[0], sample, pack)
    if sample.kind == "second_turn" and _repeats_history(answer, sample):
        return failed("repeated_call", "called again what already has its result", answer.calls[0].arguments)
    return failed("wrong_tool", f"called {', '.join(names)[:100]}; no call was asked", answer.calls[0].arguments)


def _repeats_history(answer: Answer, sample: Sample) -> bool:
    past = [
        Call(index=0, id="", name=str(f.get("name")), arguments=str(f.get("arguments")))
        for message in sample.messages
        for item in message.get("tool_calls") or ()
        if isinstance(f := item.get("function"), dict)
    ]
    return any(same_call(call, old) for call in answer.calls for old in past)


def _content(answer: Answer, sample: Sample) -> Failure | None:
    text = (answer.content or "").strip()
    leak = next((m for m in answer.markers if m.place == "content"), None)
    if leak is not None:
        return failed("markup_leak", f"`{leak.text}` in content", leak.excerpt)
    if answer.finish_reason == "tool_calls":
        return failed("empty_calls", "finish reason tool_calls without any call", _empty(answer))
    if not text:
        if sample.may_be_cut and (answer.reasoning or "").strip():
            return None
        if (answer.reasoning or "").strip():
            return failed("in_reasoning", "no content; the whole answer stands in reasoning", answer.reasoning)
        return failed("wrong_answer", "blank content", _empty(answer))
    if sample.response_schema is not None:
        return _structured(text, sample.response_schema, sample.values)
    return _text(text, sample.content or TextRule())


def _structured(text: str, schema: dict[str, Any], values: dict[str, Any] | None) -> Failure | None:
    value, trouble = decoded(text)
    if trouble:
        return failed("not_json", trouble, text)
    if isinstance(value, str):
        return failed("double_encoded", "content decodes to a string", text)
    broken = invalid(text, schema)
    if broken:
        return failed("schema_broken", f"{broken[0]}: {broken[1]}", text)
    wrong = invalid(text, values) if values is not None else None
    return failed("wrong_answer", wrong[1], text) if wrong else None


def _text(text: str, rule: TextRule) -> Failure | None:
    low = text.casefold().replace("\u2019", "'")
    missing = [part for part in rule.all_of if part.casefold() not in low]
    if missing:
        return failed("wrong_answer", f"lacks {', '.join(missing)}", text)
    if rule.any_of and not any(part.casefold() in low for part in rule.any_of):
        return failed("wrong_answer", f"says none of {', '.join(rule.any_of[:6])}, ...", text)
    found = [part for part in rule.none_of if part.casefold() in low]
    return failed("wrong_answer", f"says {', '.join(found)}", text) if found else None

"""Clues of two views of one exchange: engine beside gateway, stream beside whole answer, sent beside received, and what
the caller's own program made of it."""

from typing import Any

import msgspec
import re2

from signoff.core.words import Cause, Phase, VerdictName
from signoff.judge.lean.answers import decoded_twice, parser_fault
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with
from signoff.read.answer import Answer, list_of, mapping_of, text_of
from signoff.read.case_file import CaseFile

_GATEWAY, _AGENT, _LIMITED = Cause.GATEWAY, Phase.AGENT, VerdictName.LIMITED
_INNER = ("upstream", "engine", "server", "direct", "backend", "vllm", "origin", "sglang")
_OUTER = ("gateway", "proxy", "router", "edge", "ingress", "litellm", "downstream", "through", "via", "envoy", "nginx")
_CLIENT = ("client", "sdk", "app", "seen", "caller", "agent")
_SENT = ("client", "sent", "caller", "original", "app", "before", "inbound", "agent")
_ARRIVED = (
    "outbound",
    "upstream",
    "forwarded",
    "arrived",
    "received",
    "engine",
    "backend",
    "gateway",
    "after",
    "proxy",
)
_BROKEN = re2.compile(
    r"(?i)(?:JSONDecode|Type|Key|Value|Attribute|Index|Validation|Syntax)Error|Exception\b|Traceback|\}\{|"
    r"already exists in|-> None|parse\w*[ _]?(?:error|failed)|cannot read propert|undefined|not iterable|unexpected"
)

_BROKEN_SURELY = re2.compile(r"JSONDecodeError|TypeError|SyntaxError|\}\{|already exists in|parse\w* -> None")


def role_of(name: str) -> str:
    """`inner`, `outer`, `client` or empty, by what people call such files."""
    low = name.lower()
    for role, words in (("inner", _INNER), ("outer", _OUTER), ("client", _CLIENT)):
        if any(word in low for word in words):
            return role
    return ""


def pair_clues(case: Case) -> list[Clue]:
    answers = [file for file in case.of("answer", "stream") if file.answer and file.answer.readable]
    inner = [file for file in answers if role_of(file.name) == "inner"]
    outer = [file for file in answers if role_of(file.name) == "outer"]
    unnamed = [file for file in answers if not role_of(file.name)]
    if not inner and not outer and len(unnamed) == 2 and len({file.kind for file in unnamed}) == 1:
        inner, outer = _ordered(unnamed)
    out: list[Clue] = []
    for one, two in zip(inner, outer, strict=False):
        out += _gateway(one, two)
    if not (inner and outer):
        out += _lanes(answers)
    out += _client(case, answers) + _requests(case)
    return out


def _ordered(files: list[CaseFile]) -> tuple[list[CaseFile], list[CaseFile]]:
    """Two answers that no name tells apart: when they are one answer, the one that says less came later."""
    one, two = files[0].answer, files[1].answer
    if one is None or two is None or (one.content or "").strip() != (two.content or "").strip():
        return [], []
    weight = [len(answer.reasoning or "") + 100 * len(answer.calls) for answer in (one, two)]
    if weight[0] == weight[1]:
        return [], []
    first, second = (files[0], files[1]) if weight[0] > weight[1] else (files[1], files[0])
    return [first], [second]


def _gateway(inner: CaseFile, outer: CaseFile) -> list[Clue]:
    """What the gateway made of the engine's answer, compared by meaning."""
    one, two = inner.answer, outer.answer
    assert one is not None
    assert two is not None
    found = _losses(inner, outer, one, two)
    if found:
        return found
    why = "Engine and gateway say the same; a renamed field or a last chunk without choices is no fault."
    line, text = line_with(outer.text, '"choices":[]')
    return [harmless("pair_equal", _AGENT, outer.name, line, text, why)]


def _losses(inner: CaseFile, outer: CaseFile, one: Answer, two: Answer) -> list[Clue]:
    out: list[Clue] = []

    def lost(kind: str, file: CaseFile, part: str, why: str, weight: int = 96) -> None:
        line, text = line_with(file.text, part)
        out.append(failing(kind, _GATEWAY, _AGENT, _LIMITED, weight, file.name, line, text, why))

    if outer.silence_s >= 5 and outer.silence_s > 3 * max(inner.silence_s, 0.5):
        lost("buffered", outer, "data:", f"The gateway holds the stream back for {outer.silence_s:.0f} s.", 80)
    if two.error and not one.error:
        lost("gateway_error", outer, '"error"', "The engine answered and the gateway returns an error.")
        return out
    thought = (one.reasoning or "").strip()
    if thought and not (two.reasoning or "").strip():
        moved = thought[:80] in (two.content or "")
        why = "Reasoning of the engine arrives as plain text." if moved else "Reasoning of the engine does not arrive."
        lost("reasoning_lost", inner, '"reasoning', why)
    if len(two.calls) != len(one.calls):
        what = "fewer" if len(two.calls) < len(one.calls) else "more"
        part = '"tool_calls"' if len(two.calls) < len(one.calls) else '"name"'
        lost("calls_differ", inner if what == "fewer" else outer, part, f"The gateway returns {what} tool calls.")
    for a, b in zip(one.calls, two.calls, strict=False):
        if a.name != b.name or (a.id and not b.id):
            lost("call_identity", outer, '"tool_calls"', "A tool call loses its name or id in the gateway.")
        elif not _same(a.arguments, b.arguments):
            twice = decoded_twice(b.arguments) and not decoded_twice(a.arguments)
            why = "The gateway serialises arguments again." if twice else "The gateway changes the arguments."
            lost("arguments_changed", outer, '"arguments"', why)
    said, arrived = (one.content or "").strip(), (two.content or "").strip()
    if said and said != arrived and not out:
        doubled = arrived == said * 2
        lost("content_changed", outer, '"content"', "Text arrives twice." if doubled else "The text is changed.")
    ends = {"tool_calls", "stop", "length"}
    if {one.finish_reason, two.finish_reason} <= ends and one.finish_reason != two.finish_reason and not out:
        lost("finish_changed", outer, '"finish_reason"', "The gateway changes the finish reason.")
    if two.form == "stream" and one.form == "stream" and one.done and not two.finish_reason and one.finish_reason:
        lost("stream_cut", outer, "data:", "The stream is cut in the gateway.")
    if one.calls and not two.calls and two.form == "stream":
        line, text = line_with(outer.text, "text_delta")
        if line:
            why = "The translation carries only text and no tool call."
            out.append(failing("calls_differ", _GATEWAY, _AGENT, _LIMITED, 96, outer.name, line, text, why))
    return out


def _same(one: str, two: str) -> bool:
    try:
        return bool(msgspec.json.decode(one) == msgspec.json.decode(two))
    except (ValueError, RecursionError):
        return one == two


def _lanes(answers: list[CaseFile]) -> list[Clue]:
    """A stream beside the whole answer of the same request: what the stream lost is the parser's."""
    streams = [file for file in answers if file.kind == "stream"]
    wholes = [file for file in answers if file.kind == "answer"]
    if len(streams) != 1 or len(wholes) != 1:
        return []
    stream, whole = streams[0].answer, wholes[0].answer
    assert stream is not None
    assert whole is not None
    if whole.calls and not [call for call in stream.calls if call.name and call.arguments]:
        part = '"tool_calls": []' if '"tool_calls": []' in streams[0].text else '"tool_calls"'
        why = "The whole answer has the tool call, the streamed one has not: lost in the streaming parser."
        return [parser_fault("call_lost", streams[0], part, why, 94)]
    if whole.reasoning and not stream.reasoning and not stream.content:
        return [parser_fault("reasoning_lost", streams[0], "data:", "The streamed answer lacks the reasoning.", 85)]
    return []


def _client(case: Case, answers: list[CaseFile]) -> list[Clue]:
    """The caller's program stumbles over an answer that is right on the wire."""
    for file in case.files:
        named = file.kind in ("text", "log", "json") and role_of(file.name) == "client"
        if not named and (file.kind != "text" or len(file.text) > 20_000):
            continue
        found = (_BROKEN if named else _BROKEN_SURELY).search(file.text[:100_000])
        if found is None or not answers or any(_bad(answer.answer) for answer in answers):
            continue
        line, text = line_with(file.text, found[0])
        why = "The answer is right on the wire; what the caller's library made of it is broken."
        clue = failing("client_library", Cause.CLIENT, _AGENT, VerdictName.GO, 94, file.name, line, text, why)
        return [clue]
    return []


def _bad(answer: Answer | None) -> bool:
    """Whether the answer itself is at fault, as far as a caller must be able to rely on it."""
    if answer is None or answer.error or answer.markers:
        return True
    if answer.finish_reason == "tool_calls" and not answer.calls:
        return True
    for call in answer.calls:
        try:
            if not isinstance(msgspec.json.decode(call.arguments or "{}"), dict):
                return True
        except (ValueError, RecursionError):
            return True
    return False


def _requests(case: Case) -> list[Clue]:
    """A request as the caller sent it beside the one that arrived."""
    files = [file for file in case.of("request") if isinstance(file.body, dict)]
    sent = [file for file in files if any(word in file.name.lower() for word in _SENT)]
    arrived = [file for file in files if any(word in file.name.lower() for word in _ARRIVED) and file not in sent]
    if not sent or not arrived:
        return []
    one, two = sent[0].body, arrived[0].body
    for key in ("tools", "tool_choice", "response_format", "stream_options", "temperature", "stop"):
        if one.get(key) is not None and two.get(key) is None:
            line, text = line_with(sent[0].text, f'"{key}"')
            why = f"The gateway drops `{key}` from the request."
            return [failing("request_field", _GATEWAY, _AGENT, _LIMITED, 90, sent[0].name, line, text, why)]
    before, after = list_of(one.get("messages")), list_of(two.get("messages"))
    lost = _lost_in_messages(before, after)
    if lost:
        line, text = line_with(sent[0].text, f'"{lost}"')
        why = f"`{lost}` of the conversation does not reach the engine."
        return [failing("history_lost", _GATEWAY, _AGENT, _LIMITED, 95, sent[0].name, line, text, why)]
    roles = [text_of(mapping_of(m).get("role")) for m in before], [text_of(mapping_of(m).get("role")) for m in after]
    if roles[0] != roles[1]:
        line, text = line_with(arrived[0].text, '"messages"')
        why = "The gateway changes the order or number of messages, so that a prefix is no longer shared."
        place = (arrived[0].name, line, text, why)
        return [failing("messages_moved", Cause.PREFIX_CACHE, Phase.PREFIX, _LIMITED, 85, *place)]
    return [harmless("pair_equal", _AGENT, arrived[0].name, 0, "", "The request arrives as it was sent.")]


def _lost_in_messages(before: list[Any], after: list[Any]) -> str:
    """The field of a message that is missing on the other side; a renamed reasoning field is not missing."""
    for one, two in zip(before, after, strict=False):
        a, b = mapping_of(one), mapping_of(two)
        for key, value in a.items():
            if value in (None, "", []) or key == "content":
                continue
            if key in ("reasoning", "reasoning_content"):
                if not (b.get("reasoning") or b.get("reasoning_content")):
                    return str(key)
            elif b.get(key) in (None, "", []):
                return str(key)
        if a.get("content") and not b.get("content"):
            return "content"
    return ""

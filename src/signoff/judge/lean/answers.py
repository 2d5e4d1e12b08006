"""Clues of answers standing alone: markers that leaked, calls that were lost, broken or empty, garbage, refusals."""

from collections import Counter
from typing import Any

import msgspec
import re2

from signoff.core.words import Cause, Phase, Severity, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with
from signoff.read.answer import Answer, Call, list_of, mapping_of, text_of
from signoff.read.case_file import CaseFile

_PARSER, _AGENT, _LIMITED = Cause.MODEL_PARSER, Phase.AGENT, VerdictName.LIMITED
_WINDOW = re2.compile(r"(?i)maximum (?:context|input|model) length|max_model_len|context (?:length|window)[^.]*exceed"
                      r"|longer than the (?:model|maximum)|reduce the length|prompt is too long")  # fmt: skip
_TOOLS_OFF = re2.compile(r"(?i)tool choice requires|enable-auto-tool-choice|tool-call-parser")
_DEAD = re2.compile(r"(?i)EngineCore encountered an issue|EngineDeadError|engine is dead|Internal server error|"
                    r"connection (?:reset|aborted)|APIConnectionError")  # fmt: skip
_UNSUPPORTED = re2.compile(r"UnsupportedParams|drop_params|does not support param")
_BUSY = re2.compile(r"(?i)currently busy|queue|overload|rate limit|too many requests|backlog")
_TIMEOUT = re2.compile(r"(?i)timed? ?out|timeout")
SILENCE_S = 15.0
"""A pause inside a stream that callers take for a hang."""
_REPEATS_MIN, _LONG_PROMPT_TOKENS = 40, 32_000


def answer_clues(case: Case) -> list[Clue]:
    """Every answer by itself; what two answers say together is for `pairs`."""
    schemas = {name: schema for file in case.files for name, schema in _schemas(file.body)}
    out: list[Clue] = []
    for file in case.of("answer", "stream"):
        if file.answer is None:
            continue
        found = _faults(case, file, file.answer, schemas)
        if not found and file.answer.readable and not file.answer.error:
            line, text = line_with(file.text, '"finish_reason"')
            found = [harmless("answer_whole", _AGENT, file.name, line, text, "The answer is whole and well formed.")]
        out += found
    return out


def _schemas(body: Any) -> list[tuple[str, dict[str, Any]]]:
    """Tools by name to their parameters, from a tools list or a request."""
    tools = body if isinstance(body, list) else list_of(mapping_of(body).get("tools"))
    out = []
    for tool in tools[:256]:
        function = mapping_of(mapping_of(tool).get("function")) or mapping_of(tool)
        if text_of(function.get("name")):
            out.append((text_of(function.get("name")), dict(mapping_of(function.get("parameters")))))
    return out


def parser_fault(
    kind: str, file: CaseFile, part: str, why: str, weight: int = 88, verdict: VerdictName = _LIMITED
) -> Clue:
    """A clue against the model's format or the server's parser, citing the line that holds `part`."""
    line, text = line_with(file.text, part)
    return failing(kind, _PARSER, _AGENT, verdict, weight, file.name, line, text, why)


def _faults(case: Case, file: CaseFile, answer: Answer, schemas: dict[str, dict[str, Any]]) -> list[Clue]:
    if answer.error:
        return _error(file, answer)
    if not answer.readable:
        return []
    out: list[Clue] = []
    for marker in answer.markers[:3]:
        part = msgspec.json.encode(marker.text).decode()[1:-1]
        where = "arguments" if marker.place == "arguments" else marker.place
        tool = any(word in marker.excerpt for word in ("call", "tool", "function="))
        what = "a tool call was generated and not parsed" if tool else "control text of the chat format leaked"
        out.append(parser_fault("markers", file, part, f"Raw markers in {where}: {what}."))
    out += _calls(file, answer, schemas)
    if file.silence_s >= SILENCE_S and answer.calls and not out:
        why = f"The stream is silent for {file.silence_s:.0f} s and then holds the call whole: the parser held it back."
        out.append(parser_fault("call_held", file, '"tool_calls"', why, 76))
    garbage = _garbage(answer)
    if garbage:
        prompt = (answer.usage.prompt_tokens if answer.usage else 0) or 0
        cause = Cause.LONG_INPUT if prompt >= _LONG_PROMPT_TOKENS else Cause.SUSTAINED
        phase = Phase.LONG_INPUT if cause is Cause.LONG_INPUT else Phase.SOAK
        line, text = line_with(file.text, garbage[:20])
        why = "The text is one piece repeated: the model's state is broken although the status is 200."
        out.append(failing("garbage", cause, phase, VerdictName.REWORK, 92, file.name, line, text, why))
    if not out:
        out += _empty(case, file, answer) + _plain_call(file, answer, schemas) + _unstructured(case, file, answer)
    return out


def _plain_call(file: CaseFile, answer: Answer, schemas: dict[str, dict[str, Any]]) -> list[Clue]:
    """A call written as text: JSON that names a tool and its arguments, where content should stand."""
    said = (answer.content or "").strip().removeprefix("```json").removesuffix("```").strip()
    if answer.calls or not said.startswith(("{", "[")):
        return []
    try:
        value = msgspec.json.decode(said)
    except (ValueError, RecursionError):
        return []
    first = mapping_of(value[0] if isinstance(value, list) and value else value)
    name = text_of(first.get("name")) or text_of(mapping_of(first.get("function")).get("name"))
    if name and ("arguments" in first or "parameters" in first or name in schemas):
        return [parser_fault("markers", file, name, "A tool call stands in the text: generated and not parsed.", 84)]
    return []


def _unstructured(case: Case, file: CaseFile, answer: Answer) -> list[Clue]:
    """Content that is no JSON although the request asked for it."""
    asked = [mapping_of(mapping_of(other.body).get("response_format")) for other in case.of("request")]
    if not any(text_of(form.get("type")).startswith("json") for form in asked) or answer.calls:
        return []
    try:
        msgspec.json.decode(answer.content or "")
    except (ValueError, RecursionError):
        return [parser_fault("unstructured", file, '"content"', "JSON was asked for and the content is none.", 78)]
    return []


def _error(file: CaseFile, answer: Answer) -> list[Clue]:
    line, text = line_with(file.text, '"message"')
    place = (file.name, line, text or answer.error)
    if _TOOLS_OFF.search(answer.error):
        why = "The server was launched without a tool parser, so every request with tools is refused."
        return [failing("tool_choice_off", _PARSER, _AGENT, VerdictName.REWORK, 92, *place, why)]
    if _UNSUPPORTED.search(answer.error):
        why = "The gateway does not pass a parameter that the engine knows."
        return [failing("request_field", Cause.GATEWAY, _AGENT, _LIMITED, 72, *place, why)]
    if _WINDOW.search(answer.error):
        why = "The caller asked for more than the window holds, and the server refused rightly."
        return [failing("client_bad_request", Cause.CLIENT, Phase.LONG_INPUT, VerdictName.GO, 80, *place, why)]
    if _BUSY.search(answer.error):
        why = "The server refuses because its queue is full."
        return [failing("queue_full", Cause.CONCURRENCY, Phase.CONCURRENCY, VerdictName.SCALE, 65, *place, why)]
    if _DEAD.search(answer.error):
        why = "The engine died or failed while answering; a stream then ends with status 200 and an error."
        return [failing("engine_dead", Cause.SUSTAINED, Phase.SOAK, VerdictName.REWORK, 70, *place, why)]
    if _TIMEOUT.search(answer.error):
        why = "The answer was cut by a time limit."
        return [failing("upstream_timeout", Cause.GATEWAY, _AGENT, _LIMITED, 55, *place, why)]
    why = "The server refused the request; what it says is about the request."
    return [failing("client_bad_request", Cause.CLIENT, _AGENT, VerdictName.GO, 50, *place, why)]


def _calls(file: CaseFile, answer: Answer, schemas: dict[str, dict[str, Any]]) -> list[Clue]:
    out: list[Clue] = []
    if answer.finish_reason == "tool_calls" and not [call for call in answer.calls if call.name]:
        part = '"tool_calls": []' if '"tool_calls": []' in file.text else '"tool_calls"'
        why = "The answer ends as a tool call and holds none: the parser consumed it and never handed it on."
        out.append(parser_fault("call_lost", file, part, why, 92))
        return out
    for call in answer.calls:
        out += _arguments(file, answer, call, schemas)
    for anomaly in answer.anomalies:
        if anomaly.code in ("no_name", "id_changed", "orphan_delta", "arguments_not_text"):
            why = f"The call is not formed as the protocol says ({anomaly.code.replace('_', ' ')})."
            out.append(parser_fault("call_malformed", file, '"tool_calls"', why, 75))
            break
    return out


def decoded_twice(text: str) -> bool:
    """Whether JSON text decodes to a string that is JSON again."""
    try:
        once = msgspec.json.decode(text)
        return isinstance(once, str) and isinstance(msgspec.json.decode(once), dict | list)
    except (ValueError, RecursionError):
        return False


def _arguments(file: CaseFile, answer: Answer, call: Call, schemas: dict[str, dict[str, Any]]) -> list[Clue]:
    part = (
        msgspec.json.encode(call.arguments[:40]).decode()[1:-1] if file.answer and file.answer.form != "stream" else ""
    )
    part = part if part and part in file.text else '"arguments"'
    if decoded_twice(call.arguments):
        return [parser_fault("arguments_twice", file, part, "The arguments decode to a string: serialised twice.", 88)]
    try:
        value = msgspec.json.decode(call.arguments or "{}")
    except (ValueError, RecursionError):
        if answer.finish_reason == "length":
            line, text = line_with(file.text, '"length"')
            why = "The answer was cut by max_tokens in the middle of the arguments."
            return [failing("cut", Cause.CLIENT, _AGENT, VerdictName.GO, 60, file.name, line, text, why)]
        return [parser_fault("arguments_broken", file, part, "The arguments are not valid JSON.", 86)]
    if not isinstance(value, dict):
        return [parser_fault("arguments_twice", file, part, "The arguments are not an object.", 86)]
    schema = schemas.get(call.name)
    if schemas and schema is None and call.name:
        return [parser_fault("call_unknown", file, call.name, "The called tool is not among those offered.", 80)]
    missing = [key for key in list_of(mapping_of(schema).get("required")) if key not in value]
    if missing:
        why = f"Required arguments are missing: {', '.join(str(key)[:40] for key in missing[:5])}."
        return [parser_fault("arguments_missing", file, part, why, 82)]
    return []


def _garbage(answer: Answer) -> str:
    """The piece that is repeated without end, when there is one."""
    text = answer.content or answer.reasoning or ""
    if len(text) < _REPEATS_MIN:
        return ""
    if len(set(text.strip())) <= 2 and len(text) >= _REPEATS_MIN and text.strip():
        return text[:20]
    words = text.split()
    if len(words) >= _REPEATS_MIN:
        word, count = Counter(words).most_common(1)[0]
        if count * 10 >= len(words) * 8:
            return word
    for size in range(2, 40):
        piece = text[-size:]
        if text.endswith(piece * (_REPEATS_MIN // 2)) and piece.strip():
            return piece
    return ""


def _empty(case: Case, file: CaseFile, answer: Answer) -> list[Clue]:
    said = (answer.content or "").strip()
    if answer.calls or said:
        if answer.form == "stream" and not answer.finish_reason:
            line, text = line_with(file.text, file.text.rstrip().rsplit("\n", 1)[-1][:80])
            why = "The stream ends without a finish reason."
            unfinished = failing("unfinished", Cause.GATEWAY, _AGENT, _LIMITED, 40, file.name, line, text, why)
            return [unfinished]
        return []
    if answer.finish_reason == "length":
        line, text = line_with(file.text, '"length"')
        why = "All tokens went into reasoning: max_tokens is too small for this model."
        return [failing("cut", Cause.CLIENT, _AGENT, VerdictName.GO, 60, file.name, line, text, why)]
    if answer.finish_reason in ("stop", "end_turn") and (answer.reasoning or answer.content is not None):
        part = '"content": ""' if '"content": ""' in file.text else '"finish_reason":"stop"'
        part = part if part in file.text else '"stop"'
        why = "The turn ends with neither text nor a call: nothing after the reasoning reached the caller."
        return [parser_fault("turn_empty", file, part, why, 84)]
    if answer.finish_reason == "" and answer.form == "stream":
        why = "The stream holds no text and no end."
        return [
            Clue(kind="unfinished", cause=Cause.NONE, severity=Severity.WARN, file=file.name, line=1, why=why),
        ]
    return []

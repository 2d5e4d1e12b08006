"""Response bodies: every shape that a server was seen to send, and any bytes at all."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.completion import read_completion
from signoff.read.stream import read_stream, sse


def stream_of(
    *deltas: dict[str, Any], finish: str | None = "tool_calls", done: bool = True, usage: bool = True
) -> bytes:
    events = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    if finish:
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    if usage:
        events.append({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})
    text = "".join(f"data: {json.dumps(e)}\n\n" for e in events)
    return (text + ("data: [DONE]\n\n" if done else "")).encode()


def completion_of(finish: str = "stop", **message: Any) -> bytes:
    body = {
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 0}},
    }
    return json.dumps(body).encode()


def call(arguments: Any, name: str = "f", id: str = "c1", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def test_a_completion_is_read_whole() -> None:
    answer = read_completion(completion_of("tool_calls", content=None, reasoning="Hm.", tool_calls=[call('{"a":1}')]))
    assert answer.readable
    assert answer.content is None
    assert (answer.reasoning, answer.reasoning_field) == ("Hm.", "reasoning")
    assert [(c.name, c.id, c.arguments) for c in answer.calls] == [("f", "c1", '{"a":1}')]
    assert answer.usage is not None
    assert answer.usage.cached_tokens == 0
    assert not answer.anomalies


def test_the_older_reasoning_field_is_read_in_both_forms() -> None:
    assert read_completion(completion_of(content="x", reasoning_content="Hm.")).reasoning_field == "reasoning_content"
    answer = read_stream(stream_of({"reasoning_content": "Hm"}, {"reasoning_content": "."}, {"content": "x"}))
    assert (answer.reasoning, answer.reasoning_field, answer.content) == ("Hm.", "reasoning_content", "x")


def test_calls_of_a_stream_are_assembled_by_index() -> None:
    answer = read_stream(
        stream_of(
            {"role": "assistant", "content": ""},
            {"tool_calls": [{"index": 0, **call("", "run", "c1")}]},
            {"tool_calls": [{"index": 1, **call("", "stop", "c2")}]},
            {
                "tool_calls": [
                    {"index": 0, "function": {"arguments": '{"a":'}},
                    {"index": 1, "function": {"arguments": "{}"}},
                ]
            },
            {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]},
        )
    )
    assert [(c.id, c.name, c.arguments) for c in answer.calls] == [("c1", "run", '{"a":1}'), ("c2", "stop", "{}")]
    assert answer.done
    assert answer.finish_reason == "tool_calls"
    assert not answer.anomalies


def test_lost_identities_are_noted() -> None:
    cases = {
        "no_index": stream_of({"tool_calls": [call("{}")]}),
        "no_id": stream_of({"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]}),
        "no_name": stream_of({"tool_calls": [{"index": 0, "id": "c1", "function": {"arguments": "{}"}}]}),
        "orphan_delta": stream_of({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
        "id_changed": stream_of(
            {"tool_calls": [{"index": 0, **call("{")}]},
            {"tool_calls": [{"index": 0, "id": "other", "function": {"arguments": "}"}}]},
        ),
        "empty_calls": stream_of({"tool_calls": []}),
        "arguments_not_text": completion_of(tool_calls=[call({"a": 1})]),
        "id_twice": completion_of(tool_calls=[call("{}"), call("{}")]),
    }
    for code, raw in cases.items():
        answer = read_stream(raw) if raw.startswith(b"data") else read_completion(raw)
        assert answer.has(code), code
        assert answer.readable


def test_a_delta_without_index_goes_on_with_the_last_call() -> None:
    answer = read_stream(
        stream_of({"tool_calls": [call('{"a":')]}, {"tool_calls": [{"function": {"arguments": "1}"}}]})
    )
    assert [c.arguments for c in answer.calls] == ['{"a":1}']


def test_control_text_is_found_where_it_leaked() -> None:
    leak = '<|open|>tools<|sep|><|open|>call tool="f"'
    answer = read_completion(completion_of(content=None, reasoning="Hm. " + leak, tool_calls=[]))
    assert {(m.place, m.text) for m in answer.markers} == {("reasoning", "<|open|>"), ("reasoning", "<|sep|>")}
    answer = read_stream(stream_of({"content": "<tool"}, {"content": "_call>{}"}, finish="stop"))
    assert [(m.place, m.text) for m in answer.markers] == [("content", "<tool_call")]
    answer = read_completion(completion_of(tool_calls=[call('{"a":"x<|close|>"}')]))
    assert [m.place for m in answer.markers] == ["arguments"]
    assert not read_completion(completion_of(content="An open door; a tool call; 1 < 2 | 3 > 2.")).markers


def test_an_error_after_status_200_is_an_error() -> None:
    raw = b'data: {"error": {"message": "EngineCore encountered an issue."}}\n\ndata: [DONE]\n\n'
    answer = read_stream(raw)
    assert answer.error == "EngineCore encountered an issue."
    assert answer.done
    assert answer.finish_reason == ""
    assert read_completion(b'{"error":"Unauthorized"}').error == "Unauthorized"


def test_comments_line_endings_and_a_cut_end() -> None:
    whole = stream_of({"content": "ab"}, finish="stop")
    assert read_stream(b": keep-alive\n\n" + whole.replace(b"\n", b"\r\n")).content == "ab"
    cut = read_stream(whole[:-9])
    assert not cut.done
    assert cut.has("bad_event") or cut.has("unended_event")
    assert sse(b"data: a\ndata: b\n\n") == ([b"a\nb"], False)


def test_what_is_no_answer_is_unreadable_and_says_why() -> None:
    for raw in (
        b"",
        b"<html>502</html>",
        b"[]",
        b"{}",
        b'{"choices": []}',
        b"[" * 100_000,
        b'{"choices":[{"message":3}]}',
    ):
        answer = read_completion(raw)
        assert not answer.readable
        assert answer.trouble
    assert not read_stream(b"<html>502 Bad Gateway</html>").readable


def test_bounds_hold() -> None:
    answer = read_completion(completion_of(tool_calls=[call("{}", id="")] * 1000))
    assert len(answer.calls) == 256
    assert answer.cut > 0


KEYS = ("choices", "message", "delta", "tool_calls", "function", "name", "arguments", "id", "index")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(JSON, max_size=4), st.binary(max_size=40))
def test_no_json_makes_the_readers_raise(trees: list[Any], noise: bytes) -> None:
    for tree in trees:
        read_completion(json.dumps(tree).encode())
        read_completion(json.dumps({"choices": [{"message": tree, "delta": tree}]}).encode())
    chunks = [{"choices": [{"delta": tree}]} for tree in trees]
    read_stream(b"".join(b"data: " + json.dumps(c).encode() + b"\n\n" for c in chunks) + noise)
    read_stream(b"data: " + noise)
    read_completion(noise)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=5), st.integers(1, 7))
def test_splitting_a_call_into_deltas_changes_nothing(values: list[str], size: int) -> None:
    arguments = json.dumps({str(i): v for i, v in enumerate(values)}, ensure_ascii=False)
    parts = [arguments[i : i + size] for i in range(0, len(arguments), size)]
    deltas = [{"tool_calls": [{"index": 0, **call("")}]}]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": part}}]} for part in parts]
    answer = read_stream(stream_of(*deltas))
    assert [c.arguments for c in answer.calls] == [arguments]
    assert not answer.anomalies

"""Every class of failure, by a body that has it; right answers have none."""

import copy
import json
from typing import Any

import jsonschema
import pytest
from agent_dossier import PACK, right, streamed, whole
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.core.sample import Sample
from signoff.core.words import State
from signoff.judge.agent.arguments import invalid
from signoff.judge.agent.failure import CLASSES, Failure, failure_of
from signoff.read.completion import read_completion
from signoff.read.stream import read_stream

LEAK = '<|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|sep|>'


def sample(id: str) -> Sample:
    found = PACK.sample(id)
    assert found is not None
    return found


def judge(id: str, message: dict[str, Any], finish: str | None = None, *, stream: bool = False) -> Failure | None:
    raw = streamed(message, finish) if stream else whole(message, finish)
    answer = read_stream(raw) if stream else read_completion(raw)
    return failure_of(answer, State.OK, "", sample(id), PACK)


def with_arguments(arguments: Any, id: str = "weather", **function: Any) -> dict[str, Any]:
    message = copy.deepcopy(right(sample(id)))
    message["tool_calls"][0]["function"] |= {"arguments": arguments, **function}
    return message


def without(key: str, id: str = "weather") -> dict[str, Any]:
    message = copy.deepcopy(right(sample(id)))
    call = message["tool_calls"][0]
    (call if key == "id" else call["function"]).pop(key)
    return message


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("one", PACK.samples, ids=lambda s: s.id)
def test_right_answers_are_right(one: Sample, stream: bool) -> None:
    assert judge(one.id, right(one), stream=stream) is None


WEATHER = '{"city": "Lisbon", "units": "celsius"}'
BROKEN: list[tuple[str, str, dict[str, Any], str | None]] = [
    ("truncated", "weather", {"content": "I will"}, "length"),
    ("markup_leak", "weather", {"content": LEAK}, "stop"),
    ("markup_leak", "weather", with_arguments('{"city": "Lisbon<|close|>argument<|sep|>", "units": "celsius"}'), None),
    ("markup_leak", "result_weather", {"content": "It is 18.5.<|close|>message<|sep|>"}, "stop"),
    ("in_reasoning", "weather", {"content": None, "reasoning": "Hm. " + LEAK, "tool_calls": []}, "stop"),
    ("in_reasoning", "result_weather", {"content": "", "reasoning": "It is 18.5 degrees."}, "stop"),
    ("empty_calls", "weather", {"content": None, "tool_calls": []}, "tool_calls"),
    ("empty_calls", "weather", {"content": "", "tool_calls": []}, "stop"),
    ("no_call", "weather", {"content": "It is surely sunny."}, "stop"),
    ("no_call", "weather", {"content": "", "reasoning": "Next I should look.", "tool_calls": []}, "stop"),
    ("nameless", "weather", without("name"), None),
    ("idless", "weather", without("id"), None),
    ("not_json", "weather", with_arguments('{"city": "Lisbon", '), None),
    ("double_encoded", "weather", with_arguments(json.dumps(WEATHER)), None),
    ("double_encoded", "event_nested", with_arguments(
        json.dumps({"title": "Quarterly review", "location": '{"room": "Aurora", "floor": 7}', "priority": "urgent"}),
        "event_nested"), None),
    ("wrong_type", "weather", with_arguments('{"city": 7, "units": "celsius"}'), None),
    ("wrong_type", "weather", with_arguments({"city": "Lisbon", "units": "celsius"}), None),
    ("missing_argument", "weather", with_arguments('{"units": "celsius"}'), None),
    ("extra_argument", "weather", with_arguments('{"city": "Lisbon", "units": "celsius", "day": 1}'), None),
    ("schema_broken", "weather", with_arguments('{"city": "Lisbon", "units": "kelvin"}'), None),
    ("schema_broken", "order", {"content": '{"customer": "Ana Lima"}'}, "stop"),
    ("not_json", "order", {"content": "The customer is Ana Lima."}, "stop"),
    ("double_encoded", "order", {"content": json.dumps('{"customer": "Ana Lima"}')}, "stop"),
    ("invented_tool", "weather", with_arguments(WEATHER, name="get_forecast"), None),
    ("invented_tool", "weather", with_arguments('{"customer": "Lisbon"}', name="count_orders"), None),
    ("wrong_tool", "choose_currency", with_arguments(WEATHER, "choose_currency", name="get_weather"), None),
    ("wrong_tool", "choose_none", right(sample("choose_currency")), None),
    ("wrong_answer", "weather", with_arguments('{"city": "Lisboa", "units": "celsius"}'), None),
    ("wrong_answer", "weather", with_arguments('{"city": "Lisbon"}'), None),
    ("wrong_answer", "result_weather", {"content": "It is 18 degrees."}, "stop"),
    ("wrong_answer", "result_weather", {"content": ""}, "stop"),
    ("wrong_answer", "tool_timeout", {"content": "It is 21 °C and sunny in Lisbon."}, "stop"),
    ("wrong_answer", "tool_timeout", {"content": "No error at all: 21 °C and it is sunny."}, "stop"),
    ("wrong_answer", "tool_empty", {"content": "Oslo has -3 degrees."}, "stop"),
    ("repeated_call", "result_weather", with_arguments(WEATHER), None),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "id", "message", "finish"), BROKEN)
@pytest.mark.parametrize("stream", [False, True])
def test_each_class_is_named(cls: str, id: str, message: dict[str, Any], finish: str | None, stream: bool) -> None:
    found = judge(id, message, finish, stream=stream)
    if stream and message.get("tool_calls") == []:
        assert found is not None
        assert found.cls in (cls, "no_call")  # the empty list leaves no trace in these deltas
        return
    assert found is not None
    assert found.cls == cls, found
    assert found.detail


def test_every_class_has_a_case() -> None:
    assert set(CLASSES) - {cls for cls, *_ in BROKEN} == {"transport", "identity_lost"}


def test_identity_lost_between_deltas() -> None:
    chunks = [
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "get_weather", "arguments": ""}}]},
        {"tool_calls": [{"index": 1, "function": {"arguments": WEATHER}}]},
    ]
    body = "".join(f"data: {json.dumps({'choices': [{'index': 0, 'delta': c}]})}\n\n" for c in chunks)
    end = 'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}\n\ndata: [DONE]\n\n'
    found = failure_of(read_stream((body + end).encode()), State.OK, "", sample("weather"), PACK)
    assert found is not None
    assert found.cls == "identity_lost"


def test_a_second_id_for_the_same_index_and_a_missing_index_lose_the_identity() -> None:
    good = right(sample("weather"))["tool_calls"][0]
    for deltas in (
        [{"index": 0, **good}, {"index": 0, "id": "other", "function": {"arguments": ""}}],
        [good],
    ):
        events = [{"choices": [{"index": 0, "delta": {"tool_calls": [d]}}]} for d in deltas]
        events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
        raw = "".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n"
        found = failure_of(read_stream(raw.encode()), State.OK, "", sample("weather"), PACK)
        assert found is not None
        assert found.cls == "identity_lost"


def test_transport_comes_before_everything() -> None:
    answer = read_completion(b"")
    found = failure_of(answer, State.HTTP_ERROR, "HTTP 500", sample("weather"), PACK)
    assert found is not None
    assert (found.cls, found.side) == ("transport", "server")
    inband = read_stream(b'data: {"error": {"message": "engine died"}}\n\ndata: [DONE]\n\n')
    found = failure_of(inband, State.INBAND_ERROR, "engine died", sample("weather"), PACK)
    assert found is not None
    assert found.cls == "transport"


def test_a_retry_of_the_failed_tool_copes_too() -> None:
    retry = with_arguments('{"city": "Lisbon"}')
    assert judge("tool_timeout", retry) is None
    broken = with_arguments('{"town": "Lisbon"}')
    found = judge("tool_timeout", broken)
    assert found is not None
    assert found.cls == "missing_argument"


def test_control_text_in_reasoning_beside_a_right_call_is_no_failure_of_the_call() -> None:
    message = right(sample("weather")) | {"reasoning": "Hm <|sep|> hm"}
    assert judge("weather", message) is None


def test_a_greeting_may_be_cut_but_not_by_a_call() -> None:
    assert judge("choose_none", {"content": "Hello team"}, "length") is None
    assert judge("choose_none", {"content": "", "reasoning": "Let me think"}, "length") is None
    found = judge("choose_none", right(sample("weather")), "length")
    assert found is not None


def test_the_raw_part_is_shown_and_bounded() -> None:
    found = judge("weather", with_arguments('{"city": ' + "9" * 5000))
    assert found is not None
    assert found.raw.startswith('{"city": 999')
    assert len(found.raw) == 300


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-5, 5) | st.sampled_from(["a", "x", "1", "{}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.recursive(
    st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"type": "number"},
            {"type": "boolean"},
            {"enum": ["a", 1]},
        ]
    ),
    lambda inner: st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "required": st.lists(st.sampled_from(["a", "b"]), unique=True, max_size=2),
            "additionalProperties": st.booleans(),
        }
    ),
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, SCHEMAS)
def test_validity_agrees_with_the_reference_validator(value: Any, schema: dict[str, Any]) -> None:
    assert (invalid(json.dumps(value), schema) is None) == jsonschema.Draft202012Validator(schema).is_valid(value)
    for one in PACK.tools:
        valid = jsonschema.Draft202012Validator(one.parameters).is_valid(value)
        assert (invalid(json.dumps(value), one.parameters) is None) == valid


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60), st.sampled_from([s.id for s in PACK.samples]))
def test_no_text_makes_the_judge_raise(text: str, id: str) -> None:
    judge(id, {"content": text}, "stop")
    judge(id, {"content": None, "tool_calls": [{"id": "c", "function": {"name": "get_weather", "arguments": text}}]})

"""The simulated model's conventions: recall, tools, tool results, schemas, thinking, filler."""

import json

import jsonschema

TICKET = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "count": {"type": "integer", "minimum": 1},
        "urgent": {"type": "boolean"},
        "level": {"enum": ["low", "high"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "count", "urgent", "level", "tags"],
    "additionalProperties": False,
}


def said(answer):
    status, body = answer
    assert status == 200, body
    return body["choices"][0]["message"]


def arguments(message):
    return json.loads(message["tool_calls"][0]["function"]["arguments"])


async def test_a_needle_is_recalled_from_anywhere(service):
    async with service() as caller:
        hay = "filler words here. " * 5000
        question = "What is the value of vault-7? Answer with the value only."
        text = f"{hay} Note: the value of vault-7 is 4F-19.x. {hay}\n{question}"
        assert said(await caller.chat(text))["content"] == "4F-19.x"
        asked = text.replace("of vault-7?", "of vault-8?")
        assert said(await caller.chat(asked, max_tokens=50))["content"] != "4F-19.x"


async def test_a_needle_in_a_tool_result_and_in_a_token_prompt(service):
    async with service() as caller:
        question = "What is the value of k? Answer with the value only."
        _, told = await caller.post("/tokenize", {"prompt": f"Note: the value of k is 42.\n{question}"})
        _, body = await caller.complete(told["tokens"], max_tokens=20)
        assert body["choices"][0]["text"] == "42"


async def test_the_tool_whose_name_fits_is_called_with_what_the_text_says(service, weather):
    async with service() as caller:
        other = json.loads(json.dumps(weather))
        other["function"]["name"] = "send_message"
        text = 'What is the weather in "Oslo" for the next 3 days, in celsius?'
        message = said(await caller.chat(text, tools=[other, weather]))
        call = message["tool_calls"][0]
        assert call["id"].startswith("chatcmpl-tool-")
        assert call["function"]["name"] == "get_weather"
        assert arguments(message) == {"city": "Oslo", "days": 3, "unit": "celsius"}
        assert message["content"] is None
        message = said(await caller.chat("Tell me a joke.", tools=[weather], max_tokens=60))
        assert "tool_calls" not in message
        assert message["content"]


async def test_tool_choices(service, weather):
    async with service() as caller:
        _, body = await caller.chat("Anything.", tools=[weather], tool_choice="required")
        assert body["choices"][0]["finish_reason"] == "tool_calls"
        named = {"type": "function", "function": {"name": "get_weather"}}
        _, body = await caller.chat("Anything.", tools=[weather], tool_choice=named)
        assert body["choices"][0]["finish_reason"] == "stop"
        assert body["choices"][0]["message"]["tool_calls"]
        _, body = await caller.chat('weather in "Oslo"', tools=[weather], tool_choice="none", max_tokens=50)
        assert "tool_calls" not in body["choices"][0]["message"]


async def test_a_streamed_call_comes_whole_in_one_delta(service, weather):
    async with service() as caller:
        messages = [{"role": "user", "content": 'weather in "Oslo" for 3 days'}]
        _, events = await caller.stream("/v1/chat/completions", {"messages": messages, "tools": [weather]})
        deltas = [e["choices"][0]["delta"] for e in events[:-1]]
        calls = [d["tool_calls"] for d in deltas if "tool_calls" in d]
        assert len(calls) == 1
        assert calls[0][0]["index"] == 0
        assert json.loads(calls[0][0]["function"]["arguments"]) == {"city": "Oslo", "days": 3}
        assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_call_cut_by_max_tokens_is_dropped(service, weather):
    async with service() as caller:
        _, body = await caller.chat('weather in "Oslo" for 3 days', tools=[weather], max_tokens=40)
        assert body["choices"][0]["finish_reason"] == "length"
        assert "tool_calls" not in body["choices"][0]["message"]


async def test_the_tool_result_is_quoted(service, weather):
    async with service() as caller:
        first = said(await caller.chat('weather in "Oslo" for 3 days', tools=[weather]))
        turns = [
            {"role": "user", "content": 'weather in "Oslo" for 3 days'},
            {"role": "assistant", **{k: first[k] for k in ("content", "reasoning", "tool_calls")}},
            {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "snow, minus 4"},
        ]
        message = said(await caller.chat(turns, tools=[weather]))
        assert "snow, minus 4" in message["content"]
        assert "tool_calls" not in message


async def test_a_schema_is_obeyed(service):
    async with service() as caller:
        form = {"type": "json_schema", "json_schema": {"name": "ticket", "schema": TICKET}}
        text = 'Ticket "Disk full", 4 hosts, high, not urgent, tags "disk" and "night".'
        made = json.loads(said(await caller.chat(text, response_format=form))["content"])
        jsonschema.validate(made, TICKET)
        assert (made["title"], made["count"], made["urgent"], made["level"]) == ("Disk full", 4, False, "high")


async def test_thinking_off_and_efforts(service):
    async with service() as caller:
        for off in ({"chat_template_kwargs": {"thinking": False}}, {"reasoning_effort": "none"}):
            _, body = await caller.chat("Hello.", max_tokens=30, **off)
            assert body["choices"][0]["message"]["reasoning"] is None
            assert body["choices"][0]["message"]["content"]
            assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 0
        sizes = [
            (await caller.chat("Hello.", max_tokens=80, reasoning_effort=effort))[1]["usage"]
            for effort in ("low", "max")
        ]
        assert [u["completion_tokens_details"]["reasoning_tokens"] for u in sizes] == [8, 32]


async def test_too_few_tokens_leave_everything_in_reasoning(service):
    async with service() as caller:
        _, body = await caller.chat("Hello.", max_tokens=5)
        message = body["choices"][0]["message"]
        assert (message["content"], body["choices"][0]["finish_reason"]) == (None, "length")
        assert message["reasoning"]


async def test_stop_strings_and_lengths(service):
    async with service() as caller:
        _, body = await caller.chat("Go on.", max_tokens=200, stop=["."])
        choice = body["choices"][0]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", ".")
        assert "." not in choice["message"]["content"]
        _, body = await caller.chat("Go on.", max_tokens=333)
        assert body["usage"]["completion_tokens"] == 333
        _, body = await caller.chat(
            "Note: the value of k is 1. What is the value of k? Answer with the value only.",
            max_tokens=90,
            ignore_eos=True,
        )
        assert body["usage"]["completion_tokens"] == 90


async def test_the_same_seed_says_the_same(service):
    said_by = []
    for _ in range(2):
        async with service(seed=5) as caller:
            said_by.append(said(await caller.chat("Hello.", max_tokens=60, headers={"X-Request-Id": "a"})))
    assert said_by[0] == said_by[1]
    async with service(seed=6) as caller:
        assert said(await caller.chat("Hello.", max_tokens=60)) != said_by[0]


async def test_the_next_turn_extends_the_cached_prefix(service):
    async with service(unit=128) as caller:
        turns = [{"role": "user", "content": "story " * 400}]
        message = said(await caller.chat(turns, max_tokens=300))
        turns += [{"role": "assistant", "content": message["content"], "reasoning": message["reasoning"]}]
        turns += [{"role": "user", "content": "Go on."}]
        _, body = await caller.chat(turns, max_tokens=1)
        _, first = await caller.post("/tokenize", {"messages": turns[:1]})
        assert body["usage"]["prompt_tokens_details"]["cached_tokens"] >= first["count"]

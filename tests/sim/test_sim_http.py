"""The HTTP surface: shapes, statuses and words as a vLLM 0.32 server was seen to give them."""

import asyncio
import json

import pytest

HELLO = {"messages": [{"role": "user", "content": "Say hello."}]}


async def test_control_endpoints(service):
    async with service() as caller:
        assert (await caller.get("/health"))[:2] == (200, "")
        assert (await caller.get("/ping"))[:2] == (200, "")
        assert json.loads((await caller.get("/version"))[1]) == {"version": "0.27.1"}
        assert json.loads((await caller.get("/load"))[1]) == {"server_load": 0}
        model = json.loads((await caller.get("/v1/models"))[1])["data"][0]
        assert (model["id"], model["max_model_len"], model["owned_by"]) == ("kimi-k3", 1_048_576, "vllm")
        assert model["root"] == "moonshotai/Kimi-K3"
        assert (await caller.get("/nope"))[:2] == (404, '{"detail":"Not Found"}')
        status, text, headers = await caller.get("/v1/chat/completions")
        assert (status, text, headers["allow"]) == (405, '{"detail":"Method Not Allowed"}', "POST")
        assert headers["server"] == "uvicorn"


async def test_a_chat_answer_has_every_field(service):
    async with service() as caller:
        status, body = await caller.chat("Say hello.", max_tokens=40, headers={"X-Request-Id": "abc-1"})
        assert status == 200
        assert list(body) == [
            *("id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage"),
            *(
                "prompt_logprobs",
                "prompt_token_ids",
                "prompt_text",
                "kv_transfer_params",
                "ec_transfer_params",
                "metrics",
            ),
        ]
        assert (body["id"], body["object"]) == ("chatcmpl-abc-1", "chat.completion")
        choice = body["choices"][0]
        assert choice["finish_reason"] == "length"
        assert set(choice["message"]) == {
            *("role", "content", "refusal", "annotations", "audio", "function_call", "reasoning")
        }
        assert choice["message"]["reasoning"]
        assert choice["message"]["content"]
        usage = body["usage"]
        assert usage["completion_tokens"] == 40
        assert usage["total_tokens"] == usage["prompt_tokens"] + 40
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert usage["completion_tokens_details"]["reasoning_tokens"] == 16
        _, counted = await caller.post("/tokenize", {"model": "kimi-k3", **HELLO})
        assert counted["count"] == usage["prompt_tokens"] == len(counted["tokens"])


async def test_a_stream_has_role_chunk_deltas_finish_usage_and_done(service):
    async with service() as caller:
        body = {**HELLO, "max_tokens": 40, "stream_options": {"include_usage": True}}
        status, events = await caller.stream("/v1/chat/completions", body)
        assert status == 200
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        deltas = [e["choices"][0]["delta"] for e in events[1:-2]]
        assert {key for delta in deltas for key in delta} == {"reasoning", "content"}
        assert [e["choices"][0]["finish_reason"] for e in events[:-2]].count(None) == len(events) - 3
        assert events[-3]["choices"][0]["finish_reason"] == "length"
        assert events[-2]["choices"] == []
        assert events[-2]["usage"]["completion_tokens"] == 40
        assert events[-2]["system_fingerprint"].startswith("vllm-0.27.1-")
        assert events[-1] == "[DONE]"
        _, whole = await caller.chat("Say hello.", max_tokens=40)
        message = whole["choices"][0]["message"]
        assert "".join(d.get("content", "") for d in deltas) == message["content"]
        assert "".join(d.get("reasoning", "") for d in deltas) == message["reasoning"]


async def test_without_usage_the_last_chunk_carries_the_fingerprint(service):
    async with service() as caller:
        _, events = await caller.stream("/v1/chat/completions", {**HELLO, "max_tokens": 30})
        assert "usage" not in events[-2]
        assert events[-2]["system_fingerprint"]
        assert events[-1] == "[DONE]"


async def test_continuous_usage_and_token_ids(service):
    async with service() as caller:
        body = {**HELLO, "max_tokens": 5, "return_token_ids": True}
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
        _, events = await caller.stream("/v1/chat/completions", body)
        assert [e["usage"]["completion_tokens"] for e in events[:-2]] == [0, 1, 2, 3, 4, 5]
        _, counted = await caller.post("/tokenize", HELLO)
        assert events[0]["prompt_token_ids"] == counted["tokens"]
        made = [n for e in events[1:-2] for n in e["choices"][0]["token_ids"]]
        _, whole = await caller.chat("Say hello.", max_tokens=5, return_token_ids=True)
        assert whole["choices"][0]["token_ids"] == made
        assert whole["prompt_token_ids"] == counted["tokens"]


async def test_completions_take_text_ids_and_lists(service):
    async with service() as caller:
        _, body = await caller.complete("Once upon a time", max_tokens=4)
        assert (body["object"], body["usage"]["completion_tokens"]) == ("text_completion", 4)
        assert body["id"].startswith("cmpl-")
        _, body = await caller.complete([5, 6, 7, 8], max_tokens=3, return_token_ids=True)
        assert body["choices"][0]["prompt_token_ids"] == [5, 6, 7, 8]
        assert len(body["choices"][0]["token_ids"]) == 3
        _, body = await caller.complete(["a b", "c d"], max_tokens=2)
        assert [choice["index"] for choice in body["choices"]] == [0, 1]
        _, body = await caller.complete("x", max_tokens=4, n=3)
        assert (len(body["choices"]), body["usage"]["completion_tokens"]) == (3, 12)
        _, events = await caller.stream("/v1/completions", {"prompt": [5, 6], "max_tokens": 3})
        assert [e["choices"][0]["finish_reason"] for e in events[:-1]] == [None, None, "length"]


async def test_tokenize_and_detokenize_agree(service):
    async with service() as caller:
        text = 'Grüße, "world" 12345\n\n  {"a": [1, 2]} — 東京'
        _, told = await caller.post("/tokenize", {"model": "kimi-k3", "prompt": text})
        assert told["max_model_len"] == 1_048_576
        _, back = await caller.post("/detokenize", {"model": "kimi-k3", "tokens": told["tokens"]})
        assert back == {"prompt": text}


async def test_tools_are_part_of_the_prompt(service, weather):
    async with service() as caller:
        _, bare = await caller.post("/tokenize", HELLO)
        _, with_tools = await caller.post("/tokenize", {**HELLO, "tools": [weather]})
        changed = json.loads(json.dumps(weather))
        changed["function"]["parameters"]["properties"]["city"]["description"] = "where"
        _, with_other = await caller.post("/tokenize", {**HELLO, "tools": [changed]})
        assert bare["count"] < with_tools["count"]
        assert with_tools["tokens"] != with_other["tokens"]


REFUSALS = [
    ({"messages": "x"}, 400, "Bad Request", "body.messages", "Input should be a valid list"),
    ({}, 400, "Bad Request", "body.messages", "Field required"),
    ({"messages": []}, 400, "BadRequestError", None, "empty conversation"),
    ({**HELLO, "max_tokens": "a"}, 400, "Bad Request", "body.max_tokens", "valid integer"),
    ({**HELLO, "max_tokens": 0}, 400, "BadRequestError", "max_tokens", "must be at least 1, got 0"),
    ({**HELLO, "temperature": -1}, 400, "BadRequestError", "temperature", "non-negative"),
    ({**HELLO, "model": "nope"}, 404, "NotFoundError", "model", "The model `nope` does not exist"),
    ({**HELLO, "max_tokens": 2_000_000}, 400, "BadRequestError", "max_tokens", "cannot be greater than max_model_len"),
    ({**HELLO, "tools": []}, 400, "BadRequestError", "tools", "must not be an empty array"),
    ({**HELLO, "tool_choice": "auto"}, 400, "BadRequestError", "tool_choice", "`tools` must be set"),
    ({**HELLO, "stream_options": {}}, 400, "BadRequestError", "stream_options", "`stream=True`"),
    ({**HELLO, "cache_salt": "a@b"}, 400, "BadRequestError", "cache_salt", "at most 128 characters"),
    ({**HELLO, "cache_salt": ""}, 400, "BadRequestError", "cache_salt", "non-empty"),
    ({**HELLO, "reasoning_effort": "silly"}, 400, "Bad Request", "body.reasoning_effort", "Input should be 'none'"),
    ({**HELLO, "reasoning_effort": "medium"}, 400, "BadRequestError", "thinking_effort", "supports thinking_effort"),
    (
        {**HELLO, "response_format": {"type": "json_schema"}},
        400,
        "BadRequestError",
        "response_format",
        "must be provided",
    ),
]


@pytest.mark.parametrize(("body", "status", "kind", "param", "words"), REFUSALS)
async def test_refusals_use_the_servers_words(service, body, status, kind, param, words):
    async with service() as caller:
        got, told = await caller.post("/v1/chat/completions", {"model": "kimi-k3", **body})
        assert got == status
        assert (told["error"]["type"], told["error"]["param"], told["error"]["code"]) == (kind, param, status)
        assert words in told["error"]["message"]


async def test_broken_json_and_unknown_named_tool(service, weather):
    async with service() as caller:
        status, told = await caller.post("/v1/chat/completions", b'{"model": ')
        assert (status, told["error"]["param"]) == (400, "body.10")
        choice = {"type": "function", "function": {"name": "zz"}}
        status, told = await caller.chat("x", tools=[weather], tool_choice=choice)
        assert (status, told["error"]["param"]) == (400, "tool_choice")


async def test_a_prompt_beyond_the_window(service):
    async with service(window=2048) as caller:
        status, told = await caller.chat("hello " * 3000)
        assert status == 400
        assert told["error"]["message"].startswith(
            "This model's maximum context length is 2048 tokens. However, your prompt"
        )
        assert "at least 2049 input tokens" in told["error"]["message"]
        status, told = await caller.complete([5] * 3000)
        assert "contains 3000 input tokens" in told["error"]["message"]
        status, told = await caller.chat("x" * 200_000)
        assert (status, told["error"]["param"]) == (400, "input_text")
        status, told = await caller.complete([5] * 2000, max_tokens=400)
        assert (status, told["usage"]["completion_tokens"]) == (200, 48)


async def test_an_api_key_guards_v1_alone(service):
    async with service(api_key="secret") as caller:
        status, told = await caller.chat("x")
        assert (status, told) == (401, {"error": "Unauthorized"})
        assert (await caller.get("/v1/models"))[0] == 401
        assert (await caller.get("/metrics"))[0] == 200
        status, _ = await caller.chat("x", max_tokens=1, headers={"Authorization": "Bearer secret"})
        assert status == 200


async def test_a_client_that_hangs_up_aborts_its_request(service):
    async with service() as caller:
        body = {"model": "kimi-k3", **HELLO, "max_tokens": 4000, "stream": True}
        async with caller.session.post(caller.base_url + "/v1/chat/completions", json=body) as response:
            await response.content.readany()
        for _ in range(100):
            await asyncio.sleep(0.01)
            if await caller.metric("vllm:request_success_total", finished_reason="abort"):
                break
        assert await caller.metric("vllm:request_success_total", finished_reason="abort") == 1
        assert await caller.metric("vllm:num_requests_running") == 0
        assert await caller.metric("vllm:kv_cache_usage_perc") == 0


async def test_the_gateway_changes_nothing_by_itself(service, weather):
    async with service() as caller:
        question = 'The weather in "Oslo" for 3 days'
        headers = {"X-Request-Id": "same"}
        direct = await caller.chat(question, tools=[weather], headers=headers)
        through = await caller.chat(question, gateway=True, tools=[weather], headers=headers)
        for _, body in (direct, through):
            body["created"] = 0
            body["usage"]["prompt_tokens_details"] = None
        assert direct == through
        _, events = await caller.stream("/v1/chat/completions", {**HELLO, "max_tokens": 9}, gateway=True)
        assert events[-1] == "[DONE]"
        assert (await caller.get("/v1/models", gateway=True))[0] == 200
        assert (await caller.chat("x", gateway=True, model="nope"))[0] == 404


async def test_development_endpoints_are_there_only_when_launched_so(service):
    async with service() as caller:
        assert (await caller.post("/reset_prefix_cache", {}))[0] == 404
        assert "SECURITY WARNING" not in caller.log()
    prompt = list(range(100, 5100))
    async with service("env-dev-mode") as caller:
        await caller.complete(prompt)
        assert await caller.cached(prompt) == 4608
        assert await caller.post("/reset_prefix_cache", {}) == (200, {"success": True})
        assert await caller.cached(prompt) == 0
        assert "SECURITY WARNING: Development endpoints are enabled!" in caller.log()
        assert "Route: /reset_prefix_cache, Methods: POST" in caller.log()

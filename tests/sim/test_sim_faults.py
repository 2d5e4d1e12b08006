"""Every fault of the service is seen from outside, and is not there without it."""

import asyncio
import json

import aiohttp
import pytest

from signoff.errors import SignoffError
from signoff.sim.faults import FAULTS, list_faults, parse

QUESTION = 'What is the weather in "Oslo" for 3 days?'
NEEDLE = "Note: the value of k is 42.\n{}\nWhat is the value of k? Answer with the value only."
MARKS = "<|open|>"


def choice(answer):
    status, body = answer
    assert status == 200, body
    return body["choices"][0]


def call(answer):
    return choice(answer)["message"]["tool_calls"][0]["function"]


async def ask(caller, weather, **more):
    return await caller.chat(QUESTION, tools=[weather], **more)


async def test_markup_leak(service, weather):
    async with service("tool-markup-leak") as caller:
        found = choice(await ask(caller, weather))
        assert MARKS in found["message"]["content"]
        assert "tool_calls" not in found["message"]


async def test_tool_empty(service, weather):
    async with service("tool-empty") as caller:
        found = choice(await ask(caller, weather))
        assert found["finish_reason"] == "tool_calls"
        assert "tool_calls" not in found["message"]


async def test_tool_in_reasoning(service, weather):
    async with service("tool-in-reasoning") as caller:
        found = choice(await ask(caller, weather))
        assert MARKS in found["message"]["reasoning"]
        assert (found["message"]["content"], found["finish_reason"]) == (None, "stop")


async def test_tool_wrong_name_and_none(service, weather):
    async with service("tool-wrong-name") as caller:
        assert call(await ask(caller, weather))["name"] == "get_weather_v2"
    async with service("tool-none") as caller:
        message = choice(await ask(caller, weather))["message"]
        assert "tool_calls" not in message
        assert message["content"]


async def test_arguments(service, weather):
    async with service() as caller:
        assert json.loads(call(await ask(caller, weather))["arguments"]) == {"city": "Oslo", "days": 3}
    async with service("args-string") as caller:
        assert isinstance(json.loads(call(await ask(caller, weather))["arguments"]), str)
    async with service("args-missing") as caller:
        assert json.loads(call(await ask(caller, weather))["arguments"]) == {"days": 3}
    async with service("args-wrong-type") as caller:
        assert json.loads(call(await ask(caller, weather))["arguments"])["city"] == ["Oslo"]
    async with service("args-broken-json") as caller:
        with pytest.raises(json.JSONDecodeError):
            json.loads(call(await ask(caller, weather))["arguments"])


async def test_schema_broken(service):
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    async with service("args-schema-broken") as caller:
        made = json.loads(choice(await caller.chat("give 4", response_format=form))["message"]["content"])
        assert "a" not in made


async def test_reasoning_leak_and_lost(service):
    async with service("reasoning-leak") as caller:
        message = choice(await caller.chat("Hello.", max_tokens=60))["message"]
        assert "<|close|>think<|sep|>" in message["content"]
        assert message["reasoning"] is None
    async with service("reasoning-lost") as caller:
        _, body = await caller.chat("Hello.", max_tokens=60)
        assert body["choices"][0]["message"]["reasoning"] is None
        assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 16


async def test_a_share_strikes_about_as_often_and_in_the_same_places(service, weather):
    async def struck(caller):
        answers = await asyncio.gather(*(ask(caller, weather, headers={"X-Request-Id": f"r{k}"}) for k in range(60)))
        return [k for k, answer in enumerate(answers) if "tool_calls" not in choice(answer)["message"]]

    async with service("tool-none=0.25") as caller:
        first = await struck(caller)
    async with service("tool-none=0.25") as caller:
        assert await struck(caller) == first
    assert 5 <= len(first) <= 28


async def test_gateway_edits(service, weather):
    async with service("gateway-drop-reasoning") as caller:
        assert choice(await caller.chat("Hello.", max_tokens=30))["message"]["reasoning"]
        assert "reasoning" not in choice(await caller.chat("Hello.", max_tokens=30, gateway=True))["message"]
        body = {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 30}
        _, events = await caller.stream("/v1/chat/completions", body, gateway=True)
        assert not any("reasoning" in e["choices"][0]["delta"] for e in events[:-1])
    async with service("gateway-drop-ids") as caller:
        assert call(await ask(caller, weather))["name"]
        made = choice(await ask(caller, weather, gateway=True))["message"]["tool_calls"][0]
        assert "id" not in made
        assert "name" not in made["function"]
    async with service("gateway-reencode") as caller:
        assert isinstance(json.loads(call(await ask(caller, weather))["arguments"]), dict)
        assert isinstance(json.loads(call(await ask(caller, weather, gateway=True))["arguments"]), str)


async def test_gateway_sends_twice(service):
    async with service("gateway-duplicate") as caller:
        await caller.chat("Hello.", max_tokens=5)
        assert await caller.metric("vllm:request_success_total") == 1
        await caller.chat("Hello.", max_tokens=5, gateway=True)
        await asyncio.sleep(0.15)
        assert await caller.metric("vllm:request_success_total") == 3
    async with service("retry-duplicate-effect", step_ms=4) as caller:
        await caller.chat("Hello.", max_tokens=60, gateway=True)
        await asyncio.sleep(0.5)
        assert await caller.metric("vllm:request_success_total") == 2


async def test_gateway_cut(service):
    async with service("gateway-cut") as caller:
        body = {"messages": [{"role": "user", "content": "Hello."}], "max_tokens": 30}
        _, events = await caller.stream("/v1/chat/completions", body, gateway=True)
        assert len(events) == 4
        assert events[-1] != "[DONE]"


async def test_gateway_without_a_service_is_a_502(service):
    async with service() as caller:
        await caller.server.listener.stop()
        assert (await caller.get("/v1/models", gateway=True))[0] == 502


async def test_prefix_faults(service):
    prompt = list(range(10, 8010))
    async with service() as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 7680]
    async with service("prefix-off") as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 0]
        assert await caller.metric("vllm:prefix_cache_queries_total") == 0
        assert "enable_prefix_caching=False" in caller.log()
    async with service("prefix-silent-off") as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 0]
        assert await caller.metric("vllm:prefix_cache_queries_total") == 16_000
        assert "enable_prefix_caching=True" in caller.log()
    async with service("prefix-nonce") as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 0]
        _, body = await caller.complete(prompt)
        assert body["usage"]["prompt_tokens"] > 8000
    async with service("prefix-dead-counter") as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 7680]
        assert await caller.metric("vllm:prefix_cache_hits_total") == 0
    async with service("prefix-false-hit") as caller:
        assert await caller.cached(prompt) == 7680
        assert await caller.metric("vllm:prefix_cache_hits_total") == 7680
    async with service("prefix-evict") as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt)] == [0, 0]
        assert await caller.metric("vllm:prefix_cache_queries_total") == 16_000


async def test_prefix_sparse_misses_twice_then_hits(service):
    head = list(range(10, 6010))
    async with service("prefix-sparse") as caller:
        hits = [await caller.cached(head + [k] * 3000) for k in (1, 2, 3)]
        assert hits == [0, 0, 4608]


async def test_long_wrong_is_wrong_above_its_limit_alone(service):
    async with service("long-wrong=2000") as caller:
        assert choice(await caller.chat(NEEDLE.format("short")))["message"]["content"] == "42"
        assert choice(await caller.chat(NEEDLE.format("word " * 3000)))["message"]["content"] == (" the" * 64)


async def test_long_reject(service):
    async with service("long-reject=4096") as caller:
        assert (await caller.complete([5] * 4000))[0] == 200
        assert (await caller.complete([5] * 5000))[0] == 400
        assert "Using max model len 4096" in caller.log()


async def test_long_oom_kills_the_engine_and_then_the_server(service):
    async with service("long-oom=4000") as caller:
        assert (await caller.complete([5] * 3000))[0] == 200
        status, told = await caller.complete([5] * 5000)
        assert (status, told["error"]["type"]) == (500, "InternalServerError")
        assert "CUDA out of memory" in caller.log()
        assert "EngineCore encountered a fatal error." in caller.log()
        await asyncio.sleep(1.0)
        with pytest.raises(aiohttp.ClientConnectorError):
            await caller.get("/health")


async def test_a_stream_that_dies_ends_with_an_error_event_and_done(service):
    async with service("soak-engine-death=0.1", step_ms=4) as caller:
        body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 2000}
        status, events = await caller.stream("/v1/chat/completions", body)
        assert status == 200
        assert "EngineCore encountered an issue" in events[-2]["error"]["message"]
        assert events[-1] == "[DONE]"


@pytest.mark.parametrize("fault", ["long-hang=1", "soak-hang=0.01"])
async def test_a_hung_engine_keeps_its_health(service, fault):
    async with service(fault) as caller:
        waiting = asyncio.create_task(caller.chat("Go on.", max_tokens=100))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        assert (await caller.get("/health"))[0] == 200
        assert await caller.metric("vllm:num_requests_running") + await caller.metric("vllm:num_requests_waiting") == 1
        waiting.cancel()


async def many(caller, count, **more):
    return await asyncio.gather(
        *(caller.chat(f"{k} go on " + "word " * 300, max_tokens=20, **more) for k in range(count))
    )


async def peak(caller, metric, count):
    load = asyncio.create_task(many(caller, count))
    await asyncio.sleep(0.06)
    seen = await caller.metric(metric)
    await load
    return seen


async def test_small_pool_and_few_slots(service):
    async with service(step_ms=4) as caller:
        assert await peak(caller, "vllm:num_requests_waiting", 12) == 0
    async with service("conc-kv-small=4", step_ms=4) as caller:
        load = asyncio.create_task(many(caller, 12))
        await asyncio.sleep(0.06)
        assert await caller.metric("vllm:num_requests_waiting", engine="0") >= 7
        assert await caller.metric("vllm:kv_cache_usage_perc") > 0.95
        await load
        assert await caller.metric("vllm:kv_cache_usage_perc") == 0
        assert "Maximum concurrency for 1,048,576 tokens per request: 1.00x" in caller.log()
    async with service("conc-slots=3", step_ms=4) as caller:
        load = asyncio.create_task(many(caller, 12))
        await asyncio.sleep(0.06)
        assert await caller.metric("vllm:num_requests_running") == 3
        assert await caller.metric("vllm:kv_cache_usage_perc") < 0.1
        await load
        assert "'max-num-seqs': 3" in caller.log().replace("_", "-")


async def test_slow_prefill_queues_at_low_kv(service):
    async with service("conc-slow-prefill=5000") as caller:
        began = asyncio.get_running_loop().time()
        await many(caller, 6)
        assert asyncio.get_running_loop().time() - began > 6 * 600 / 5000
        assert await caller.metric("vllm:request_prefill_time_seconds_sum") > 0.3


async def test_errors_above_a_load(service):
    async with service("conc-errors=4") as caller:
        statuses = [status for status, _ in await many(caller, 12)]
        assert sorted(set(statuses)) == [200, 500]
        assert statuses.count(200) == 4
        assert await caller.metric("http_requests_total", status="5xx") == 8


async def test_leak_and_degrade(service):
    async with service("soak-leak-kv=1") as caller:
        await caller.complete([5] * 5000)
        assert await caller.metric("vllm:num_requests_running") == 0
        assert await caller.metric("vllm:kv_cache_usage_perc") > 0
    async with service("soak-degrade=0.5", step_ms=4) as caller:
        for _ in range(8):
            await caller.complete("x", max_tokens=10)
        gaps = await caller.metric("vllm:inter_token_latency_seconds_count")
        assert await caller.metric("vllm:inter_token_latency_seconds_sum") / gaps > 0.006


async def test_inband_errors(service):
    async with service("soak-inband-error=1") as caller:
        body = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 20}
        status, events = await caller.stream("/v1/chat/completions", body)
        assert (status, events[-1]) == (200, "[DONE]")
        assert events[-2]["error"]["code"] == 500


async def test_restart_resets_what_a_restart_resets(service):
    async with service("soak-restart=0.2", step_ms=4) as caller:
        await caller.chat("x", max_tokens=5)
        started = await caller.metric("process_start_time_seconds")
        with pytest.raises(aiohttp.ClientError):
            await caller.chat("Go on.", max_tokens=2000)
        await asyncio.sleep(1.3)
        assert await caller.metric("process_start_time_seconds") > started
        assert await caller.metric("vllm:request_success_total") == 0
        assert (await caller.chat("x", max_tokens=5))[0] == 200
        assert caller.log().count("Application startup complete.") == 2


async def test_other_callers_show_in_the_counters_alone(service):
    async with service("soak-foreign-traffic=50") as caller:
        await asyncio.sleep(0.6)
        assert await caller.metric("vllm:request_success_total") > 2
    async with service("client-resubmits") as caller:
        await caller.chat("x", max_tokens=5)
        await asyncio.sleep(0.1)
        assert await caller.metric("vllm:request_success_total") == 2


async def test_no_tool_parser(service, weather):
    async with service("load-no-tool-parser") as caller:
        status, told = await ask(caller, weather)
        assert status == 400
        assert "--enable-auto-tool-choice and --tool-call-parser" in told["error"]["message"]
        assert "tool_call_parser" not in caller.log()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("load-oom", "torch.OutOfMemoryError: CUDA out of memory."),
        ("load-kv-too-small", "To serve at least one request with the model's max seq len (1048576)"),
        ("load-shard-truncated", "MetadataIncompleteBuffer"),
    ],
)
async def test_load_faults_end_in_the_log(service, fault, words):
    async with service(fault) as caller:
        assert words in caller.log()
        assert "Engine core initialization failed. See root cause above." in caller.log()
        assert "Application startup complete." not in caller.log()
        with pytest.raises(aiohttp.ClientConnectorError):
            await caller.get("/health")


def test_names_begin_with_a_layer_and_strengths_are_checked():
    names = [fault.name for fault in FAULTS]
    assert len(names) == len(set(names)) == len(list_faults())
    layers = [
        "env",
        "load",
        "long",
        "conc",
        "soak",
        "prefix",
        "tool",
        "args",
        "reasoning",
        "gateway",
        "retry",
        "client",
    ]
    assert {name.split("-")[0] for name in names} == set(layers)
    assert all(line.split()[0] in names for line in list_faults())
    assert parse("tool-empty=0.2")[1] == 0.2
    for wrong in ("nope", "tool-empty=2", "tool-empty=x", "tool-empty=-1", "prefix-off=1", "conc-slots=0"):
        with pytest.raises(SignoffError):
            parse(wrong)

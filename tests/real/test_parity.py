"""The simulated service held to a real vLLM: the same requests to both, and what must be the same is compared.

SIGNOFF_REAL_URL names a running server with prefix caching, prompt token details, automatic tool choice and no other
traffic. The simulated one takes its window, block size, model name and version, and is no hybrid.
"""

import json
import os
import random
import re

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from simulated_caller import Caller, serving

pytestmark = pytest.mark.real

HELLO = {"messages": [{"role": "user", "content": "Say hello."}]}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CHAT = "/v1/chat/completions"


@pytest.fixture
async def real():
    url = os.environ.get("SIGNOFF_REAL_URL")
    assert url, "SIGNOFF_REAL_URL must name a running vLLM"
    connector = aiohttp.TCPConnector(force_close=True, limit=0)
    timeout = aiohttp.ClientTimeout(total=100)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield Caller(session, url.rstrip("/"), None, None)


async def facts(real):
    """What the simulated service must be told to be like the real one."""
    model = json.loads((await real.get("/v1/models"))[1])["data"][0]
    info = await info_of(real)
    return {
        "model": model["id"],
        "root": model["root"],
        "window": model["max_model_len"],
        "version": json.loads((await real.get("/version"))[1])["version"],
        "unit": int(info["block_size"]),
        "kv_blocks": int(info["num_gpu_blocks"]) - 1,
        "state_blocks": 0,
        "reasoning_parser": None,
        "tool_parser": "hermes",
    }


@pytest.fixture
async def pair(real):
    told = await facts(real)
    async with serving(**told) as simulated:
        simulated.model = real.model = told["model"]
        simulated.unit = real.unit = told["unit"]
        simulated.window = real.window = told["window"]
        yield real, simulated


async def families(caller):
    _, text, headers = await caller.get("/metrics")
    return {family.name: family for family in text_string_to_metric_families(text)}, headers["content-type"]


async def info_of(caller):
    found, _ = await families(caller)
    return found["vllm:cache_config_info"].samples[0].labels


async def both(pair, ask):
    """What `ask` comes to on the real and on the simulated server."""
    return [await ask(caller) for caller in pair]


COUNTERS = (
    "vllm:prefix_cache_queries_total",
    "vllm:prefix_cache_hits_total",
    "vllm:prompt_tokens_total",
    "vllm:prompt_tokens_cached_total",
    "vllm:generation_tokens_total",
    "vllm:request_success_total",
    "vllm:time_to_first_token_seconds_count",
    "vllm:request_queue_time_seconds_count",
    "vllm:inter_token_latency_seconds_count",
    "vllm:num_preemptions_total",
)


async def hit_sequence(caller, start):
    """Hits of a sequence of token prompts, and what the counters made of it."""
    unit = caller.unit
    long, other = [start + i % 997 for i in range(4 * unit)], [start + 1000 + i % 991 for i in range(4 * unit)]
    third = [start + 3000 + i % 983 for i in range(4 * unit)]
    prompts = [
        (long[: 2 * unit + unit // 3], None),
        (long[: 2 * unit + unit // 3], None),
        (long[: 3 * unit + 5], None),
        (other[: 2 * unit], None),
        (other[: 2 * unit], None),
        (other[: 2 * unit + 1], None),
        (third[: unit - 4], None),
        (third[: unit - 4], None),
        (long[: 2 * unit + unit // 3], "salt-a"),
        (long[: 2 * unit + unit // 3], "salt-a"),
        ([start + 5000, *long[1 : 3 * unit]], None),
        ([*long[: 3 * unit - 1], start + 5000], None),
    ]
    before = {name: await caller.metric(name) for name in COUNTERS}
    hits = []
    for prompt, salt in prompts:
        more = {"cache_salt": salt} if salt else {}
        _, body = await caller.complete(prompt, max_tokens=2, model=caller.model, ignore_eos=True, **more)
        hits.append(body["usage"]["prompt_tokens_details"]["cached_tokens"])
    return hits, {name: await caller.metric(name) - before[name] for name in COUNTERS}


async def test_hits_and_counters_are_the_same(pair):
    start = random.SystemRandom().randrange(2000, 40_000)
    real, simulated = await both(pair, lambda caller: hit_sequence(caller, start))
    unit = pair[0].unit
    assert real[0] == simulated[0]
    assert real[1] == simulated[1]
    assert real[0] == [0, 2 * unit, 2 * unit, 0, unit, 2 * unit, 0, 0, 0, 2 * unit, 0, 2 * unit]


async def test_the_answer_to_the_next_turn_hits_as_far(pair):
    """Generated tokens are cached when their blocks fill."""
    start = random.SystemRandom().randrange(2000, 40_000)

    async def ask(caller):
        prompt = [start + i % 977 for i in range(2 * caller.unit - 3)]
        more = {"model": caller.model, "ignore_eos": True, "return_token_ids": True}
        _, body = await caller.complete(prompt, max_tokens=10, **more)
        grown = prompt + body["choices"][0]["token_ids"] + [start, start + 1]
        return await caller.cached(grown, model=caller.model)

    assert await both(pair, ask) == [2 * pair[0].unit] * 2


async def exercise(caller):
    """Enough of everything for every family to show up."""
    await caller.chat("Say hello.", model=caller.model, max_tokens=3)
    await caller.complete("Say", max_tokens=2, model=caller.model)
    await caller.post("/tokenize", {"model": caller.model, "prompt": "a"})
    await caller.chat("x", model="nope")
    return await families(caller)


async def test_every_simulated_family_is_a_real_one_of_the_same_type(pair):
    (real, real_type), (simulated, simulated_type) = await both(pair, exercise)
    assert simulated_type == real_type
    assert {name: family.type for name, family in simulated.items() if name not in real} == {}
    assert {n: f.type for n, f in simulated.items()} == {n: real[n].type for n in simulated}
    for name, family in simulated.items():
        labels = {(s.name, frozenset(s.labels)) for s in family.samples}
        real_labels = {(s.name, frozenset(s.labels)) for s in real[name].samples}
        if name == "vllm:cache_config_info":
            assert set(family.samples[0].labels) <= set(real[name].samples[0].labels)
        else:
            assert labels == real_labels, name


async def test_the_families_that_acceptance_reads_are_all_simulated(pair):
    (real, _), (simulated, _) = await both(pair, exercise)
    optional = ("estimated_", "python_")
    missing = {n for n in real if n not in simulated and not any(word in n for word in optional)}
    assert missing <= {"process_virtual_memory_bytes", "process_max_fds"}


def shape(value):
    """Keys all the way down, a list by its first entry; leaves by whether there is one."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    return (
        [shape(value[0])] if isinstance(value, list) and value and isinstance(value[0], dict) else type(value).__name__
    )


def words(message):
    """A message without its numbers."""
    return re.sub(r"\d+", "N", message or "")


REFUSED = [
    (CHAT, {"messages": "x"}),
    (CHAT, {}),
    (CHAT, {"messages": []}),
    (CHAT, {**HELLO, "max_tokens": "a"}),
    (CHAT, {**HELLO, "max_tokens": 0}),
    (CHAT, {**HELLO, "temperature": -1}),
    (CHAT, {**HELLO, "model": "nope"}),
    (CHAT, {**HELLO, "max_tokens": 10_000_000}),
    (CHAT, {**HELLO, "tools": []}),
    (CHAT, {**HELLO, "tool_choice": "auto"}),
    (CHAT, {**HELLO, "tool_choice": "required"}),
    (CHAT, {**HELLO, "tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "zz"}}}),
    (CHAT, {**HELLO, "stream_options": {"include_usage": True}}),
    (CHAT, {**HELLO, "cache_salt": "a@b"}),
    (CHAT, {**HELLO, "cache_salt": ""}),
    (CHAT, {**HELLO, "cache_salt": "a" * 200}),
    (CHAT, {**HELLO, "response_format": {"type": "json_schema"}}),
    (CHAT, {**HELLO, "reasoning_effort": "silly"}),
    (CHAT, {"messages": [{"role": "user", "content": "hello " * 6000}]}),
    (CHAT, {"messages": [{"role": "user", "content": "hello " * 400_000}]}),
    ("/v1/completions", {"prompt": [5] * 9000, "max_tokens": 4}),
    ("/v1/completions", {"prompt": "a", "max_tokens": -1}),
    ("/tokenize", {"model": "nope", "prompt": "a"}),
    ("/tokenize", {}),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
async def test_refusals_are_the_same(pair, case):
    path, body = REFUSED[case]

    async def ask(caller):
        status, told = await caller.post(path, {"model": caller.model, **body})
        error = told["error"]
        return status, error["type"], error["param"], error["code"], words(error["message"])

    real, simulated = await both(pair, ask)
    assert simulated == real


async def test_routes_and_broken_json_are_the_same(pair):
    async def ask(caller):
        _, broken = await caller.post(CHAT, b'{"model": ')
        _, typeless = await caller.post(CHAT, HELLO, headers={"Content-Type": "text/plain"})
        told = [broken, typeless]
        for path in ("/health", "/ping", "/load", "/nope", CHAT):
            status, text, headers = await caller.get(path)
            told.append((status, text, headers["server"], headers.get("content-type"), headers.get("allow")))
        return told

    real, simulated = await both(pair, ask)
    assert simulated == real


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, HELLO),
        (CHAT, {**HELLO, "return_token_ids": True}),
        ("/v1/completions", {"prompt": "Once"}),
        ("/v1/completions", {"prompt": [1, 2, 3, 4], "return_token_ids": True}),
        ("/v1/completions", {"prompt": "Once", "n": 2}),
    ],
)
async def test_whole_answers_have_the_same_shape_and_finish(pair, path, body):
    async def ask(caller):
        sent = {"model": caller.model, "max_tokens": 3, "ignore_eos": True, **body}
        status, told = await caller.post(path, sent, headers={"X-Request-Id": "same-id"})
        return (
            status,
            told["id"],
            shape(told),
            [c["finish_reason"] for c in told["choices"]],
            told["usage"]["completion_tokens"],
        )

    real, simulated = await both(pair, ask)
    assert simulated == real


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, HELLO),
        (CHAT, {**HELLO, "stream_options": {"include_usage": True}}),
        (CHAT, {**HELLO, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}),
        (CHAT, {**HELLO, "return_token_ids": True}),
        ("/v1/completions", {"prompt": "Once"}),
        ("/v1/completions", {"prompt": [1, 2, 3], "stream_options": {"include_usage": True}}),
        ("/v1/completions", {"prompt": [1, 2, 3], "return_token_ids": True}),
    ],
)
async def test_streams_have_the_same_shape(pair, path, body):
    async def ask(caller):
        sent = {"model": caller.model, "max_tokens": 4, "ignore_eos": True, **body}
        status, events = await caller.stream(path, sent)
        return (
            status,
            len(events),
            [shape(e) for e in events],
            [c["finish_reason"] for e in events[:-1] for c in e["choices"]],
        )

    real, simulated = await both(pair, ask)
    assert simulated == real


async def test_finish_reasons_are_the_same(pair):
    async def ask(caller):
        named = {"type": "function", "function": {"name": "get_weather"}}
        sent = [
            {"max_tokens": 2},
            {"max_tokens": 60, "stop": [" ", "a", "e", "o"]},
            {"max_tokens": 200, "tools": [TOOL], "tool_choice": "required", "temperature": 0},
            {"max_tokens": 200, "tools": [TOOL], "tool_choice": named, "temperature": 0},
        ]
        return [
            (await caller.chat("Say hello.", model=caller.model, **each))[1]["choices"][0]["finish_reason"]
            for each in sent
        ]

    real, simulated = await both(pair, ask)
    assert simulated == ["length", "stop", "tool_calls", "stop"]
    # the real model is small and may ramble to the end of its tokens inside a call
    assert [ours if theirs == "length" else theirs for ours, theirs in zip(simulated, real, strict=True)] == simulated
    assert real[:2] == simulated[:2]


async def test_tokenising_has_the_same_shape(pair):
    async def ask(caller):
        plain = await caller.post("/tokenize", {"model": caller.model, "prompt": "hello world"})
        chat = await caller.post("/tokenize", {"model": caller.model, **HELLO})
        back = await caller.post("/detokenize", {"model": caller.model, "tokens": plain[1]["tokens"]})
        return plain[0], shape(plain[1]), shape(chat[1]), back, plain[1]["max_model_len"]

    real, simulated = await both(pair, ask)
    assert simulated == real

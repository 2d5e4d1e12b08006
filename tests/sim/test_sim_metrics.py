"""The metrics are the scheduler's own counts, in the exposition a Python vLLM server gives."""

import asyncio

from prometheus_client.parser import text_string_to_metric_families


async def families(caller):
    _, text, headers = await caller.get("/metrics")
    assert headers["content-type"] == "text/plain; version=1.0.0; charset=utf-8"
    return {family.name: family for family in text_string_to_metric_families(text)}


async def test_the_reference_parser_reads_it_and_finds_what_acceptance_needs(service):
    async with service() as caller:
        await caller.chat("x", max_tokens=3)
        found = await families(caller)
        kinds = {
            "vllm:num_requests_running": "gauge",
            "vllm:num_requests_waiting_by_reason": "gauge",
            "vllm:kv_cache_usage_perc": "gauge",
            "vllm:num_preemptions": "counter",
            "vllm:prefix_cache_queries": "counter",
            "vllm:prompt_tokens_by_source": "counter",
            "vllm:request_success": "counter",
            "vllm:iteration_tokens_total": "histogram",
            "vllm:time_to_first_token_seconds": "histogram",
            "vllm:request_queue_time_seconds": "histogram",
            "vllm:cache_config_info": "gauge",
            "process_start_time_seconds": "gauge",
            "http_requests": "counter",
            "http_request_size_bytes": "summary",
        }
        assert {name: found[name].type for name in kinds} == kinds
        info = found["vllm:cache_config_info"].samples[0].labels
        assert (info["enable_prefix_caching"], info["cache_hit_alignment_tokens"]) == ("True", "1536")
        assert "model_name" not in info
        reasons = {s.labels["reason"] for s in found["vllm:num_requests_waiting_by_reason"].samples}
        assert reasons == {"capacity", "deferred"}
        assert "vllm:request_success_created" in found
        assert "/metrics" not in {s.labels["handler"] for s in found["http_requests"].samples}


async def test_counters_agree_with_the_clients(service):
    async with service(unit=128) as caller:
        answers = await asyncio.gather(*(caller.chat("word " * (300 + k), max_tokens=9 + k) for k in range(8)))
        answers += [await caller.chat("word " * 307, max_tokens=16)]
        usage = [body["usage"] for _, body in answers]
        assert await caller.metric("vllm:prompt_tokens_total") == sum(u["prompt_tokens"] for u in usage)
        assert await caller.metric("vllm:generation_tokens_total") == sum(u["completion_tokens"] for u in usage)
        assert await caller.metric("vllm:request_success_total") == 9
        hits = sum(u["prompt_tokens_details"]["cached_tokens"] for u in usage)
        assert hits > 0
        assert await caller.metric("vllm:prefix_cache_hits_total") == hits
        assert await caller.metric("vllm:prompt_tokens_cached_total") == hits
        assert await caller.metric("vllm:prompt_tokens_by_source_total", source="local_cache_hit") == hits
        assert await caller.metric("vllm:prefix_cache_queries_total") == sum(u["prompt_tokens"] for u in usage)
        assert await caller.metric("vllm:time_to_first_token_seconds_count") == 9
        assert await caller.metric("vllm:inter_token_latency_seconds_count") == sum(
            u["completion_tokens"] - 1 for u in usage
        )
        assert await caller.metric("http_requests_total", handler="/v1/chat/completions", status="2xx") == 9
        assert await caller.metric("vllm:num_requests_running") == 0


async def test_a_warm_prompt_is_faster_by_what_it_need_not_compute(service):
    async with service() as caller:
        loop = asyncio.get_running_loop()

        async def seconds(prompt):
            began = loop.time()
            await caller.complete(prompt)
            return loop.time() - began

        cold, warm = [], []
        for k in range(5):
            prompt = [k + 1] + [7] * 60_000
            cold.append(await seconds(prompt))
            warm.append(await seconds(prompt))
        assert min(cold) - min(warm) > 0.03


async def test_the_stats_line_is_written_while_there_is_work(service):
    async with service(stats_s=0.05) as caller:
        await caller.chat("x", max_tokens=30)
        await asyncio.sleep(0.15)
        lines = [line for line in caller.log().splitlines() if "Engine 000: Avg prompt throughput:" in line]
        assert lines
        assert "Running: " in lines[0]
        assert "GPU KV cache usage: " in lines[0]
        assert "Prefix cache hit rate: " in lines[0]
        count = len(lines)
        await asyncio.sleep(0.2)
        assert caller.log().count("Engine 000:") <= count + 1


async def test_prompt_logprobs_skip_reading_and_are_not_counted(service):
    prompt = list(range(100, 5100))
    async with service() as caller:
        assert [await caller.cached(prompt), await caller.cached(prompt, prompt_logprobs=1)] == [0, 0]
        assert await caller.metric("vllm:prefix_cache_queries_total") == 5000
        assert await caller.cached(prompt) == 4608

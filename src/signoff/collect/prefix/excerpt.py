"""What is stored around a request: the scrape lines that speak of the cache."""

KEPT_SERIES = (
    b"vllm:cache_config_info",
    b"vllm:prefix_cache_",
    b"vllm:gpu_prefix_cache_",
    b"vllm:external_prefix_cache_",
    b"vllm:prompt_tokens",
    b"vllm:request_success_total",
    b"vllm:num_requests_",
    b"vllm:num_preemptions_total",
    b"vllm:kv_cache_usage_perc",
    b"vllm:request_prefill_time_seconds_sum",
    b"vllm:request_queue_time_seconds_sum",
    b"vllm:spec_decode_",
    b"process_start_time_seconds",
)
"""Of a scrape around one request only these series are kept, line for line; the first and last are kept whole."""


def cache_lines(body: bytes) -> bytes:
    """The lines of a scrape that speak of the cache, with their types, unchanged."""
    kept = [
        line
        for line in body.splitlines(keepends=True)
        if line.removeprefix(b"# TYPE ").startswith(KEPT_SERIES) or line.startswith(b"# EOF")
    ]
    return b"".join(kept)

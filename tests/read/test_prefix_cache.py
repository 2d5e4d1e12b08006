"""The cache's words in a scrape, in old and new names; any series are survived."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.prefix_cache import cache_config, cache_counters, labels_of
from signoff.read.scrape import read_scrape

CPU = (  # vLLM 0.32.0 on the CPU, one attention group
    'vllm:cache_config_info{block_size="32",cache_hit_alignment_tokens="None",effective_attention_block_size="32",'
    'enable_prefix_caching="True",engine="0",hash_block_size="None",kv_cache_size_tokens="45472",'
    'mamba_cache_mode="none",prefix_cache_retention_interval="0"}'
)
HYBRID = (
    'vllm:cache_config_info{block_size="1536",cache_hit_alignment_tokens="128",enable_prefix_caching="True",engine="%s",'
    'mamba_cache_mode="align",prefix_cache_retention_interval="%s"}'
)


def test_an_attention_model_keeps_every_block_whatever_the_interval() -> None:
    config = cache_config({CPU: 1.0})
    assert config is not None
    assert (config.enabled, config.unit, config.unit_label) == (True, 32, "effective_attention_block_size")
    assert (config.retention, config.engines) == ("dense", ("0",))


def test_a_hybrid_tells_its_retention() -> None:
    kept = {interval: cache_config({HYBRID % ("0", interval): 1.0}) for interval in ("0", "None", "3072")}
    assert [config.retention for config in kept.values() if config] == ["sparse", "dense", "sparse"]
    assert {config.unit for config in kept.values() if config} == {128}


def test_engines_that_differ_give_the_careful_word() -> None:
    other = HYBRID.replace('"True"', '"False"') % ("1", "0")
    config = cache_config({HYBRID % ("0", "0"): 1.0, other: 1.0})
    assert config is not None
    assert (config.enabled, config.engines) == (False, ("0", "1"))


def test_a_server_without_the_labels_says_nothing() -> None:
    assert cache_config({"vllm:num_requests_running": 0.0}) is None
    bare = cache_config({'vllm:cache_config_info{num_gpu_blocks="7"}': 1.0})
    assert bare is not None
    assert (bare.enabled, bare.unit, bare.retention) == (None, None, "unknown")


def test_counters_are_summed_over_engines_and_known_by_older_names() -> None:
    body = b"""
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 10
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 5
vllm:gpu_prefix_cache_hits_total{model_name="m"} 4
vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 3
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 9
vllm:request_success_total{finished_reason="stop"} 2
vllm:request_success_total{finished_reason="length"} 1
vllm:prompt_tokens_created{engine="0"} 1.7e9
"""
    scrape = read_scrape(body)
    counters = cache_counters(scrape.series, scrape.created)
    assert (counters.queries, counters.hits, counters.local_cache_hit) == (15, 4, 3)
    assert (counters.requests_finished, counters.prompt_cached, counters.running) == (3, None, None)
    assert counters.started_s == 1.7e9
    assert not counters.drafting


@settings(deadline=None)
@given(st.dictionaries(st.text(max_size=80), st.floats(), max_size=10))
def test_any_series_are_survived(series: dict[str, float]) -> None:
    cache_config(series)
    cache_counters(series)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_key_is_survived(key: str) -> None:
    labels_of(key)
    cache_config({"vllm:cache_config_info{" + key: 1.0})

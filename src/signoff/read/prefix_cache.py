"""What one scrape of a vLLM server says of its prefix cache: resolved configuration and counters.

Takes the series of a scrape: exposition name with sorted labels to value. Names of older versions are accepted.
"""

import re
from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

UNIT_LABELS = ("cache_hit_alignment_tokens", "effective_attention_block_size", "hash_block_size", "block_size")
"""Where the alignment unit stands, the most exact first; values are Python reprs, `None` where unresolved."""
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")


def labels_of(key: str) -> dict[str, str]:
    """The labels of a series key; empty when it has none."""
    _, brace, rest = key.partition("{")
    if not brace:
        return {}
    return {name: re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), value) for name, value in _LABEL.findall(rest)}


class CacheConfig(Struct, frozen=True, kw_only=True):
    """The resolved cache configuration of `vllm:cache_config_info`. `None`: the label is absent or `None`."""

    enabled: bool | None
    unit: int | None
    """Alignment unit in tokens."""
    unit_label: str
    """The label it was read from."""
    retention: Literal["dense", "sparse", "unknown"]
    pool_tokens: int | None
    """Tokens that the KV pool of one engine holds."""
    engines: tuple[str, ...]


class CacheCounters(Struct, frozen=True, kw_only=True):
    """Counters and gauges summed over engines. `None`: the server has no such series. Tokens unless said otherwise."""

    queries: float | None
    hits: float | None
    local_cache_hit: float | None
    """`prompt_tokens_by_source{source="local_cache_hit"}`."""
    prompt_cached: float | None
    """`prompt_tokens_cached`: local and external."""
    external_hits: float | None
    prompt_tokens: float | None
    requests_finished: float | None
    """Requests, all reasons."""
    preemptions: float | None
    prefill_s: float | None
    """Sum over finished requests of first scheduled to first token."""
    queue_s: float | None
    running: float | None
    waiting: float | None
    prompt_by_engine: dict[str, float]
    """Prompt tokens by engine label."""
    drafting: bool
    """Whether it speaks of speculative decoding."""
    started_s: float | None
    """Process start or counter creation, Unix seconds; a change is a restart."""


def cache_config(series: Mapping[str, float]) -> CacheConfig | None:
    """The configuration, `None` when the server does not offer it; the most careful value where engines differ."""
    infos = [labels_of(key) for key in series if key.startswith("vllm:cache_config_info{")]
    if not infos:
        return None
    units = [_unit(labels) for labels in infos]
    unit, label = max(((u or 0, name) for u, name in units), default=(0, ""))
    enabled = [_BOOLS.get(labels.get("enable_prefix_caching", "")) for labels in infos]
    return CacheConfig(
        enabled=None if None in enabled else all(enabled),
        unit=unit or None,
        unit_label=label if unit else "",
        retention=_retention(infos[0]),
        pool_tokens=_count(infos[0].get("kv_cache_size_tokens", "")) or None,
        engines=tuple(sorted({labels.get("engine", "0") for labels in infos})),
    )


_BOOLS = {"True": True, "False": False, "true": True, "false": False}


def _unit(labels: Mapping[str, str]) -> tuple[int | None, str]:
    for name in UNIT_LABELS:
        value = _count(labels.get(name, ""))
        if value:
            return value, name
    return None, ""


def _count(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else None


def _retention(labels: Mapping[str, str]) -> Literal["dense", "sparse", "unknown"]:
    """Sparse retention concerns recurrent states alone: without a state cache every full block is kept."""
    if labels.get("mamba_cache_mode") == "none":
        return "dense"
    interval = labels.get("prefix_cache_retention_interval")
    if interval is None or "mamba_cache_mode" not in labels:
        return "unknown"
    return "dense" if interval == "None" else "sparse"


def cache_counters(series: Mapping[str, float], created: Mapping[str, float] | None = None) -> CacheCounters:
    """The counters of one scrape; `created` are its creation times, by key."""

    def total(*names: str, chosen: Callable[[dict[str, str]], bool] = lambda labels: True) -> float | None:
        for name in names:
            values = [v for key, v in series.items() if key.split("{", 1)[0] == name and chosen(labels_of(key))]
            if values:
                return float(sum(values))
        return None

    return CacheCounters(
        queries=total(*_QUERIES),
        hits=total(*_HITS),
        local_cache_hit=total(
            "vllm:prompt_tokens_by_source_total", chosen=lambda labels: labels.get("source") == "local_cache_hit"
        ),
        prompt_cached=total("vllm:prompt_tokens_cached_total"),
        external_hits=total("vllm:external_prefix_cache_hits_total"),
        prompt_tokens=total("vllm:prompt_tokens_total"),
        requests_finished=total("vllm:request_success_total"),
        preemptions=total("vllm:num_preemptions_total"),
        prefill_s=total("vllm:request_prefill_time_seconds_sum"),
        queue_s=total("vllm:request_queue_time_seconds_sum"),
        running=total("vllm:num_requests_running"),
        waiting=total("vllm:num_requests_waiting"),
        prompt_by_engine={
            labels_of(key).get("engine", ""): value
            for key, value in series.items()
            if key.split("{", 1)[0] == "vllm:prompt_tokens_total"
        },
        drafting=any(key.startswith("vllm:spec_decode_") for key in series),
        started_s=total("process_start_time_seconds") or max((created or {}).values(), default=None),
    )

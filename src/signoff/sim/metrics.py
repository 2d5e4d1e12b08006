"""The metric families of the simulated server, fed by its real scheduler; names, types and labels as in vLLM 0.32."""

import os
import time
from typing import Any

from signoff.sim.exposition import Family, Histogram, Labels, Shown, Summary, labels, render
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings

TTFT = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
TTFT_BOUNDS = (*TTFT, 160.0, 640.0, 2560.0)
ITL = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
LATENCY = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0)
LATENCY_BOUNDS = (*LATENCY, 960.0, 1920.0, 7680.0)
STEP_TOKENS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
HTTP = (0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 7.5, 10, 30, 60)
REASONS = ("stop", "length", "abort", "error", "repetition")
TIERS = ("device", "host", "p2p", "disk", "external_unspecified")
SOURCES = ("local_compute", "local_cache_hit", "external_kv_transfer")
UNCOUNTED = {"/metrics", "/health", "/load", "/ping", "/version", "/server_info"}


def _sizes(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, ... up to `most`."""
    made, power = [], 1
    while power <= most:
        made += [float(step * power) for step in (1, 2, 5) if step * power <= most]
        power *= 10
    return tuple(made)


class Metrics:
    """All families of one server process; a restart makes a new one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.started_s = time.time()
        self.hits_frozen = "prefix-dead-counter" in settings.faults
        self._main = labels(engine="0", model_name=settings.model)
        self._families: list[Shown] = []
        self._process()
        self._scheduler()
        self._tokens()
        self._requests()
        self._cache_info()
        self._http()

    def _with(self, **more: str) -> Labels:
        return labels(engine="0", model_name=self.settings.model, **more)

    def _family(self, name: str, kind: str, says: str, *known: Labels) -> Family:
        family = Family(name, kind, says, *(known or (self._main,)))
        self._families.append(family)
        return family

    def _histogram(self, name: str, says: str, bounds: tuple[float, ...]) -> Histogram:
        histogram = Histogram(f"vllm:{name}", says, bounds, self._main)
        self._families.append(histogram)
        return histogram

    def _process(self) -> None:
        self._resident = self._family("process_resident_memory_bytes", "gauge", "Resident memory size in bytes.", ())
        self._cpu = self._family(
            "process_cpu_seconds", "counter", "Total user and system CPU time spent in seconds.", ()
        )
        self._cpu.created = {}
        start = self._family(
            "process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", ()
        )
        start.set(round(self.started_s, 2), ())
        fds = self._family("process_open_fds", "gauge", "Number of open file descriptors.", ())
        fds.set(64, ())

    def _scheduler(self) -> None:
        self.running = self._family(
            "vllm:num_requests_running", "gauge", "Number of requests in model execution batches."
        )
        self.waiting = self._family("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.")
        reasons = [self._with(reason=reason) for reason in ("capacity", "deferred")]
        self.waiting_by = self._family(
            "vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason.", *reasons
        )
        states = [self._with(sleep_state=state) for state in ("awake", "weights_offloaded", "discard_all")]
        sleep = self._family("vllm:engine_sleep_state", "gauge", "Engine sleep state.", *states)
        sleep.set(1, states[0])
        self.usage = self._family("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.")

    def _tokens(self) -> None:
        def counter(name: str, says: str, *known: Labels) -> Family:
            return self._family(f"vllm:{name}", "counter", says, *known)

        queried = "Prefix cache queries, in terms of number of queried tokens."
        self.queries = counter("prefix_cache_queries", queried)
        self.hits = counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.")
        counter("external_prefix_cache_queries", "External prefix cache queries, in tokens.")
        counter("external_prefix_cache_hits", "External prefix cache hits, in tokens.")
        counter("mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.")
        counter("mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.")
        self.preemptions = counter("num_preemptions", "Cumulative number of preemption from the engine.")
        self.prompt = counter("prompt_tokens", "Number of prefill tokens processed.")
        self.by_source = counter(
            "prompt_tokens_by_source", "Number of prompt tokens by source.", *(self._with(source=s) for s in SOURCES)
        )
        self.prompt_cached = counter("prompt_tokens_cached", "Number of cached prompt tokens (local + external).")
        self.by_tier = counter(
            "prompt_tokens_cached_by_source",
            "Prefix-cache hit tokens by the cache tier that supplied them.",
            *(self._with(source=tier) for tier in TIERS),
        )
        self.generation = counter("generation_tokens", "Number of generation tokens processed.")
        self.success = counter(
            "request_success",
            "Count of successfully processed requests.",
            *(self._with(finished_reason=reason) for reason in REASONS),
        )
        model = self.settings.model
        counter(
            "admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            *(labels(model_name=model, reason=r) for r in ("max_num_queued_reqs", "max_num_queued_tokens")),
        )

    def _requests(self) -> None:
        sizes = _sizes(self.settings.window)
        self.prompt_sizes = self._histogram("request_prompt_tokens", "Number of prefill tokens processed.", sizes)
        self.made_sizes = self._histogram("request_generation_tokens", "Number of generation tokens processed.", sizes)
        self.step_sizes = self._histogram(
            "iteration_tokens_total", "Histogram of number of tokens per engine_step.", STEP_TOKENS
        )
        self.most_sizes = self._histogram(
            "request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", sizes
        )
        self.n = self._histogram("request_params_n", "Histogram of the n request parameter.", (1, 2, 5, 10, 20))
        self.max_tokens = self._histogram(
            "request_params_max_tokens", "Histogram of the max_tokens request parameter.", sizes
        )
        self.ttft = self._histogram(
            "time_to_first_token_seconds", "Histogram of time to first token in seconds.", TTFT_BOUNDS
        )
        self.itl = self._histogram("inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", ITL)
        self.tpot = self._histogram(
            "request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", ITL
        )
        self.phases = {
            phase: self._histogram(f"{phase}_seconds", f"Histogram of {says} for request.", LATENCY_BOUNDS)
            for phase, says in (
                ("e2e_request_latency", "e2e request latency in seconds"),
                ("request_queue_time", "time spent in WAITING phase"),
                ("request_inference_time", "time spent in RUNNING phase"),
                ("request_prefill_time", "time spent in PREFILL phase"),
                ("request_decode_time", "time spent in DECODE phase"),
            )
        }
        self.preempted = self._histogram(
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            (1, 2, 3, 4, 5, 10, 20),
        )
        self.computed_sizes = self._histogram(
            "request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill.", sizes
        )

    def _cache_info(self) -> None:
        settings = self.settings
        hybrid = settings.state_blocks > 0
        told = cache_config(settings) | {"engine": "0"}
        info = self._family(
            "vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig", labels(**told)
        )
        info.set(1, labels(**told))
        self.hybrid = hybrid

    def _http(self) -> None:
        self.http_requests = Family(
            "http_requests", "counter", "Total number of requests by method, status and handler."
        )
        self.request_bytes = Summary("http_request_size_bytes", "Content length of incoming requests by handler.")
        self.response_bytes = Summary("http_response_size_bytes", "Content length of outgoing responses by handler.")
        self.http_highr = Histogram("http_request_duration_highr_seconds", "Latency with many buckets.", HTTP, ())
        self.http_time = Histogram(
            "http_request_duration_seconds", "Latency with few buckets by handler.", (0.1, 0.5, 1)
        )
        self._families += [
            self.http_requests,
            self.request_bytes,
            self.response_bytes,
            self.http_highr,
            self.http_time,
        ]
        kinds = [
            labels(mode=mode, model_name=self.settings.model, outcome=outcome, request_type=kind)
            for mode in ("streaming", "non_streaming")
            for outcome in ("tool_call", "no_tool_call")
            for kind in ("chat_completions", "responses", "other")
        ]
        if self.settings.tool_parser:
            self.parsed = self._family(
                "vllm:tool_call_parser_invocations", "counter", "Total number of ToolParser invocations.", *kinds
            )

    def gauges(self, running: int, waiting: int, usage: float) -> None:
        self.running.set(running, self._main)
        self.waiting.set(waiting, self._main)
        self.waiting_by.set(waiting, self._with(reason="capacity"))
        self.usage.set(usage, self._main)

    def admitted(self, sequence: Sequence) -> None:
        """First time scheduled: queries and hits are counted here."""
        if self.settings.prefix_caching and not sequence.skip_reading:
            self.queries.add(len(sequence.prompt), self._main)
            if not self.hits_frozen:
                self.hits.add(sequence.reported_cached, self._main)
                self.by_tier.add(sequence.reported_cached, self._with(source="device"))

    def stepped(self, tokens: int, preempted: int) -> None:
        self.step_sizes.observe(tokens, self._main)
        if preempted:
            self.preemptions.add(preempted, self._main)

    def first_token(self, sequence: Sequence, seconds: float) -> None:
        cached = 0 if self.hits_frozen else sequence.reported_cached
        self.ttft.observe(seconds, self._main)
        self.prompt.add(len(sequence.prompt), self._main)
        self.prompt_cached.add(cached, self._main)
        self.by_source.add(cached, self._with(source="local_cache_hit"))
        self.by_source.add(len(sequence.prompt) - cached, self._with(source="local_compute"))

    def tokens(self, count: int) -> None:
        self.generation.add(count, self._main)

    def gaps(self, seconds: float, count: int) -> None:
        self.itl.observe(seconds, self._main, count)

    def ended(self, sequence: Sequence, reason: str, now_s: float) -> None:
        main = self._main
        self.success.add(1, self._with(finished_reason=reason))
        self.prompt_sizes.observe(len(sequence.prompt), main)
        self.made_sizes.observe(sequence.generated, main)
        self.most_sizes.observe(sequence.generated, main)
        self.n.observe(1, main)
        self.max_tokens.observe(sequence.max_tokens, main)
        self.preempted.observe(sequence.preemptions, main)
        self.computed_sizes.observe(len(sequence.prompt) - sequence.cached, main)
        scheduled = now_s if sequence.scheduled_s is None else sequence.scheduled_s
        first = now_s if sequence.first_s is None else sequence.first_s
        last = now_s if sequence.last_s is None else sequence.last_s
        self.phases["e2e_request_latency"].observe(now_s - sequence.arrived_s, main)
        self.phases["request_queue_time"].observe(scheduled - sequence.arrived_s, main)
        self.phases["request_prefill_time"].observe(max(0.0, first - scheduled), main)
        self.phases["request_decode_time"].observe(max(0.0, last - first), main)
        self.phases["request_inference_time"].observe(max(0.0, last - scheduled), main)
        self.tpot.observe((last - first) / (sequence.generated - 1) if sequence.generated > 1 else 0.0, main)

    def parsed_tools(self, streamed: bool, found: bool) -> None:
        if self.settings.tool_parser:
            pairs = labels(
                mode="streaming" if streamed else "non_streaming",
                model_name=self.settings.model,
                outcome="tool_call" if found else "no_tool_call",
                request_type="chat_completions",
            )
            self.parsed.add(1, pairs)

    def answered(self, method: str, handler: str, status: int, seconds: float, received: int, sent: int) -> None:
        """One HTTP request is through; handlers that the middleware does not watch are left out."""
        if handler in UNCOUNTED:
            return
        self.http_requests.add(1, labels(handler=handler, method=method, status=f"{status // 100}xx"))
        self.request_bytes.observe(received, labels(handler=handler))
        self.response_bytes.observe(sent, labels(handler=handler))
        self.http_highr.observe(seconds, ())
        self.http_time.observe(seconds, labels(handler=handler, method=method))

    def text(self) -> bytes:
        times = os.times()
        self._cpu.set(round(times.user + times.system, 2), ())
        self._resident.set(8_123_456_512 + self.generation.values[self._main] * 8, ())
        return render(self._families)


def cache_config(settings: Settings) -> dict[str, str]:
    """The labels of `cache_config_info`, without the engine; values are Python's repr."""
    hybrid = settings.state_blocks > 0
    told: dict[str, Any] = {
        "block_size": settings.unit,
        "cache_dtype": "fp8" if hybrid else "auto",
        "cache_hit_alignment_tokens": settings.unit if hybrid else None,
        "effective_attention_block_size": settings.unit,
        "enable_mamba_shared_prefix_checkpoint": hybrid and settings.sparse,
        "enable_prefix_caching": settings.prefix_caching,
        "gpu_memory_utilization": 0.95,
        "hash_block_size": settings.unit if hybrid else None,
        "is_attention_free": False,
        "kv_cache_dtype_skip_layers": [],
        "kv_cache_layout": None,
        "kv_cache_max_concurrency": settings.concurrency_max,
        "kv_cache_memory_bytes": None,
        "kv_cache_size_tokens": settings.kv_tokens,
        "kv_offloading_backend": "native",
        "kv_offloading_size": None,
        "mamba_block_size": settings.unit if hybrid else None,
        "mamba_cache_dtype": "auto",
        "mamba_cache_mode": "align" if hybrid and settings.prefix_caching else "none",
        "mamba_page_size_padded": None,
        "mamba_ssm_cache_dtype": "float32",
        "num_cpu_blocks": None,
        "num_gpu_blocks": settings.kv_blocks + 1,
        "num_gpu_blocks_override": None,
        "prefix_cache_retention_interval": 0 if settings.sparse else None,
        "prefix_caching_hash_algo": "sha256",
        "prefix_match_unit": None,
        "sliding_window": None,
        "use_kda_recoverssm": False,
        "use_replayssm": False,
        "user_specified_block_size": False,
    }
    return {key: str(value) for key, value in told.items()}

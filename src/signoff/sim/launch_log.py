"""The launch log of the simulated server, in vLLM's line formats, written as things happen and with their times."""

import time
from pathlib import Path

from signoff.sim.host_facts import Host, non_default_args
from signoff.sim.settings import Settings

KV_BLOCK_BYTES = 24 * 1536 * 576
"""One page of the K3 pool: 24 attention layers of one group, 1536 tokens, 576 bytes a token and layer in fp8."""
WEIGHTS_GIB = 181.62
GIB = 1 << 30
ROUTES: tuple[tuple[str, str], ...] = (
    ("/load", "GET"),
    ("/version", "GET"),
    ("/health", "GET"),
    ("/metrics", "GET"),
    ("/tokenize", "POST"),
    ("/detokenize", "POST"),
    ("/v1/models", "GET"),
    ("/ping", "GET"),
    ("/ping", "POST"),
    ("/v1/chat/completions", "POST"),
    ("/v1/completions", "POST"),
)


class LaunchLog:
    """Appends lines to the log file; process ids are those of the fake host."""

    def __init__(self, path: Path, settings: Settings, host: Host, *, pid: int, port: int) -> None:
        self.settings, self.host, self.pid, self.port = settings, host, pid, port
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1)

    def close(self) -> None:
        self._file.close()

    def say(self, process: str, place: str, text: str, level: str = "INFO") -> None:
        """One entry of a process; every line of `text` gets the prefix, as vLLM does it."""
        stamp = time.strftime("%m-%d %H:%M:%S")
        for line in text.split("\n"):
            self._file.write(f"({process} pid={self._pid_of(process)}) {level} {stamp} [{place}] {line}\n")

    def plain(self, text: str) -> None:
        """A line of another library, without prefix."""
        self._file.write(text + "\n")

    def _pid_of(self, process: str) -> int:
        if process == "APIServer":
            return self.pid
        return self.pid + 1 if process == "EngineCore" else self.pid + 2 + int(process.rpartition("TP")[2])

    def api(self, place: str, text: str, level: str = "INFO") -> None:
        self.say("APIServer", place, text, level)

    def engine(self, place: str, text: str, level: str = "INFO") -> None:
        self.say("EngineCore", place, text, level)

    def workers(self, place: str, text: str, level: str = "INFO") -> None:
        for rank in range(self.ranks):
            self.say(f"Worker_TP{rank}", place, text, level)

    @property
    def ranks(self) -> int:
        return max(1, len(self.host.gpus))

    @property
    def kv_gib(self) -> float:
        return self.settings.kv_blocks * KV_BLOCK_BYTES / GIB

    def begin(self) -> None:
        """From the logo to the engine's configuration."""
        s = self.settings
        logo: tuple[str, ...] = ("", "       █     █     █▄   ▄█", f" ▄▄ ▄█ █     █     █ ▀▄▀ █  version {s.version}")
        logo += (f"  █▄█▀ █     █     █     █  model   {s.root}", "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀", "")
        self.api("api_utils.py:347", "\n".join(logo))
        arguments = non_default_args(self.host, self.port)
        self.api("api_utils.py:286", f"non-default args: {arguments}")
        self.api("model.py:733", f"Resolved architecture: {s.architecture}")
        self.api("model.py:2152", f"Using max model len {s.window}")
        self.api("scheduler.py:308", f"Chunked prefill is enabled with max_num_batched_tokens={s.step_tokens}.")
        if s.prefix_caching:
            mode = f"Mamba cache mode is set to 'align' for {s.architecture} by default when prefix caching is enabled"
            self.api("config.py:689", mode)
        else:
            self.api("config.py:706", "Mamba cache mode is set to 'none' when prefix caching is disabled", "WARNING")
        self.api(
            "interface.py:1097",
            f"Setting attention block size to {s.unit} tokens to ensure that attention page size is "
            ">= mamba page size.",
        )
        self.engine("core.py:133", self._configuration())
        self.engine(
            "multiproc_executor.py:153",
            "DP group leader: node_rank=0, node_rank_within_dp=0, master_addr=127.0.0.1, "
            f"mq_connect_ip=10.0.0.11 (local), world_size={self.ranks}, local_world_size={self.ranks}",
        )

    def _configuration(self) -> str:
        s, options = self.settings, self.host.options
        parser = s.reasoning_parser or ""
        return (
            f"Initializing a V1 LLM engine (v{s.version}) with config: model='{s.root}', speculative_config=None, "
            f"tokenizer='{s.root}', skip_tokenizer_init=False, tokenizer_mode=kimi_k3, revision=None, "
            f"tokenizer_revision=None, trust_remote_code=True, dtype=torch.bfloat16, max_seq_len={s.window}, "
            f"download_dir=None, load_format={options.get('load-format', 'auto')}, tensor_parallel_size={self.ranks}, "
            "pipeline_parallel_size=1, data_parallel_size=1, decode_context_parallel_size=1, dcp_comm_backend=ag_rs, "
            "disable_custom_all_reduce=False, quantization=compressed-tensors, enforce_eager=False, "
            f"kv_cache_dtype={options.get('kv-cache-dtype', 'auto')}, device_config=cuda, "
            "structured_outputs_config=StructuredOutputsConfig(backend='auto', "
            f"disable_any_whitespace=False, reasoning_parser='{parser}', enable_in_reasoning=False), seed=0, "
            f"served_model_name={s.model}, enable_prefix_caching={s.prefix_caching}, enable_chunked_prefill=True, "
            "pooler_config=None, compilation_config={'mode': <CompilationMode.VLLM_COMPILE: 3>, 'cudagraph_mode': "
            "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2, 4, 8, 16, 32, 64, 128, 256]}"
        )

    def ranks_join(self) -> None:
        """Every rank takes its place and finds its collectives."""
        for rank in range(self.ranks):
            name = f"Worker_TP{rank}"
            self.say(
                name,
                "parallel_state.py:1906",
                f"world_size={self.ranks} rank={rank} local_rank={rank} "
                "distributed_init_method=tcp://127.0.0.1:51677 backend=nccl",
            )
        nccl = next((lib for lib in self.host.mapped if "libnccl.so" in lib.path), None)
        version = (
            nccl.text.split()[-1].partition("+")[0] if nccl else self.host.wheels.get("nvidia-nccl-cu13", "2.30.7")
        )
        self.say("Worker_TP0", "pynccl.py:148", f"vLLM is using nccl=={version}")
        for rank in range(self.ranks):
            self.say(
                f"Worker_TP{rank}",
                "parallel_state.py:2350",
                f"rank {rank} in world size {self.ranks} is assigned as DP rank 0, PP rank 0, PCP rank 0, "
                f"TP rank {rank}, ETP rank {rank}, EP rank N/A, EPLB rank N/A",
            )

    def weights_begin(self) -> None:
        zero = "Worker_TP0"
        self.say(zero, "gpu_worker.py:402", "Using V2 Model Runner")
        self.say(zero, "cuda.py:507", "Using FLASHMLA attention backend out of potential backends: ['FLASHMLA'].")
        self.say(zero, "selector.py:118", "Using FLASHINFER MLA prefill backend.")
        self.say(zero, "mxfp4.py:377", "Using 'FLASHINFER_TRTLLM_MXFP4_MXFP8' Mxfp4 MoE backend.")
        self.say(zero, "kda.py:96", "Using FlashKDA KDA prefill backend.")
        self.say(zero, "kda.py:121", "Using native fused KDA decode backend.")
        self.workers("model_runner.py:381", "Loading model from scratch...")
        self.workers("base_loader.py:82", "Initializing model took 3.418205 seconds")
        self.plain("Loading safetensors checkpoint shards:   0% Completed | 0/96 [00:00<?, ?it/s]")

    def weights_end(self) -> None:
        self.plain("Loading safetensors checkpoint shards: 100% Completed | 96/96 [02:08<00:00,  1.34s/it]")
        self.workers("default_loader.py:501", "Loading weights took 128.47 seconds")
        for rank in range(self.ranks):
            seconds = 141.2 + rank * 0.137
            text = f"Model loading took {WEIGHTS_GIB} GiB memory and {seconds:.6f} seconds"
            self.say(f"Worker_TP{rank}", "model_runner.py:425", text)

    def cache_ready(self) -> None:
        s = self.settings
        self.say("Worker_TP0", "monitor.py:48", "torch.compile took 31.06 s in total")
        self.workers("gpu_worker.py:760", f"Available KV cache memory: {self.kv_gib:.2f} GiB")
        self.engine(
            "kv_cache_utils.py:2327",
            f"GPU KV cache size: {s.kv_tokens:,} tokens, Maximum concurrency for {s.window:,} tokens per request: "
            f"{s.concurrency_max:.2f}x",
        )
        self.plain("Capturing CUDA graphs (decode, FULL): 100%|██████████| 9/9 [00:11<00:00,  1.27s/it]")
        self.workers("model_runner.py:1128", "Graph capturing finished in 19 secs, took 1.94 GiB")
        self.engine(
            "core.py:386",
            "init engine (profile, create kv cache, warmup model) took 94.51 s (compilation: 31.06 s — language_model: "
            "31.06 s, encoder: 0.00 s)",
        )

    def ready(self) -> None:
        self.api("entry.py:136", "Supported tasks: ['generate']")
        if self.settings.tool_parser:
            self.api("parser_manager.py:38", '"auto" tool choice has been enabled.')
        routes = ROUTES
        if self.settings.dev_mode:
            says = "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in production!"
            self.api("__init__.py:44", says, "WARNING")
            routes += (("/reset_prefix_cache", "POST"),)
        self.api("entry.py:140", f"Starting vLLM server on http://0.0.0.0:{self.port}")
        self.api("launcher.py:186", "Available routes are:")
        for path, methods in routes:
            self.api("launcher.py:195", f"Route: {path}, Methods: {methods}")
        self.plain(f"INFO:     Started server process [{self.pid}]")
        self.plain("INFO:     Waiting for application startup.")
        self.plain("INFO:     Application startup complete.")

    def launch(self) -> None:
        """A launch that goes well, whole."""
        self.begin()
        self.ranks_join()
        self.weights_begin()
        self.weights_end()
        self.cache_ready()
        self.ready()

    def stop(self) -> None:
        self.plain("INFO:     Shutting down")
        self.plain("INFO:     Waiting for application shutdown.")
        self.plain("INFO:     Application shutdown complete.")
        self.plain(f"INFO:     Finished server process [{self.pid}]")

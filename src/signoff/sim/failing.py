"""What a vLLM server writes when it fails: launches that end early, and an engine that dies while serving."""

from signoff.sim.engine import DEAD
from signoff.sim.launch_log import GIB, KV_BLOCK_BYTES, WEIGHTS_GIB, LaunchLog

LOAD_FAULTS = ("load-oom", "load-kv-too-small", "load-shard-truncated")
_TRACE = "Traceback (most recent call last):"
Frames = tuple[tuple[str, int, str], ...]
_SITE = "/usr/local/lib/python3.12/dist-packages/vllm"


def _trace(*frames: tuple[str, int, str], error: str) -> str:
    lines = [_TRACE]
    for path, line, name in frames:
        lines += [f'  File "{_SITE}/{path}", line {line}, in {name}', f"    {name}(...)"]
    return "\n".join([*lines, error])


def failed_launch(log: LaunchLog, fault: str) -> None:
    """The launch log of a load fault, to the exit of the server."""
    log.begin()
    log.ranks_join()
    log.weights_begin()
    if fault == "load-kv-too-small":
        _kv_too_small(log)
        return
    rank = 3 if fault == "load-oom" else 5
    if fault == "load-oom":
        error = (
            f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.62 GiB. GPU {rank} has a total capacity "
            f"of {_total_gib(log):.2f} GiB of which 1.07 GiB is free. Process {log.pid + 2 + rank} has "
            f"{_total_gib(log) - 1.07:.2f} GiB memory in use. Of the allocated memory {_total_gib(log) - 4.4:.2f} GiB "
            "is allocated by PyTorch, and 812.50 MiB is reserved by PyTorch but unallocated. If reserved but "
            "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid "
            "fragmentation."
        )
        frames: Frames = (
            ("v1/worker/gpu_worker.py", 512, "load_model"),
            ("v1/worker/gpu/model_runner.py", 398, "load_model"),
            ("model_executor/layers/quantization/mxfp4.py", 418, "create_weights"),
        )
    else:
        log.plain("Loading safetensors checkpoint shards:  61% Completed | 59/96 [01:19<00:49,  1.34s/it]")
        error = "safetensors_rust.SafetensorError: Error while deserializing header: MetadataIncompleteBuffer"
        frames = (
            ("v1/worker/gpu_worker.py", 512, "load_model"),
            ("model_executor/model_loader/default_loader.py", 488, "load_weights"),
            ("model_executor/model_loader/weight_utils.py", 1204, "fastsafetensors_weights_iterator"),
        )
    worker = f"Worker_TP{rank}"
    log.say(
        worker, "multiproc_executor.py:953", "WorkerProc failed to start.\n" + _trace(*frames, error=error), "ERROR"
    )
    text = (
        "WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause."
    )
    frames = (
        ("v1/engine/core.py", 1488, "run_engine_core"),
        ("v1/executor/multiproc_executor.py", 214, "_init_executor"),
    )
    error = f"Exception: {text}"
    log.engine("core.py:1510", "EngineCore failed to start.\n" + _trace(*frames, error=error), "ERROR")
    _exit(log)


def _kv_too_small(log: LaunchLog) -> None:
    log.weights_end()
    window = log.settings.window
    blocks = -(-window // log.settings.unit) + log.settings.state_blocks
    needed, available = blocks * KV_BLOCK_BYTES / GIB, blocks * 0.41 * KV_BLOCK_BYTES / GIB
    log.workers("gpu_worker.py:760", f"Available KV cache memory: {available:.2f} GiB")
    error = (
        f"ValueError: To serve at least one request with the model's max seq len ({window}), ({needed:.2f} GiB KV "
        f"cache is needed, which is larger than the available KV cache memory ({available:.2f} GiB). Based on the "
        f"available memory, the estimated maximum model length is {int(blocks * 0.41 - 3) * log.settings.unit}. Try "
        "increasing `gpu_memory_utilization` (which also controls CPU memory on the CPU backend) or decreasing "
        "`max_model_len` when initializing the engine. See "
        "https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    )
    frames = (
        ("v1/engine/core.py", 1488, "run_engine_core"),
        ("v1/engine/core.py", 371, "_initialize_kv_caches"),
        ("v1/core/kv_cache_utils.py", 1030, "check_enough_kv_cache_memory"),
    )
    log.engine("core.py:1510", "EngineCore failed to start.\n" + _trace(*frames, error=error), "ERROR")
    _exit(log)


def _exit(log: LaunchLog) -> None:
    error = (
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {'EngineCore': 1}"
    )
    frames = (
        ("entrypoints/openai/api_server.py", 612, "run_server"),
        ("v1/engine/utils.py", 1431, "wait_for_engine_startup"),
    )
    for line in _trace(*frames, error=error).split("\n"):
        log.plain(f"(APIServer pid={log.pid}) {line}")


def _total_gib(log: LaunchLog) -> float:
    return log.host.gpus[0].memory_mib / 1024 if log.host.gpus else WEIGHTS_GIB


def engine_death(log: LaunchLog, why: str, *, running: int, waiting: int, usage: float) -> None:
    """The end of an engine while serving: `why` is the name of the error."""
    if "OutOfMemory" in why:
        error = (
            f"{why}: CUDA out of memory. Tried to allocate 9.38 GiB. GPU 0 has a total capacity of "
            f"{_total_gib(log):.2f} GiB of which 3.11 GiB is free. "
            f"Process {log.pid + 2} has {_total_gib(log) - 3.11:.2f} GiB memory in use."
        )
        frame = ("model_executor/layers/attention/mla_attention.py", 1671, "_compute_prefill_context")
    else:
        error = f"{why}: CUDA error: an illegal memory access was encountered"
        frame = ("v1/worker/gpu/model_runner.py", 902, "sample_tokens")
    frames = (("v1/worker/gpu_worker.py", 831, "execute_model"), frame)
    text = "WorkerProc hit an exception.\n" + _trace(*frames, error=error)
    log.say("Worker_TP0", "multiproc_executor.py:1063", text, "ERROR")
    log.engine(
        "dump_input.py:79",
        "Dumping scheduler output for model execution: SchedulerOutput(...), "
        f"SchedulerStats(num_running_reqs={running}, num_waiting_reqs={waiting}, kv_cache_usage={usage:.6f})",
        "ERROR",
    )
    frames = (
        ("v1/engine/core.py", 1499, "run_engine_core"),
        ("v1/executor/multiproc_executor.py", 402, "get_response"),
    )
    text = "EngineCore encountered a fatal error.\n" + _trace(
        *frames, error=f"RuntimeError: Worker failed with error '{error}'"
    )
    log.engine("core.py:1512", text, "ERROR")
    dead = f"vllm.v1.engine.exceptions.EngineDeadError: {DEAD}"
    frames = (("v1/engine/async_llm.py", 871, "output_handler"), ("v1/engine/core_client.py", 1092, "get_output_async"))
    log.api("async_llm.py:906", "AsyncLLM output_handler failed.\n" + _trace(*frames, error=dead), "ERROR")


def hung_step(log: LaunchLog) -> None:
    """What a rank that never answers leaves in the log after a minute; said at once here, for the clock is real."""
    text = (
        "No available shared memory broadcast block found in 60 seconds. This typically happens when some processes "
        "are hanging or doing some time-consuming work (e.g. compilation, weight/kv cache quantization)."
    )
    log.engine("shm_broadcast.py:520", text)

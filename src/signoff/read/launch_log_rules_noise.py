"""Rules for lines that look alarming and are not, and for what makes a healthy server slower or open."""

from signoff.read.launch_log_rule import Rule, exposure, fallback, noise, weakness

NOISE: tuple[Rule, ...] = (
    noise(
        "gloo_loopback",
        r"Unable to resolve hostname to a \(local\) address|Using the loopback address as fallback",
        "Gloo could not resolve the host's name and uses loopback, which is right on one node; it matters only when "
        "ranks on another node then fail to connect.",
    ),
    noise("gloo_connected", r"\[Gloo\] Rank \d+ is connected to \d+ peer ranks", "Ranks found each other."),
    noise(
        "shm_wait",
        r"No available shared memory broadcast block found",
        "A rank is busy for over a minute: normal while compiling, tuning or loading, a symptom only when a time-out "
        "or death follows.",
    ),
    noise(
        "environment_name",
        r"Unknown vLLM environment variable detected: (?P<name>VLLM_\w*?(?:_SERVICE_HOST|_SERVICE_PORT\w*|_PORT|"
        r"_PORT_\d+\w*|_TCP\w*|_ADDR|_PROTO|VLLM_BUILD_\w+|BUILD\w*|_IMAGE\w*|_COMMIT|_TAG|_PIPELINE|_VERSION|_URL))"
        r"(?:\s|$|\")",
        "A variable of the platform (service discovery, build label) that only happens to begin with VLLM_.",
    ),
    noise(
        "teardown",
        r"destroy_process_group\(\) was not called|There appear to be \d+ leaked (?:semaphore|shared_memory) objects|"
        r"nanobind: |resource_tracker: |"
        r"\[shutdown\]|force killing|Exception ignored in|sys\.meta_path is None|"
        r"process group has NOT been destroyed|TCPStore[^\n]*(?:Broken pipe|Connection (?:reset|was closed))|"
        r"Failed to check the \"should dump\" flag|recvValue failed|sendBytes failed",
        "Clean-up at the end of a process; never a cause.",
    ),
    noise(
        "graph_memory",
        r"CUDA graph memory profiling is enabled|CUDA graph pool memory:|Estimated CUDA graph memory|"
        r"is equivalent to --gpu-memory-utilization",
        "An accounting note about the memory share; nothing failed.",
    ),
    noise("padding", r"padding layers?, may waste at most [\d.]+%|Padding mamba page size", "A cost of alignment."),
    noise(
        "graph_mode",
        r"CUDAGraphMode\.\w+ is not supported with[^\n]*setting cudagraph_mode|setting cudagraph_mode=|"
        r"[Cc]udagraph mode[^\n]*(?:overrid|downgrad|fall)|Skipping CUDA graph capture|"
        r"cudagraph_mode[^\n]*(?:NONE|PIECEWISE)",
        "The attention backend supports fewer CUDA-graph modes; the server picks one it has.",
    ),
    noise(
        "kv_scale",
        r"Using KV cache scaling factor 1\.0|does not provide a q scaling factor|uncalibrated q_scale|"
        r"[Uu]sing default (?:k|v|q)_?scale|k_scale|scaling factors? (?:is|are) not|"
        r"Found \w+_scale in the checkpoint[^\n]*|may cause accuracy (?:issues|drop)[^\n]*(?:scal|fp8)",
        "The checkpoint brings no fp8 cache scales, 1.0 is used: a matter of quality checks, not of start-up.",
    ),
    noise(
        "autotune",
        r"\[?Auto[Tt]un(?:er|ing)\]?:? ?(?:Tuning|Autotuning|process)|Tuning flashinfer|"
        r"flashinfer\.jit: \[Autotuner\]|Autotuning process (?:starts|ends)|FlashInfer autotune|"
        r"AUTOTUNE \w+\(|Not enough SMs to use max_autotune",
        "Kernels are being timed on the first start; it takes minutes and ends by itself.",
    ),
    noise(
        "eager",
        r"Enforce eager set, disabling|Inductor compilation was disabled by user settings|"
        r"CUDA graph is not supported on|--enforce-eager",
        "Asked for by the launch.",
    ),
    noise(
        "python_warning",
        r"(?:Future|Deprecation|PendingDeprecation|User|Syntax|Resource|Runtime)Warning: |"
        r"is deprecated (?:and|,|since|in favor|as of|;)|has been deprecated|will be (?:removed|deprecated) in|"
        r"pynvml package is deprecated|warnings\.warn\(|DeprecationWarning",
        "A Python library announces a change; it has no effect on this run.",
    ),
    noise(
        "tokenizer",
        r"[Tt]okenizer[^\n]*(?:slow|might be|regex|TOKENIZERS_PARALLELISM)|Special tokens have been added|"
        r"incorrect regex pattern|huggingface/tokenizers: The current process just got forked|"
        r"Using a slow tokenizer|Using fallback chat template content format|"
        r"chat template content format|[Dd]efault (?:vLLM )?sampling parameters have been overridden|"
        r"Using default chat sampling params|generation_config|Token indices sequence length is longer|"
        r"Image ?Processor\w*[^\n]*(?:slow|fast|deprecated)|use_fast",
        "A note about the tokenizer or the model's own defaults.",
    ),
    noise(
        "triton_cpu",
        r"Triton is (?:not )?installed|Model Runner V2 (?:requires|does not yet support)[^\n]*|Reset SSM cache type|"
        r"triton[- ]cpu|libtcmalloc is not found|libiomp is not found|NUMA binding: Using|numa_node|"
        r"Failed to get NUMA|Reducing Torch threads|Reducing Torch parallelism",
        "How this build runs on this machine; nothing failed.",
    ),
    noise(
        "request_error",
        r"Exception caught\. Request id: ?|Ignored error while writing commit hash|Invalid HTTP request received|"
        r"Ignore import error when loading|api_server_count more than 1; disabling stats|"
        r"The following fields were present in the request but ignored",
        "One request was refused; the answer says why.",
    ),
    noise(
        "spawn",
        r"(?:We must use|[Oo]verrid\w+)[^\n]*`?spawn`?|VLLM_WORKER_MULTIPROC_METHOD|"
        r"Reducing number of|Auto-prefetch is disabled|Found ulimit of \d+ and failed to automatically increase",
        "How processes are started on this machine.",
    ),
    noise(
        "compile_cache",
        r"torch\.compile[^\n]*cache|Using cache directory|Compiling a graph for|Directly load the compiled graph|"
        r"recompile_limit|torch\._dynamo|Unable to (?:load|use) (?:AOT|compile) cache",
        "Compilation and its cache.",
    ),
    noise(
        "allreduce_expected",
        r"[Cc]ustom all-?reduce is disabled (?:because|due)[^\n]*(?:more than two PCIe|PCIe-only|"
        r"unsupported world size)|"
        r"disable_custom_all_reduce=True|SymmMemCommunicator: [^\n]*not supported|"
        r"Device capability[^\n]*not supported, communicator is not available",
        "A faster path for small reductions does not exist on this hardware; NCCL is used.",
    ),
    noise("tensorfloat", r"TensorFloat32 tensor cores[^\n]*available but not enabled", "A hint for training code."),
    noise(
        "model_note",
        r"Casting torch\.\w+ to torch\.\w+|Downcasting torch\.|Upcasting|Detected the chat template|"
        r"max_num_batched_tokens[^\n]*(?:overrid|default)|Async scheduling[^\n]*|Chunked prefill is enabled|"
        r"Turning off (?:hybrid|async)|Using max model len|Defaulting to use (?:mp|ray)|"
        r"Mamba cache mode is set to 'align'|Prefix caching in Mamba cache[^\n]*experimental|"
        r"Unexpected error during package walk|Attention backend not (?:explicitly )?specified|"
        r"Current vLLM config is not set|`torch_dtype` is deprecated|"
        r"is currently (?:experimental|in beta)|The argument[^\n]*is deprecated",
        "A note about how the model is run.",
    ),
    noise(
        "nvidia_entry",
        r"The NVIDIA Driver was not detected\.? +GPU functionality will not be available[^\n]*--gpus|"
        r"NVIDIA_VISIBLE_DEVICES|This container image and its contents are governed by",
        "The banner of a base image.",
    ),
    noise("hub", r"unauthenticated requests to the HF Hub|HF_TOKEN|XetHub|hf_transfer|Xet Storage is enabled",
          "A note of the download library."),
)  # fmt: skip

SPECIAL: tuple[Rule, ...] = (
    noise(
        "nccl_plugin",
        r"(?:NET|TUNER|PROFILER|ENV)/Plugin|No plugin found|libnccl-(?:net|tuner|profiler)\S*\.so|"
        r"Failed to find ncclNetPlugin|ncclNetPlugin|MSCCL|using GPU \d+ (?:as device used by|to perform barrier)",
        "NCCL looks for optional plug-ins and goes on with what it has built in.",
    ),
    fallback(
        "autotune_oom",
        r"\[Auto[Tt]uner\]:? ?OOM detected, falling back to default tactic",
        "Tuning ran out of memory and slower kernels are used.",
    ),
    noise(
        "nvidia_smi_idle",
        r"Persistence-M|persistence mode is disabled",
        "Persistence mode matters for start-up latency only.",
    ),
)

WEAKNESSES: tuple[Rule, ...] = (
    exposure(
        "dev_endpoints",
        r"SECURITY WARNING: Development endpoints are enabled|VLLM_SERVER_DEV_MODE",
        "Anyone who reaches the port may reset caches, sleep the engine or change weights.",
    ),
    exposure("insecure", r"SECURITY WARNING[^\n]*|allow_insecure|VLLM_ALLOW_INSECURE_SERIALIZATION",
             "The launch opens something that should not be open in production."),
    weakness(
        "environment_unknown",
        r"Unknown vLLM environment variable detected: (?P<name>\w+)",
        "A variable that this version does not know: a typing error or another version's switch, and then a setting "
        "of the recipe is not in force.",
    ),
    weakness(
        "allreduce_p2p",
        r"[Cc]ustom all-?reduce is disabled (?:because|due)[^\n]*(?:P2P|peer)|"
        r"[Cc]ustom (?:all-?reduce|collectives?) (?:is|are) disabled[^\n]*|custom_all_reduce[^\n]*(?:disabled|failed)",
        "GPUs lack peer access; on a machine with NVLink that points at IOMMU, ACS or the topology.",
    ),
    weakness("compiled_late", r"kernel JIT compilation during inference",
             "A kernel was compiled while requests waited: the warm-up did not cover this shape."),
    weakness("moe_config", r"Using default MoE config\. Performance might be sub-optimal|Config file not found at "
             r"\S*(?:moe|fused)[^\n]*|Using default W8A8 Block FP8 kernel config",
             "No tuned kernel table for this GPU and shape: slower, not wrong."),
    fallback("transformers_fallback", r"has no vLLM implementation, falling back to Transformers",
             "The model runs on the generic implementation, much slower."),
    fallback("flashinfer_workspace", r"Failed to initialize FlashInfer[^\n]*workspace",
             "The fused all-reduce is not in use."),
    fallback("fallback", r"[Ff]all(?:ing|s|en)?[ -]?back(?: to)?[^\n]*|\bfallback\b[^\n]*",
             "A wanted path is not available and another is used."),
    weakness("disk_cache", r"Weight cache[^\n]*disk loading|Time spent downloading weights", "Loading was slower."),
)  # fmt: skip

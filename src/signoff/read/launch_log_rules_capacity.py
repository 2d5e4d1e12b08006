"""Rules for weights, layout, memory, and what goes wrong once the server serves."""

from signoff.core.words import Cause, Phase
from signoff.read.launch_log_rule import Rule, envelope, failure, weakness

_TOPO, _LONG, _CONC, _SOAK = Cause.TOPOLOGY, Cause.LONG_INPUT, Cause.CONCURRENCY, Cause.SUSTAINED
_PARSER, _PREFIX, _GATEWAY, _CLIENT = Cause.MODEL_PARSER, Cause.PREFIX_CACHE, Cause.GATEWAY, Cause.CLIENT
_LOAD, _WARM = Phase.LOAD, Phase.WARMUP

MEMORY: tuple[Rule, ...] = (
    failure(
        "gpu_occupied",
        r"Free memory on device ?\S* \((?P<free_gib>[\d.]+)/(?P<total_gib>[\d.]+) GiB\) on startup is less than "
        r"desired GPU memory utilization \((?P<utilization>[\d.]+),? ?(?P<wanted_gib>[\d.]+)?",
        _TOPO,
        "The GPU does not have the memory free that the launch claims: another process holds it, or the share is set "
        "too high.",
        _LOAD,
    ),
    failure(
        "memory_moved",
        r"Error in memory profiling|[Ii]nitial free memory[^\n]*current free memory",
        Cause.ENVIRONMENT,
        "Memory changed while it was being measured: another process on the GPU.",
        _WARM,
    ),
    failure(
        "kv_none_left",
        r"No available memory for the cache blocks|(?:available|Available) KV cache memory[^\n]*-\d|"
        r"Not enough memory\. Please try to increase --mem-fraction-static|"
        r"max_total_num_tokens[^\n]*(?:<=? ?0|negative)",
        _TOPO,
        "After weights, activations and graphs nothing is left for the cache.",
        _WARM,
    ),
    failure(
        "kv_window_too_long",
        r"To serve at least one request with the models?'?s? ?max seq len \((?P<window>\d+)\),? ?\(?"
        r"(?P<needed_gib>[\d.]+) GiB KV cache is needed, which is larger than the available KV cache memory "
        r"\((?P<available_gib>[\d.]+) GiB\)(?:[^\n]*estimated maximum model length is (?P<fits>\d+))?",
        _LONG,
        "One request of the declared window needs more cache than there is.",
        _LOAD,
    ),
    failure(
        "kv_window_too_long_tokens",
        r"max seq len \((?P<window>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache "
        r"\((?P<fits>\d+)\)|larger than the maximum number of tokens that can be stored in (?:the )?KV cache",
        _LONG,
        "One request of the declared window needs more cache than there is.",
        _LOAD,
    ),
    failure(
        "window_over_model",
        r"User-specified max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len",
        _LONG,
        "The launch asks for a longer window than the model was made for.",
        _LOAD,
    ),
    failure(
        "state_slots",
        r"max_num_seqs \((?P<asked>\d+)\) exceeds (?:the )?available (?P<kind>Mamba|KDA|state|linear)[^\n]*?blocks? "
        r"\((?P<slots>\d+)\)|exceeds available Mamba cache blocks",
        _LONG,
        "Each decoding request needs one state block of the hybrid model, and fewer exist than the launch admits.",
        _WARM,
    ),
    weakness(
        "state_slots_capped",
        r"max_running_requests is capped to (?P<slots>\d+)[^\n]*|max_num_seqs (?:is )?(?:reduced|capped|limited)[^\n]*",
        "Fewer requests can run at once than were configured: state or cache slots bound it.",
        _CONC,
        Phase.CONCURRENCY,
    ),
    failure(
        "oom_sampler",
        r"out of memory occurred when warming up sampler[^\n]*",
        _TOPO,
        "The sampler's warm-up with all sequences did not fit: lower max-num-seqs or the memory share.",
        _WARM,
    ),
    failure(
        "oom_load",
        r"Failed to load model - not enough GPU memory|Loading the model requires more memory",
        _TOPO,
        "The weights of one rank do not fit its GPU.",
        _LOAD,
    ),
    failure(
        "oom_capture",
        r"(?:Capture CUDA graph failed|CUDA graph capture[^\n]*(?:out of memory|failed)|"
        r"out of memory[^\n]*(?:captur|graph))[^\n]*",
        _TOPO,
        "The reserve for CUDA graphs was too small.",
        _WARM,
    ),
    failure(
        "oom",
        r"(?:CUDA|HIP|XPU|NPU) out of memory|torch\.OutOfMemoryError|torch\.cuda\.OutOfMemoryError|"
        r"CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|CUDA error: out of memory|Cuda failure 2\b|"
        r"CUBLAS_STATUS_ALLOC_FAILED|Out of memory allocating \d+ bytes",
        Cause.NONE,
        "The GPU had no memory left for an allocation.",
    ),
    failure(
        "oom_allocator",
        r"memory allocation failed with OOM on device \d+ while trying to allocate (?P<asked_bytes>\d+) bytes "
        r"\(free: (?P<free_bytes>\d+), total: (?P<total_bytes>\d+)\)",
        Cause.NONE,
        "The GPU had no memory left for an allocation.",
    ),
    failure(
        "host_oom",
        r"Out of memory: Killed process|oom-kill:|oom_reaper|OOMKilled|Memory cgroup out of memory|"
        r"exit code: -9\b|died[^\n]*exit ?code:? -9|was killed due to the node running low on memory|"
        r"ray\.exceptions\.OutOfMemoryError|Cannot allocate memory|std::bad_alloc|Unable to allocate[^\n]*array",
        _SOAK,
        "Host memory ran out and the kernel killed a process.",
    ),
)

WEIGHTS: tuple[Rule, ...] = (
    failure(
        "weights_broken",
        r"(?:Metadata)?IncompleteBuffer|Error while deserializing header|HeaderTooLarge|HeaderTooSmall|"
        r"InvalidHeader\w*|header too (?:large|small)|"
        r"SafetensorError|PytorchStreamReader failed|unexpected end of file|UnpicklingError|"
        r"[Cc]hecksum mismatch|(?:size|hash) mismatch[^\n]*(?:safetensors|shard|download)|"
        r"File size[^\n]*does not match|TensorOffsets|corrupt(?:ed)?[^\n]*(?:shard|checkpoint|safetensors)",
        _TOPO,
        "A weight file is incomplete or corrupt: fetch it again and check sizes and hashes.",
        _LOAD,
    ),
    failure(
        "weights_missing",
        r"Cannot find any model weights with|Invalid repository ID or local directory specified|"
        r"weights were not initialized from checkpoint|does not appear to have a file named|"
        r"No such file or directory[^\n]*\.(?:safetensors|json|bin)|Can't load (?:the )?(?:configuration|tokenizer)|"
        r"RepositoryNotFoundError|GatedRepoError|LocalEntryNotFoundError|Repo id must|"
        r"There is no module or parameter named|checkpoint[^\n]*missing (?:key|shard)|No such file[^\n]*index",
        _TOPO,
        "Weights or configuration are missing or do not belong to the model that was asked for.",
        _LOAD,
    ),
    failure(
        "weights_shape",
        r"shape mismatch|size mismatch for|[Aa]ttempted to load weight \([^)]*\) into parameter|"
        r"The size of tensor a \(\d+\) must match the size of tensor b|"
        r"start \(\d+\) \+ length \(\d+\) exceeds dimension size|narrow\(\)[^\n]*exceeds|load_weights[^\n]*KeyError",
        _TOPO,
        "Weights do not fit the layout: format, quantisation or parallel size do not match the checkpoint.",
        _LOAD,
    ),
    failure(
        "model_unsupported",
        r"Model architectures? \[[^\]]*\] (?:are|is) not supported|does not recognize this architecture|"
        r"Unknown quantization method|[Qq]uantization (?:method|scheme)[^\n]*(?:not supported|is not)|"
        r"No (?:Mxfp4|MXFP4|NvFp4|FP8|W4A16|Fp8) (?:MoE )?backend supports|"
        r"trust_remote_code=True|has no vLLM implementation and the Transformers|"
        r"KeyError: '[^']*(?:_k3|kimi|ForCausalLM|ForConditionalGeneration)'",
        _TOPO,
        "This build does not know the architecture or the weight format on this hardware.",
        _LOAD,
    ),
)

LAYOUT: tuple[Rule, ...] = (
    failure(
        "layout_heads",
        r"must be divisible by (?:the )?(?:tensor|pipeline|data|expert|context)[ -]?(?:model )?parallel[ -]?"
        r"(?:size|world)[^\n]*|(?:tp|tensor_parallel|ep|pp|dcp)_?size[^\n]*must be divisible|"
        r"not divisible by (?:tp|(?:the )?tensor|the number of|world|weight quantization block|ep)|"
        r"\d+ is not divisible by \d+|"
        r"divisible by[^\n]*block_n|must be (?:evenly )?divisible by[^\n]*(?:GPUs|ranks|world|size)",
        _TOPO,
        "The parallel size does not divide what it must divide.",
        _LOAD,
    ),
    failure(
        "layout_world",
        r"World size \((?P<asked>\d+)\) is larger than the number of available GPUs \((?P<there>\d+)\)|"
        r"requires? \d+ GPUs?,? but only|Tensor parallel size \(\d+\) (?:exceeds|cannot be larger)|"
        r"local rank[^\n]*out of (?:bounds|range)|The number of required GPUs exceeds the total number|"
        r"total number of devices[^\n]*(?:less|smaller)|Current node has no GPU available|"
        r"Not enough GPUs|No available node types can fulfill resource request",
        _TOPO,
        "The launch wants more GPUs than there are.",
        _LOAD,
    ),
    failure(
        "layout_unsupported",
        r"cp_world_size must be positive|(?:[Pp]ipeline|[Tt]ensor|[Ee]xpert|[Dd]ata|[Cc]ontext)[ -]parallel(?:ism)?"
        r"[^\n]*(?:is not (?:yet )?supported|not supported|unsupported|must be (?:1|positive|enabled)|cannot be used)|"
        r"does not (?:yet )?support (?:pipeline|tensor|expert|data|context|decode context)[ -]parallel|"
        r"NotImplementedError[^\n]*parallel|(?:pp|tp|dp|ep|dcp|pcp)_(?:world_)?size[^\n]*(?:must|invalid)|"
        r"Configuration mismatch detected for engine|data_parallel\w*[^\n]*(?:must be|not supported)",
        _TOPO,
        "This build does not support the chosen parallel layout for this model.",
        _LOAD,
    ),
    failure(
        "arguments",
        r"error: (?:unrecognized arguments|argument|the following arguments)[^\n]*|"
        r"invalid (?:tool call|reasoning) parser[^\n]*|(?:tool|reasoning)[ _-]parser[^\n]*not found|"
        r"invalid choice:|Invalid prefix_match_unit|No such option|"
        r"validation errors? for (?:Vllm|Model|Cache|Parallel|Scheduler|Speculative|Compilation)\w*Config|"
        r"max_num_batched_tokens \(\d+\) is smaller than max_model_len",
        _TOPO,
        "The launch has an option that this version does not accept.",
        _LOAD,
    ),
)

SERVING: tuple[Rule, ...] = (
    failure(
        "illegal_access",
        r"an illegal memory access was encountered|cudaErrorIllegalAddress|device-side assert|misaligned address|"
        r"an illegal instruction was encountered|unspecified launch failure|cudaErrorLaunchFailure|"
        r"CUDA error: (?:invalid (?:program counter|argument|configuration argument)|launch timed out)|"
        r"[Ww]arp (?:illegal|out-of-range)|CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)|"
        r"Fatal Python error: Segmentation fault|SIGSEGV|exit code: -(?:11|6|7)\b",
        _SOAK,
        "A kernel broke memory; the last frame may be elsewhere, since such errors are reported late.",
    ),
    failure(
        "rpc_timeout",
        r"RPC call to (?P<call>\w+) timed out|execute_model timed out|"
        r"Detokenizer[^\n]*(?:health check failed|timed? ?out)|Scheduler (?:watchdog timeout|hit an exception)|"
        r"Watchdog timeout|Health check failed\.[^\n]*(?:couldn't|could not) get a response|"
        r"self\.watchdog_timeout|ray\.exceptions\.RayChannelTimeoutError|RayTaskError\(TimeoutError\)",
        _SOAK,
        "A worker stopped answering: the engine hung.",
    ),
    failure(
        "start_timeout",
        r"Timed out waiting for engine core processes to start|Did not receive response from front-end process|"
        r"[Ee]ngine[^\n]*(?:did not|failed to)[^\n]*ready[^\n]*(?:within|timeout|seconds)|"
        r"Engine process failed to start|Startup probe failed",
        Cause.ENVIRONMENT,
        "The server was given up before it was ready: slow storage, or a time limit shorter than loading takes.",
        _LOAD,
    ),
    failure(
        "cache_assert",
        r"AssertionError[^\n]*(?:block|kv|cache)|KV cache[^\n]*(?:corrupt|inconsistent|leak)|"
        r"token_to_kv_pool_allocator memory leak|pool memory leak detected|memory leak detected!?|"
        r"req_to_token_pool memory leak|blocks? (?:were|was)? ?(?:never|not) freed",
        _SOAK,
        "The cache's own accounting broke or lost blocks.",
    ),
    failure(
        "connector",
        r"(?:NIXL|nixl|LMCache|Mooncake|KV ?[Cc]onnector|OffloadingConnector)[^\n]*(?:[Ee]rror|[Ff]ailed|timed? ?out|"
        r"exception|leak)|KV load fail\w*",
        _SOAK,
        "The external cache or transfer failed.",
    ),
    failure(
        "nan_output",
        r"(?:probability|logits)[^\n]*(?:nan|inf)\b|contains (?:either )?`?(?:inf|nan)`?|corrupted requests?: [1-9]",
        _SOAK,
        "The model computed numbers that are none.",
    ),
    failure(
        "tool_choice_off",
        r"tool choice requires --enable-auto-tool-choice and --tool-call-parser|"
        r"requires --tool-call-parser|[Tt]ool call(?:ing|s)? (?:is|are) not (?:enabled|supported)[^\n]*",
        _PARSER,
        "The server was launched without a tool parser, so every request with tools is refused.",
        Phase.AGENT,
    ),
    failure(
        "tool_parser_error",
        r"Error in extracting tool call from response|[Ee]rror (?:in|trying to|while) (?:extract|handl|pars)\w+"
        r"[^\n]*tool|tool parser[^\n]*(?:[Ee]rror|failed|exception)|Failed to parse (?:tool|function) ?call|"
        r"reasoning parser[^\n]*(?:[Ee]rror|failed)|JSONDecodeError[^\n]*tool|"
        r"in extract_tool_calls(?:_streaming)?\b[^\n]*",
        _PARSER,
        "The tool parser failed on what the model wrote.",
        Phase.AGENT,
    ),
    failure(
        "tool_arguments",
        r"arguments decoded to \w+, not a JSON object|[Tt]ool call[^\n]*arguments[^\n]*(?:not a (?:JSON )?object|"
        r"not valid JSON|invalid JSON|coerc)",
        _PARSER,
        "The arguments of a tool call were not one JSON object: serialised twice, or broken.",
        Phase.AGENT,
    ),
    weakness(
        "guided_ignored",
        r"guided_\w+[^\n]*(?:ignored|deprecated|removed|no longer)|structured outputs?[^\n]*(?:disabled|ignored)|"
        r"[Gg]rammar[^\n]*(?:compil|fail|timed? ?out)\w*[^\n]*(?:fail|error|timed? ?out)",
        "The output was not held to the schema that the caller asked for.",
        _PARSER,
        Phase.AGENT,
    ),
    weakness(
        "prefix_off",
        r"Mamba cache mode is set to 'none' when prefix caching is disabled|Disabling prefix caching|"
        r"[Pp]refix caching is (?:disabled|not supported|turned off)[^\n]*|"
        r"(?:disable|turn(?:ing|ed)? off)\w* (?:automatic )?prefix cach\w+|disable_radix_cache=True|"
        r"[Rr]adix cache is (?:disabled|turned off)",
        "Prefix caching is off in the running engine.",
        _PREFIX,
        Phase.PREFIX,
    ),
    weakness(
        "prefix_coarse",
        r"Disabling fine-grained prefix-cache hits[^\n]*|prefix_match_unit[^\n]*(?:ignored|ineffective|no effect)",
        "Hits fall back to whole blocks, so shorter shared prefixes never hit.",
        _PREFIX,
        Phase.PREFIX,
    ),
    failure(
        "upstream_timeout",
        r"upstream timed out \((?:\d+): [^)]*\)[^\n]*|upstream (?:request timeout|prematurely closed)[^\n]*|"
        r"(?:504|502|499)[^\n]*(?:[Gg]ateway|upstream)|litellm\.(?:Timeout|APIConnectionError|InternalServerError)\w*"
        r"[^\n]*|stream timeout|response_flags=(?:UT|UC|DC|SI)\b|Context deadline exceeded[^\n]*upstream",
        _GATEWAY,
        "The gateway gave up or was cut off between the caller and the engine.",
    ),
    weakness(
        "retry",
        r"Retrying request to \S+|[Rr]etrying[^\n]*(?:attempt|in [\d.]+ s)[^\n]*|openai\.APITimeoutError|"
        r"(?:Read|Request)Timeout\w*[^\n]*retry\w*",
        "A caller or gateway sends the same request again.",
        _CLIENT,
    ),
    failure(
        "client_timeout",
        r"(?:openai\.|httpx?\.|aiohttp\.|asyncio\.)?(?:APITimeoutError|ReadTimeout|ServerTimeoutError)\b[^\n]*",
        _CLIENT,
        "The caller gave up waiting.",
    ),
    failure(
        "template",
        r"jinja2\.exceptions\.\w+[^\n]*|[Cc]hat template[^\n]*(?:error|failed|not found)|TemplateError[^\n]*",
        _PARSER,
        "The chat template refused the conversation.",
        Phase.AGENT,
    ),
    failure(
        "client_bad_request",
        r"This model's maximum context length is (?P<window>\d+) tokens?[^\n]*|"
        r"max_tokens=\d+ cannot be greater than max_model_len|maximum (?:input|context) length[^\n]*exceed\w*|"
        r"longer than the model's context length[^\n]*|Input length[^\n]*exceeds the maximum",
        _CLIENT,
        "The caller asked for more than the window holds, and the server refused rightly.",
        Phase.LONG_INPUT,
    ),
)

ENVELOPES: tuple[Rule, ...] = (
    envelope("engine_init", r"Engine core initialization failed|Failed core proc\(s\)", "See the failure above it."),
    envelope("engine_start", r"EngineCore failed to start|Engine process failed", "See the failure beside it."),
    envelope("engine_fatal", r"EngineCore encountered a fatal error|EngineCore hit an exception", "See beside it."),
    envelope(
        "engine_dead",
        r"EngineDeadError|EngineCore encountered an issue|AsyncLLM output_handler failed|Engine core process \S* ?died|"
        r"engine core exited unexpectedly|Engine is dead|AsyncEngineDeadError|Background loop (?:is|has)",
        "The engine is gone; the reason stands before it.",
    ),
    envelope(
        "worker_died",
        r"Worker proc \S+ died unexpectedly|WorkerProc (?:failed to start|hit an exception|initialization failed)|"
        r"Process \S+ \(PID:? \d+\) died with exit code|Executor failed|Parent process exited, terminating worker|"
        r"RayActorError|The actor died|ActorDiedError|worker died|[Ss]ubprocess[^\n]*(?:exited|died)|"
        r"Received sigquit from a child process|Rank \d+ scheduler is dead",
        "A worker ended; the reason stands in its own lines.",
    ),
    envelope(
        "dump",
        r"Dumping (?:input data|scheduler (?:output|stats))[^\n]*?(?:kv_cache_usage=(?P<kv_usage>[\d.e-]+))?[^\n]*",
        "The engine's state at its death, kept as evidence.",
    ),
    envelope(
        "trailer",
        r"CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH_BLOCKING|"
        r"Compile with `?TORCH_USE_CUDA_DSA|CUDA_LAUNCH_BLOCKING=1",
        "Goes with the CUDA error.",
    ),
)  # fmt: skip

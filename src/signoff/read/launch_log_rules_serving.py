"""Rules for what goes wrong once the server serves: crashes, hangs, parsers, cache, callers; and their wrappers."""

from signoff.core.words import Cause, Phase
from signoff.read.launch_log_rule import Rule, envelope, failure, weakness

_LOAD = Phase.LOAD
_SOAK, _PARSER, _PREFIX = Cause.SUSTAINED, Cause.MODEL_PARSER, Cause.PREFIX_CACHE
_GATEWAY, _CLIENT = Cause.GATEWAY, Cause.CLIENT

SERVING: tuple[Rule, ...] = (
    failure(
        "illegal_access",
        r"an illegal memory access was encountered|cudaErrorIllegalAddress|device-side assert|misaligned address|"
        r"an illegal instruction was encountered|unspecified launch failure|cudaErrorLaunchFailure|"
        r"Failed: Cuda error|terminate called after throwing|"
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
        r"in extract_tool_calls(?:_streaming)?\b[^\n]*|tool_parser\w*\.py:\d+\][^\n]*(?:Error|Exception)\b",
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
        r"50[24] (?:Bad )?Gateway|No deployments available|"
        r"litellm\.(?:Timeout|APIConnectionError|InternalServerError|BadGateway\w*|ServiceUnav\w*)\w*"
        r"[^\n]*|stream timeout|response_flags=(?:UT|UC|DC|SI)\b|Context deadline exceeded[^\n]*upstream",
        _GATEWAY,
        "The gateway gave up or was cut off between the caller and the engine.",
    ),
    failure(
        "gateway_size",
        r"client intended to send too large body|413 Request Entity Too Large|413 Payload Too Large",
        _GATEWAY,
        "The gateway refuses bodies as long as these prompts.",
        Phase.LONG_INPUT,
    ),
    weakness(
        "preempted",
        r"is preempted (?:by|in) PreemptionMode|Preempting request |total_num_cumulative_preemption=(?P<count>\d+)",
        "A request lost its cache and is prefilled again: the cache does not hold what runs.",
        Cause.CONCURRENCY,
        Phase.CONCURRENCY,
    ),
    weakness(
        "transfer_expired",
        r"Releasing expired KV blocks",
        "Blocks kept for another instance were never fetched: transfer or decode side is behind.",
        _SOAK,
        Phase.SOAK,
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
        r"longer than the model's context length[^\n]*|"
        r"[Ii]nput prompt \(\d+ tokens\) is too long|prompt (?:is )?too long|Input length[^\n]*exceeds the maximum",
        _CLIENT,
        "The caller asked for more than the window holds, and the server refused rightly.",
        Phase.LONG_INPUT,
    ),
)

ENVELOPES: tuple[Rule, ...] = (
    envelope("engine_init", r"Engine core initialization failed|Failed core proc\(s\)", "See the failure above it."),
    envelope("inspecting", r"Error in (?:inspecting|loading) model architecture|CalledProcessError", "See beside it."),
    envelope("engine_start", r"EngineCore failed to start|Engine process failed", "See the failure beside it."),
    envelope("engine_fatal", r"EngineCore encountered a fatal error|EngineCore hit an exception", "See beside it."),
    envelope(
        "engine_dead",
        r"EngineDeadError|EngineCore encountered an issue|AsyncLLM output_handler failed|Engine core process \S* ?died|"
        r"engine core exited unexpectedly|failed \(engine dead\)|Engine background task failed|"
        r"Engine is dead|AsyncEngineDeadError|Background loop (?:is|has)",
        "The engine is gone; the reason stands before it.",
    ),
    envelope(
        "worker_died",
        r"Worker proc \S+ died unexpectedly|WorkerProc (?:failed to start|hit an exception|initialization failed)|"
        r"Process \S+ \(PID:? \d+\) died with exit code|Executor failed|Parent process exited, terminating worker|"
        r"RayActorError|The actor died|ActorDiedError|worker died|[Ss]ubprocess[^\n]*(?:exited|died)|"
        r"RuntimeError: cancelled|raise RuntimeError\(\"cancelled\"\)|Received sigquit from a child process|"
        r"Rank \d+ scheduler is dead",
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

"""Rules for weights, layout and memory: what does not fit or does not belong together."""

from signoff.core.words import Cause, Phase
from signoff.read.launch_log_rule import Rule, failure, weakness

_TOPO, _LONG, _CONC, _SOAK = Cause.TOPOLOGY, Cause.LONG_INPUT, Cause.CONCURRENCY, Cause.SUSTAINED
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
    weakness(
        "window_reduced",
        r"Auto-fit max_model_len: reduced from (?P<asked>\d+) to (?P<fits>\d+) to fit|"
        r"max_model_len (?:was |is )?(?:reduced|lowered|capped)[^\n]*",
        "The window was cut to what the cache holds: the declared window is not served.",
        _LONG,
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
        r"ray\.exceptions\.OutOfMemoryError|Unable to allocate[^\n]*array",
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

"""What to do, by kind of clue, else by cause. Under an environment fault no tuning is advised."""

from signoff.core.words import Cause, VerdictName

_BY_KIND = {
    "driver_too_old": "Upgrade the host driver to the branch that the image's CUDA needs, or take an image built for "
    "the driver's CUDA. Changing memory share or concurrency does not help.",
    "driver_old": "Upgrade the host driver to the branch that the image's CUDA needs, or take an image for the driver.",
    "driver_mismatch_803": "Make the container load the host's libcuda: check for a compat directory in the image's "
    "loader path, how the GPU is injected (--gpus, runtime, CDI), and put the injected path first.",
    "forward_compat_804": "Take an image whose CUDA level the host driver offers itself; forward compatibility exists "
    "for data-centre GPUs only.",
    "fabric_802": "Start Fabric Manager (and the subnet manager on Blackwell) in the driver's exact version; require "
    "fabric state Completed and status Success.",
    "fabric": "Bring up Fabric Manager and the subnet manager; require state Completed and status Success.",
    "no_kernel_image": "Take an image built for this GPU's compute capability, or GPUs that the recipe lists.",
    "library_missing": "Rebuild the environment from one lock: vLLM, PyTorch and CUDA libraries of one CUDA release.",
    "abi_mismatch": "Rebuild the environment from one lock: compiled packages against the PyTorch that is installed.",
    "container_requirement": "Upgrade the host driver to what the image demands; do not disable the check.",
    "nccl_shm": "Enlarge the container's /dev/shm (--ipc=host or --shm-size), then start again.",
    "nccl_shm_full": "Clear /dev/shm of segments left by earlier crashes, find why it crashes, enlarge it if small.",
    "nccl_nvls": "Check Fabric Manager and the fabric state of the host; switching NVLS off only hides it, at a cost.",
    "gloo_mesh": "Name the interface that reaches the other node (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME) everywhere.",
    "gloo_loopback": "Name the interface that reaches the other node (GLOO_SOCKET_IFNAME, NCCL_SOCKET_IFNAME).",
    "gpu_occupied": "Free the GPU: find the process that holds it. More GPUs would be the wrong advice.",
    "weights_broken": "Fetch the weight files again and compare sizes and hashes; no launch option helps.",
    "weights_missing": "Check path and revision of the checkpoint.",
    "weights_too_large": "Weights do not fit this layout: more or larger GPUs, or more ranks over more nodes.",
    "layout_heads": "Choose a parallel size that divides the model's heads.",
    "layout_world": "Ask for no more ranks than there are GPUs.",
    "layout_unsupported": "Choose a layout that the recipe lists for this build, or an image that supports this one.",
    "kv_window_too_long": "Lower max-model-len to what fits, or add memory if the full window is required.",
    "kv_none_left": "Raise the memory share if it is low, shrink batch and graphs; else more or larger GPUs.",
    "state_slots": "Lower max-num-seqs to the number of state blocks, or raise the memory share.",
    "state_slots_capped": "Give more state slots (one launch value) before adding hardware.",
    "oom_long_input": "Leave head-room: lower the memory share or max-num-batched-tokens, then repeat it.",
    "oom_topology": "Weights, reserve or warm-up do not fit: check the layout and memory share, then the GPUs.",
    "oom_concurrency": "Cap concurrency below the load that failed, leave head-room, then repeat.",
    "prefill_bound": "Prefill compute is the bound, not the cache: more prefill capacity or less input.",
    "kv_bound": "Lower the offered concurrency to what the cache holds, or add cache memory.",
    "head_of_line": "Bound the longest request or separate long decodes; more replicas do not help one that blocks.",
    "preemptions": "Lower concurrency or output length, set a watermark, or add cache memory.",
    "prefix_off": "Switch prefix caching on and read the resolved `enable_prefix_caching`, not the flag.",
    "unit_coarse": "Make the hit unit finer (--prefix-match-unit) or block sizes that divide each other.",
    "head_changes": "Keep the head of the prompt constant: move what changes to the end.",
    "messages_moved": "Let the gateway keep the order of messages.",
    "hits_frozen": "Restart and report: the cache no longer hits after a while; watch hits during the soak.",
    "tool_choice_off": "Launch with --enable-auto-tool-choice and the model's --tool-call-parser.",
    "client_resubmits": "Raise the caller's time limit above the longest generation and never resubmit blindly; "
    "measure again.",
    "client_aborts": "Raise the caller's time limit; measure again.",
    "client_bad_request": "Let the caller cap max_tokens or compact its history.",
    "client_library": "Mend or update the caller's library; the service is right.",
    "retries_stacked": "Let one layer own retries; set the others to 0.",
    "gateway_limit": "Raise the gateway's read time limit above the longest first token, or stream keep-alives.",
    "upstream_timeout": "Raise the gateway's read time limit above the longest first token, or stream keep-alives.",
    "scattered": "Route a session to the engine that holds its prefix (affinity by session or rank).",
    "gateway_size": "Raise the gateway's body limit above the longest prompt.",
    "buffered": "Switch response buffering off in the gateway.",
    "host_leak": "Find and mend the leak; until then restart on a schedule and alert on resident memory.",
    "illegal_access": "Take a build with the kernel fixed; reproduce with the same mix of requests before accepting.",
    "rpc_timeout": "Find the rank that stopped (its log, py-spy, dmesg); take a mended build; repeat the soak.",
    "sample_small": "Send at least three prompts longer than one block and look again.",
}
_BY_CAUSE = {
    Cause.ENVIRONMENT: "Mend image, dependencies or driver; tune nothing before that.",
    Cause.TOPOLOGY: "Correct weights, layout or launch values, then start again.",
    Cause.LONG_INPUT: "Bound input length or leave head-room for its cache and prefill.",
    Cause.CONCURRENCY: "Cap the load, then add what is at its bound.",
    Cause.SUSTAINED: "The service degrades with time: find the fault, take a mended build, repeat the soak.",
    Cause.PREFIX_CACHE: "Find why prefixes are not shared before counting on hits.",
    Cause.MODEL_PARSER: "Take a build with the parser mended; validate calls by schema, retry, and measure the rate.",
    Cause.GATEWAY: "Mend or bypass the gateway's conversion; compare both sides again.",
    Cause.CLIENT: "Correct the caller; the service needs nothing.",
    Cause.HARDWARE: "Drain and reset the GPU, run the vendor's diagnosis, replace it if it fails again.",
    Cause.NONE: "Nothing to mend is shown.",
}


def remedy_of(kind: str, cause: Cause, verdict: VerdictName) -> str:
    """The advice for a deciding clue."""
    if cause is Cause.NONE and verdict is VerdictName.INCOMPLETE:
        return _BY_KIND.get(kind, "Bring more: the whole launch log of every rank, nvidia-smi, and what was asked.")
    return _BY_KIND.get(kind) or _BY_CAUSE[cause]

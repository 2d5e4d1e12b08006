"""The simulated host: the facts of one node that serves the simulated model, and the same facts for every fault.

Host
  driver       kernel module loaded and on disk, libcuda that is mapped, compat folder
  libraries    CUDA runtime, NCCL, cuDNN; PyTorch, vLLM and FlashInfer as installed
  gpus         eight B300, their fabric state, processes on them
  container    image reference, digest, shared memory, how it was started
  launch       options and environment of the server

Faults (`sim.host_faults`) are functions from Host to Host; `sim.host.write_root` lays a Host out as files.
"""

from msgspec import Struct, field

from signoff.core.evidence import Value

PYTHON = "/usr/bin/python3.12"
SITE = "/usr/local/lib/python3.12/dist-packages"
ATTENTION = '{"use_prefill_query_quantization":true,"mla_prefill_backend":"flashinfer"}'

RECIPE_OPTIONS: dict[str, Value] = {
    "trust-remote-code": True,
    "gpu-memory-utilization": 0.95,
    "tensor-parallel-size": 8,
    "load-format": "fastsafetensors",
    "no-enable-flashinfer-autotune": True,
    "max-model-len": 1048576,
    "kv-cache-dtype": "fp8",
    "attention-config": ATTENTION,
    "enable-prefix-caching": True,
    "enable-auto-tool-choice": True,
    "tool-call-parser": "kimi_k3",
    "reasoning-parser": "kimi_k3",
}
OWN_OPTIONS: dict[str, Value] = {
    "revision": "5f1d2c9a7be04d3386a1c0e94f7b2a6d81c3e057",
    "served-model-name": "kimi-k3",
    "enable-prompt-tokens-details": True,
}
RECIPE_ENVIRONMENT = {
    "VLLM_ALLREDUCE_USE_FLASHINFER": "1",
    "VLLM_ENGINE_READY_TIMEOUT_S": "3600",
    "VLLM_USE_RUST_FRONTEND": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
}
IMAGE_ENVIRONMENT = {
    "PATH": "/usr/local/nvidia/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LD_LIBRARY_PATH": "/usr/local/nvidia/lib64:/usr/local/cuda/lib64",
    "CUDA_VERSION": "13.0.2",
    "NVIDIA_REQUIRE_CUDA": "cuda>=13.0 brand=tesla,driver>=535,driver<536 brand=tesla,driver>=570,driver<571",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
}
SECRETS = {  # planted, so that a test can see that no probe document ever shows them
    "HF_TOKEN": "hf_PlantedSecretThatNobodyMayEverSee0",
    "AWS_SECRET_ACCESS_KEY": "planted/Secret+AccessKeyOfNobody1234567890",
    "PROXY": "http://operator:planted-proxy-password@proxy.internal:3128",
}
WHEELS = {
    "torch": "2.13.0+cu130",
    "vllm": "0.27.1",
    "flashinfer-python": "0.6.15",
    "flashinfer-cubin": "0.6.15",
    "flashinfer-jit-cache": "0.6.15+cu130",
    "nvidia-cuda-runtime": "13.0.96",
    "nvidia-nccl-cu13": "2.30.7",
    "nvidia-cudnn-cu13": "9.20.0.48",
    "transformers": "5.12.1",
    "xgrammar": "0.2.6",
}


class Gpu(Struct, frozen=True, kw_only=True):
    index: int
    name: str = "NVIDIA B300 SXM6 AC"
    memory_mib: int = 275040
    used_mib: int = 258712
    compute_cap: str = "10.3"
    fabric_state: str = "Completed"
    fabric_status: str = "Success"
    uncorrectable_errors: int = 0
    ecc: str = "Enabled"
    throttled: bool = False
    processes: tuple[tuple[int, str, int], ...] = ()
    """Processes of others on this GPU: pid, name, MiB. The server's workers are added when the root is written."""

    @property
    def uuid(self) -> str:
        return f"GPU-5b3000{self.index:02d}-7c1e-4a52-9d30-6f2b8e1c4{self.index:03d}"

    @property
    def bus(self) -> str:
        return f"00000000:{0x1B + 0x11 * self.index:02X}:00.0"


class Library(Struct, frozen=True, kw_only=True):
    """A shared library mapped by every worker."""

    path: str
    """As the process sees it."""
    text: str = ""
    """What a reader of its bytes finds, as the version string that NCCL carries."""


def libcuda(version: str, folder: str = "/usr/lib/x86_64-linux-gnu") -> Library:
    return Library(path=f"{folder}/libcuda.so.{version}", text=f"libcuda {version}")


def nccl(version: str, cuda: str = "13.0", folder: str = f"{SITE}/nvidia/nccl/lib") -> Library:
    return Library(path=f"{folder}/libnccl.so.2", text=f"NCCL version {version}+cuda{cuda}")


def runtime(version: str = "13.0.96", folder: str = f"{SITE}/nvidia/cu13/lib") -> Library:
    return Library(path=f"{folder}/libcudart.so.{version.split('.')[0]}", text=f"cudart {version}")


class Host(Struct, frozen=True, kw_only=True):
    """One node; `None` is a fact that the node does not give away."""

    name: str = "b300-node-a"
    kernel: str = "6.8.0-79-generic"
    cpu: str = "Intel(R) Xeon(R) Platinum 8570"
    boot_id: str = "0f6d9a52-3c1b-4e77-8a90-51d2c7b4e6f3"
    driver_loaded: str | None = "580.126.20"
    driver_on_disk: str | None = "580.126.20"
    driver_open: bool = True
    smi_cuda: str | None = "13.0"
    """The CUDA field of nvidia-smi; `None` with no working nvidia-smi."""
    smi_error: str = ""
    fabric_manager: str | None = "580.126.20"
    compat: str | None = "580.95.05"
    """The libcuda version in the image's compat folder."""
    mapped: tuple[Library, ...] = (
        libcuda("580.126.20"),
        runtime(),
        nccl("2.30.7"),
        Library(path=f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", text="cudnn 9.20.0.48"),
        Library(path=f"{SITE}/nvidia/cu13/lib/libcublas.so.13", text="cublas 13.1.0.3"),
        Library(path="/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.580.126.20", text="nvml 580.126.20"),
    )
    wheels: dict[str, str] = field(default_factory=WHEELS.copy)
    torch_cuda: str | None = "13.0"
    toolkit: str | None = "13.0.2"
    """`/usr/local/cuda/version.json`."""
    gpus: tuple[Gpu, ...] = tuple(Gpu(index=i) for i in range(8))
    model: str = "moonshotai/Kimi-K3"
    architecture: str = "KimiK3ForConditionalGeneration"
    image: str = "vllm/vllm-openai:kimi-k3"
    image_digest: str | None = "sha256:9c1f0e7ab25d4836b1c7de02f5a98463720fe4b81d65c39a4e0b7f218d96c5a3"
    image_id: str = "sha256:41be7d50c9e2a3f86b71d408e95cf2137a60b4d8e1937c52fa68d0b39e74c1f8"
    container: str = "3b7e51d0a94c6f28e1d5087bc29fa6432e810d7b5c94f6a08137ed42b59c60fa"
    options: dict[str, Value] = field(default_factory=lambda: {**RECIPE_OPTIONS, **OWN_OPTIONS})
    environment: dict[str, str] = field(default_factory=lambda: {**IMAGE_ENVIRONMENT, **RECIPE_ENVIRONMENT, **SECRETS})
    shm_mib: int = 65536
    open_files: int = 1048576
    kernel_messages: tuple[str, ...] = (
        "[   14.201883] nvidia: module verification not needed",
        "[   15.377120] NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64",
    )


HEALTHY = Host()


def command(host: Host, port: int) -> tuple[str, ...]:
    """The server's command line, as its process shows it."""
    words = [PYTHON, "/usr/local/bin/vllm", "serve", host.model, "--host", "0.0.0.0", "--port", str(port)]
    for name, value in host.options.items():
        words.append(f"--{name}")
        if value is not True:
            words.append(str(value))
    return tuple(words)


def non_default_args(host: Host, port: int) -> dict[str, object]:
    """What the launch log prints after `non-default args:`, in the server's own spelling."""
    said: dict[str, object] = {"model_tag": host.model, "host": "0.0.0.0", "port": port, "model": host.model}
    for name, value in host.options.items():
        if name == "attention-config":
            said["attention_config"] = {"use_prefill_query_quantization": True, "mla_prefill_backend": "flashinfer"}
        elif name == "served-model-name":
            said["served_model_name"] = [value]
        elif name.startswith("no-"):
            said[name[3:].replace("-", "_")] = False
        else:
            said[name.replace("-", "_")] = value
    return said

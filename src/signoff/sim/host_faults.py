"""Environment faults: each turns a healthy Host into one with a single thing wrong."""

from collections.abc import Callable

from msgspec import Struct, structs

from signoff.sim.host_facts import HEALTHY, RECIPE_ENVIRONMENT, SITE, Gpu, Host, Library, libcuda, nccl, runtime

COMPAT = "/usr/local/cuda-13.0/compat"


class HostFault(Struct, frozen=True, kw_only=True):
    name: str
    says: str
    """One line for `signoff sim --list-faults`."""
    apply: Callable[[Host], Host]


def _libraries(host: Host, *new: Library, drop: tuple[str, ...]) -> tuple[Library, ...]:
    kept = tuple(lib for lib in host.mapped if not any(f"/{name}.so" in lib.path for name in drop))
    return (*new, *kept)


def _gpus(host: Host, change: Callable[[Gpu], Gpu]) -> tuple[Gpu, ...]:
    return tuple(change(gpu) for gpu in host.gpus)


def _without(host: Host, *names: str) -> dict[str, str | int | float | bool | None]:
    return {name: value for name, value in host.options.items() if name not in names}


def _driver(host: Host, version: str, cuda: str, mapped: Library) -> Host:
    """Another driver in kernel, on disk and in every library that comes with it."""
    nvml = Library(path=f"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.{version}", text=f"nvml {version}")
    return structs.replace(
        host,
        driver_loaded=version,
        driver_on_disk=version,
        fabric_manager=version,
        smi_cuda=cuda,
        mapped=_libraries(host, mapped, nvml, drop=("libcuda", "libnvidia-ml")),
    )


def driver_570(host: Host) -> Host:
    return _driver(host, "570.172.08", "13.0", libcuda("580.95.05", COMPAT))


def driver_unreadable(host: Host) -> Host:
    kept = _libraries(host, drop=("libcuda", "libnvidia-ml"))
    return structs.replace(
        host, driver_loaded=None, driver_on_disk=None, smi_cuda=None, fabric_manager=None, mapped=kept
    )


def driver_mismatch(host: Host) -> Host:
    return structs.replace(host, mapped=_libraries(host, libcuda("580.95.05"), drop=("libcuda",)))


def stale_compat(host: Host) -> Host:
    return structs.replace(host, mapped=_libraries(host, libcuda("580.95.05", COMPAT), drop=("libcuda",)))


def needless_compat(host: Host) -> Host:
    mapped = _libraries(host, libcuda("590.48.01", "/usr/local/cuda-13.1/compat"), drop=("libcuda",))
    return structs.replace(host, mapped=mapped, compat="590.48.01")


def not_on_disk(host: Host) -> Host:
    return structs.replace(host, driver_on_disk="595.58.03")


def cuda12_wheel(host: Host) -> Host:
    folder = f"{SITE}/nvidia/cuda_runtime/lib"
    mapped = _libraries(
        host, runtime("12.9.79", folder), nccl("2.29.3", "12.9"), drop=("libcudart", "libnccl", "libcublas")
    )
    wheels = {k: v for k, v in host.wheels.items() if k not in ("nvidia-cuda-runtime", "nvidia-nccl-cu13")}
    wheels |= {"torch": "2.13.0+cu129", "nvidia-cuda-runtime-cu12": "12.9.79", "nvidia-nccl-cu12": "2.29.3"}
    wheels["flashinfer-jit-cache"] = "0.6.15+cu129"
    return structs.replace(host, mapped=mapped, wheels=wheels, torch_cuda="12.9")


def two_nccl(host: Host) -> Host:
    second = nccl("2.28.9", folder="/usr/lib/x86_64-linux-gnu")
    return structs.replace(host, mapped=(*host.mapped, second))


def image_other(host: Host) -> Host:
    digest = "sha256:" + "5d2c8f41" * 8
    return structs.replace(host, image="registry.internal/ml/vllm-openai:nightly", image_digest=digest)


def no_digest(host: Host) -> Host:
    return structs.replace(host, image_digest=None)


def vllm_other(host: Host) -> Host:
    return structs.replace(host, wheels={**host.wheels, "vllm": "0.26.0"})


def flag_missing(host: Host) -> Host:
    return structs.replace(host, options=_without(host, "kv-cache-dtype", "no-enable-flashinfer-autotune"))


def flag_contradicts(host: Host) -> Host:
    return structs.replace(host, options={**host.options, "kv-cache-dtype": "auto", "load-format": "auto"})


def caching_off(host: Host) -> Host:
    options = {**_without(host, "enable-prefix-caching"), "no-enable-prefix-caching": True}
    return structs.replace(host, options=options)


def no_parser(host: Host) -> Host:
    return structs.replace(host, options=_without(host, "tool-call-parser", "enable-auto-tool-choice"))


def recipe_env_missing(host: Host) -> Host:
    kept = {k: v for k, v in host.environment.items() if k not in RECIPE_ENVIRONMENT}
    return structs.replace(host, environment=kept)


def compat_switch(host: Host) -> Host:
    return structs.replace(host, environment={**host.environment, "VLLM_ENABLE_CUDA_COMPATIBILITY": "1"})


def fabric_down(host: Host) -> Host:
    gpus = _gpus(host, lambda g: structs.replace(g, fabric_state="In Progress", fabric_status="N/A"))
    return structs.replace(host, gpus=gpus, fabric_manager=None)


def foreign_gpu_process(host: Host) -> Host:
    taken = ((90210, "/opt/train/bin/python3", 14210),)
    gpus = _gpus(host, lambda g: structs.replace(g, processes=taken) if g.index == 3 else g)
    return structs.replace(host, gpus=gpus)


def gpu_missing(host: Host) -> Host:
    return structs.replace(host, gpus=host.gpus[:7])


def gpu_ecc(host: Host) -> Host:
    return structs.replace(
        host, gpus=_gpus(host, lambda g: structs.replace(g, uncorrectable_errors=3) if g.index == 5 else g)
    )


def gpu_other(host: Host) -> Host:
    gpus = _gpus(
        host, lambda g: structs.replace(g, name="NVIDIA B200", memory_mib=183359, used_mib=171002, compute_cap="10.0")
    )
    return structs.replace(host, gpus=gpus)


def dev_mode(host: Host) -> Host:
    return structs.replace(host, environment={**host.environment, "VLLM_SERVER_DEV_MODE": "1"})


def remote_code(host: Host) -> Host:
    return structs.replace(host, options=_without(host, "revision"))


def xid(host: Host) -> Host:
    lost = "[80412.117735] NVRM: Xid (PCI:0000:3d:00): 79, pid=4711, GPU has fallen off the bus."
    return structs.replace(host, kernel_messages=(*host.kernel_messages, lost))


def oom_kill(host: Host) -> Host:
    killed = "[91022.402217] Out of memory: Killed process 4719 (VLLM::Worker_TP3) total-vm:2147483648kB, anon-rss:1"
    return structs.replace(host, kernel_messages=(*host.kernel_messages, killed))


def shm_small(host: Host) -> Host:
    return structs.replace(host, shm_mib=64)


FAULTS: tuple[HostFault, ...] = tuple(
    HostFault(name=name, says=says, apply=apply)
    for name, says, apply in (
        ("env-driver-570", "R570 driver that runs the CUDA 13 image through its compat libcuda", driver_570),
        ("env-driver-unreadable", "nothing on the node says which driver is loaded", driver_unreadable),
        ("env-driver-mismatch", "the mapped libcuda is of another driver release than the module", driver_mismatch),
        ("env-stale-compat", "the image's older compat libcuda shadows the host's (error 803 class)", stale_compat),
        ("env-needless-compat", "a newer compat libcuda is mapped on a driver that needs none", needless_compat),
        (
            "env-loaded-not-on-disk",
            "R580 is loaded and R595 lies on disk: the next boot is another system",
            not_on_disk,
        ),
        ("env-cuda12-wheel", "the image holds a CUDA 12.9 build of PyTorch", cuda12_wheel),
        ("env-two-nccl", "the workers map two different NCCL libraries", two_nccl),
        ("env-image-other", "the container runs another image than the recipe's", image_other),
        ("env-no-digest", "the image has a tag and no digest", no_digest),
        ("env-vllm-other", "vLLM in the image is older than the recipe's least version", vllm_other),
        ("env-flag-missing", "two options of the recipe are missing from the launch", flag_missing),
        ("env-flag-contradicts", "two options of the launch say otherwise than the recipe", flag_contradicts),
        ("env-caching-off", "the launch turns prefix caching off", caching_off),
        ("env-no-parser", "the launch sets no tool-call parser", no_parser),
        ("env-recipe-env-missing", "the recipe's environment variables are not set", recipe_env_missing),
        ("env-compat-switch", "vLLM's own CUDA compatibility switch is on", compat_switch),
        ("env-fabric-down", "the NVSwitch fabric never completed", fabric_down),
        ("env-foreign-gpu-process", "somebody's training process holds memory of GPU 3", foreign_gpu_process),
        ("env-gpu-missing", "seven GPUs where the layout wants eight", gpu_missing),
        ("env-gpu-ecc", "GPU 5 counts uncorrectable memory errors", gpu_ecc),
        ("env-gpu-other", "B200 GPUs, which cannot hold the weights of the recipe's eight", gpu_other),
        ("env-dev-mode", "development endpoints are on", dev_mode),
        ("env-remote-code", "remote model code is trusted at no pinned revision", remote_code),
        ("env-xid", "the kernel log of this boot shows Xid 79: a GPU fell off the bus", xid),
        ("env-oom-kill", "the kernel killed a worker for host memory in this boot", oom_kill),
        ("env-shm-small", "/dev/shm of the container is 64 MiB", shm_small),
    )
)


def host_with(names: tuple[str, ...] | list[str], host: Host = HEALTHY) -> Host:
    """`host` with the named faults, applied in order; names of other layers are passed over."""
    known = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name in known:
            host = known[name].apply(host)
    return host

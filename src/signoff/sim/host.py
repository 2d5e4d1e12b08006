"""Lays a Host out as a root folder: the files, programs and processes that the node probe reads on a real node."""

import json
import time
from pathlib import Path

from msgspec import Struct

from signoff.sim.host_facts import HEALTHY, PYTHON, SITE, Host, Library, command, non_default_args
from signoff.sim.host_programs import banner, inspect_container, inspect_image, smi_csv, smi_topology, smi_xml

__all__ = ["HEALTHY", "Host", "command", "non_default_args", "write_root"]

INODE = 424242
TICKS = 100
"""Clock ticks a second of `/proc/PID/stat`."""


class _Process(Struct, frozen=True, kw_only=True):
    pid: int
    parent: int
    words: tuple[str, ...]
    started_s: float
    libraries: tuple[Library, ...] = ()
    listens: bool = False


def write_root(folder: Path, host: Host, *, pid: int, port: int, started_s: float | None = None) -> None:
    """Write the fake root of `host` into `folder`: the server runs as `pid` and listens on `port`.

    `started_s`: Unix seconds of the process start, now when not given; the boot was a day earlier.
    """
    started_s = time.time() if started_s is None else started_s
    boot_s = int(started_s) - 86400
    folder.mkdir(parents=True, exist_ok=True)
    _driver(folder, host)
    _system(folder, host, boot_s)
    _packages(folder, host)
    for process in _processes(host, pid, port, started_s):
        _process(folder, host, process, boot_s)
    _text(folder, "proc/net/tcp", _socket_table(port))
    _programs(folder, host, pid, port, started_s)


def _text(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def _script(folder: Path, name: str, answers: dict[str, str], error: str = "", status: int = 1) -> None:
    """An executable that prints one stored answer for each argument line, and `error` for any other."""
    cases = []
    for index, (arguments, answer) in enumerate(answers.items()):
        stored = _text(folder, f"{name}.d/{index}", answer)
        cases.append(f'  "{arguments}") exec cat "$here/{stored.name}" ;;\n')
    text = (
        '#!/bin/sh\nhere="$0.d"\ncase "$*" in\n' + "".join(cases) + f'  *) echo "{error}" >&2; exit {status} ;;\nesac\n'
    )
    _text(folder, name, text).chmod(0o755)


def _driver(folder: Path, host: Host) -> None:
    if host.driver_loaded:
        flavour = "Open Kernel Module for x86_64" if host.driver_open else "x86_64 Kernel Module"
        text = (
            f"NVRM version: NVIDIA UNIX {flavour}  {host.driver_loaded}  Release Build  (dvs-builder@U22-I3-AM01)\n"
            "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2)\n"
        )
        _text(folder, "proc/driver/nvidia/version", text)
        _text(folder, "sys/module/nvidia/version", host.driver_loaded + "\n")
        for gpu in host.gpus:
            told = f"Model: \t\t {gpu.name}\nIRQ:   \t\t {200 + gpu.index}\nGPU UUID: \t {gpu.uuid}\n"
            _text(folder, f"proc/driver/nvidia/gpus/{gpu.bus[4:].lower()}/information", told)
    if host.driver_on_disk:
        license_ = "Dual MIT/GPL" if host.driver_open else "NVIDIA"
        answers = {"-F version nvidia": host.driver_on_disk + "\n", "-F license nvidia": license_ + "\n"}
        _script(folder, "usr/sbin/modinfo", answers, "modinfo: ERROR: Module not found.")
    if host.fabric_manager:
        said = f"Fabric Manager version is : {host.fabric_manager}\n"
        _script(folder, "usr/bin/nv-fabricmanager", {"-v": said})
    if host.compat:
        _text(folder, f"usr/local/cuda-13.0/compat/libcuda.so.{host.compat}", f"libcuda {host.compat}")
    if host.toolkit:
        toolkit = {"cuda": {"name": "CUDA SDK", "version": host.toolkit}}
        _text(folder, "usr/local/cuda/version.json", json.dumps(toolkit))


def _system(folder: Path, host: Host, boot_s: int) -> None:
    kind = f"vendor_id\t: GenuineIntel\nmodel name\t: {host.cpu}\nflags\t\t: fpu avx2 avx512f amx_bf16\n\n"
    cpus = "".join(f"processor\t: {i}\n{kind}" for i in range(4))
    files = {
        "proc/sys/kernel/random/boot_id": host.boot_id + "\n",
        "proc/sys/kernel/hostname": host.name + "\n",
        "proc/sys/kernel/osrelease": host.kernel + "\n",
        "proc/stat": f"cpu  1 2 3 4\nbtime {boot_s}\nprocesses 4711\n",
        "proc/uptime": "86400.00 4000000.00\n",
        "proc/cpuinfo": cpus,
        "proc/meminfo": "MemTotal:       3170893824 kB\nMemAvailable:   2911220192 kB\n",
        "etc/machine-id": "b1946ac92492d2347c6235b4d2611184\n",
        "etc/os-release": 'ID=ubuntu\nVERSION_ID="24.04"\nPRETTY_NAME="Ubuntu 24.04.3 LTS"\n',
        "etc/ld.so.conf.d/nvidia.conf": "/usr/local/nvidia/lib64\n",
    }
    for name, text in files.items():
        _text(folder, name, text)


def _packages(folder: Path, host: Host) -> None:
    site = SITE.lstrip("/")
    for name, version in host.wheels.items():
        metadata = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n"
        _text(folder, f"{site}/{name.replace('-', '_')}-{version}.dist-info/METADATA", metadata)
    torch, cuda = host.wheels.get("torch"), host.torch_cuda
    if torch:
        lines = f"__version__ = {torch!r}\ndebug = False\ncuda: Optional[str] = {cuda!r}\ngit_version = '7f3a9d1'\n"
        _text(folder, f"{site}/torch/version.py", f"from typing import Optional\n\n{lines}hip: Optional[str] = None\n")
    vllm = host.wheels.get("vllm")
    if vllm:
        _text(folder, f"{site}/vllm/_version.py", f"__version__ = version = {vllm!r}\n__commit_id__ = 'gb8c1d2e'\n")


def _processes(host: Host, pid: int, port: int, started_s: float) -> list[_Process]:
    """The API server, the engine core and a worker for each GPU, as vLLM titles them."""
    engine = _Process(pid=pid + 1, parent=pid, words=("VLLM::EngineCore",), started_s=started_s + 1)
    workers = [
        _Process(
            pid=pid + 2 + gpu.index,
            parent=pid + 1,
            words=(f"VLLM::Worker_TP{gpu.index}",),
            started_s=started_s + 2,
            libraries=host.mapped,
        )
        for gpu in host.gpus
    ]
    words = command(host, port)
    return [_Process(pid=pid, parent=1, words=words, started_s=started_s, listens=True), engine, *workers]


def _process(folder: Path, host: Host, process: _Process, boot_s: int) -> None:
    place = f"proc/{process.pid}"
    ticks = int((process.started_s - boot_s) * TICKS)
    stat = f"{process.pid} (python3.12) S {process.parent} " + "0 " * 17 + f"{ticks} 0 0 0\n"
    environment = "".join(f"{name}={value}\0" for name, value in host.environment.items())
    lines, libraries = [], process.libraries
    for index, library in enumerate(libraries):
        lines.append(f"7f{index:02x}00000000-7f{index:02x}00200000 r-xp 00000000 08:01 {1000 + index}   {library.path}")
        _text(folder, library.path.lstrip("/"), library.text)
    limits = "Limit                     Soft Limit           Hard Limit           Units\n"
    limits += f"Max open files            {host.open_files}              {host.open_files}              files\n"
    mounts = "overlay / overlay rw,relatime 0 0\n"
    mounts += f"shm /dev/shm tmpfs rw,nosuid,nodev,noexec,size={host.shm_mib * 1024}k 0 0\n"
    files = {
        "cmdline": "\0".join(process.words) + "\0",
        "environ": environment,
        "maps": "\n".join(lines) + "\n" if lines else "",
        "stat": stat,
        "status": f"Name:\tpython3.12\nPid:\t{process.pid}\nPPid:\t{process.parent}\nNSpid:\t{process.pid}\n",
        "limits": limits,
        "mounts": mounts,
        "cgroup": f"0::/system.slice/docker-{host.container}.scope\n",
    }
    for name, text in files.items():
        _text(folder, f"{place}/{name}", text)
    (folder / place / "fd").mkdir(exist_ok=True)
    links = {"root": "../..", "exe": PYTHON}
    if process.listens:
        links["fd/5"] = f"socket:[{INODE}]"
    for name, target in links.items():
        link = folder / place / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)


def _socket_table(port: int) -> str:
    head = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    queues = "00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0"
    return f"{head}   0: 00000000:{port:04X} {queues} {INODE} 1\n"


def _programs(folder: Path, host: Host, pid: int, port: int, started_s: float) -> None:
    workers = [(pid + 2 + gpu.index, f"VLLM::Worker_TP{gpu.index}", gpu.used_mib) for gpu in host.gpus]
    answers = {}
    if host.smi_cuda is not None:
        query = "--query-gpu=index,uuid,name,pci.bus_id,driver_version,memory.total,compute_cap"
        answers = {
            "": banner(host),
            "-q -x": smi_xml(host, workers),
            "topo -m": smi_topology(host),
            f"{query} --format=csv,noheader,nounits": smi_csv(host),
        }
    _script(folder, "usr/bin/nvidia-smi", answers, host.smi_error or "NVIDIA-SMI has failed", 9)
    started = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(started_s)) + f".{int(started_s % 1 * 1e9):09d}Z"
    inspected = {
        f"inspect {host.container}": inspect_container(host, port, pid, started),
        f"image inspect {host.image_id}": inspect_image(host),
    }
    _script(folder, "usr/bin/docker", inspected, "Error: No such object")
    _script(folder, "usr/bin/dmesg", {"": "\n".join((*host.kernel_messages, ""))})

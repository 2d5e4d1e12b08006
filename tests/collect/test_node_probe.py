"""The node probe on fake roots: facts by their sources, no secrets, no harm, an end within its time."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from signoff.collect.environment.transports import PROBE_SOURCE, probe_node, read_logs
from signoff.core.plan import Node
from signoff.sim.host import HEALTHY, write_root
from signoff.sim.host_facts import SECRETS

PID, PORT = 4711, 8000


def probe(root: Path, **environment: str) -> dict:  # type: ignore[type-arg]
    out = subprocess.run(
        [sys.executable, "-", "--root", str(root)],
        input=PROBE_SOURCE.read_bytes(),
        capture_output=True,
        check=True,
        timeout=25,
        env={**os.environ, **environment},
    ).stdout
    return json.loads(out)  # type: ignore[no-any-return]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_root(tmp_path / "root", HEALTHY, pid=PID, port=PORT, started_s=1_796_000_000.0)
    return tmp_path / "root"


def test_it_is_one_file_that_python_3_8_can_parse_with_standard_modules_only() -> None:
    tree = ast.parse(PROBE_SOURCE.read_text(), feature_version=(3, 8))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert imported <= set(sys.stdlib_module_names)


def test_it_names_many_facts_several_of_them_from_two_sources(root: Path) -> None:
    document = probe(root)
    assert document["probe"]["errors"] == []
    assert document["probe"]["unfinished"] == []
    server = document["servers"][0]
    facts = {**document["facts"], **server["facts"]}
    read = {name for name, fact in facts.items() if fact["readings"]}
    twice = {name for name, fact in facts.items() if len({r["source"] for r in fact["readings"]}) >= 2}
    assert len(read) >= 12
    assert {"driver_loaded", "gpus", "torch", "torch_cuda", "vllm", "image", "shm_bytes"} <= twice
    for fact in facts.values():
        assert fact["readings"] or fact["missing"]
        assert all(r["how"] and r["source"] for r in fact["readings"])
        assert all(m["how"] and m["why"] for m in fact["missing"])


def test_it_finds_the_server_its_processes_ports_and_mapped_libraries(root: Path) -> None:
    server = probe(root)["servers"][0]
    assert server["pid"] == PID
    assert [row["port"] for row in server["ports"]] == [PORT]
    assert len(server["processes"]) == 10  # API server, engine core, eight workers
    assert server["processes"][0]["started_unix_s"] == pytest.approx(1_796_000_000.0, abs=0.02)
    libcuda = next(entry for entry in server["libraries"] if entry["name"] == "libcuda")
    assert (libcuda["version"], libcuda["versions_inside"]) == ("580.126.20", ["580.126.20"])
    assert len(libcuda["sha256"]) == 64
    assert len(libcuda["pids"]) == 8
    nccl = next(entry for entry in server["libraries"] if entry["name"] == "libnccl")
    assert nccl["versions_inside"] == ["2.30.7+cuda13.0"]
    assert server["packages"]["flashinfer-python"] == "0.6.15"


def test_no_secret_is_ever_in_the_document(root: Path) -> None:
    place = root / "proc" / str(PID)
    words = (place / "cmdline").read_text()
    (place / "cmdline").write_text(
        words + "--api-key\0planted-api-key-aaaa\0second-planted-key\0--hf-token=planted-hf-b\0"
    )
    url = "https://someone:planted-url-password@hub.internal/models"
    with (place / "environ").open("a") as file:
        file.write(f"VLLM_API_KEY=planted-vllm-key\0VLLM_CACHE_ROOT={url}\0NCCL_SECRET_THING=planted-nccl\0")
        file.write("VLLM_NOTE=sk-plantedplantedplanted123\0OTHER=planted-other\0")
    dmesg = root / "usr/bin/dmesg"
    dmesg.write_text("#!/bin/sh\necho '[ 1.0] NVRM: odd planted-vllm-key in a message'\n")
    text = json.dumps(probe(root))
    assert "planted" not in text.lower().replace(str(root).lower(), "")
    for secret in SECRETS.values():
        assert secret not in text
    server = json.loads(text)["servers"][0]
    assert server["api_key"] is True
    assert server["command"][server["command"].index("--api-key") + 1] == "[removed]"
    assert server["environment"]["VLLM_CACHE_ROOT"] == "https://[removed]@hub.internal/models"
    assert "--tool-call-parser" in server["command"]
    assert "kimi_k3" in server["command"]


def test_names_that_only_sound_secret_do_not_blank_the_document(root: Path) -> None:
    with (root / "proc" / str(PID) / "environ").open("a") as file:
        file.write("SSL_KEY_DIR=/usr\0AUTH_MODE=kernel\0VLLM_TOKENIZER_POOL=pooled-x1\0")
    document = probe(root)
    server = document["servers"][0]
    assert server["environment"]["VLLM_TOKENIZER_POOL"] == "pooled-x1"
    assert server["command"][0] == "/usr/bin/python3.12"
    assert document["facts"]["driver_loaded"]["readings"][0]["source"] == "kernel module"


def test_a_hanging_nvidia_smi_does_not_hold_it_up(root: Path) -> None:
    smi = root / "usr/bin/nvidia-smi"
    smi.write_text("#!/bin/sh\ntrap '' TERM INT\nwhile true; do sleep 60; done\n")
    began = time.monotonic()
    document = probe(root)
    assert time.monotonic() - began < 15
    asked = [command for command in document["commands"] if command["argv"][0] == "nvidia-smi"]
    assert "no answer within" in asked[0]["why"]
    assert all("hung before" in command["why"] for command in asked[1:])
    assert document["facts"]["driver_loaded"]["readings"][0]["value"] == "580.126.20"
    assert any("no answer" in m["why"] for m in document["facts"]["gpus"]["missing"])


def test_a_flood_of_output_is_cut(root: Path) -> None:
    (root / "usr/bin/nvidia-smi").write_text("#!/bin/sh\nexec yes nvidia\n")
    assert len(json.dumps(probe(root))) < 12_000_000


def test_it_runs_only_programs_inside_the_root(root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "bin"
    outside.mkdir()
    for name in ("nvidia-smi", "docker", "modinfo", "dmesg", "nv-fabricmanager", "journalctl"):
        (outside / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-outside\n")
        (outside / name).chmod(0o755)
        (root / "usr/bin" / name).unlink(missing_ok=True)
        (root / "usr/sbin" / name).unlink(missing_ok=True)
    (root / "usr/bin/nvidia-smi").symlink_to(outside / "nvidia-smi")
    document = probe(root, PATH=f"{outside}:/usr/bin:/bin")
    assert not (tmp_path / "ran-outside").exists()
    assert document["facts"]["driver_on_disk"]["missing"][0]["why"] == "not found"


def test_it_changes_nothing(root: Path) -> None:
    def state() -> dict[str, tuple[int, int]]:
        return {str(p): (p.lstat().st_size, p.lstat().st_mtime_ns) for p in root.glob("**/*") if not p.is_dir()}

    before = state()
    probe(root)
    assert state() == before


def test_removed_files_leave_reasons_and_no_crash(root: Path) -> None:
    for name in (
        "proc/driver/nvidia/version",
        "proc/stat",
        f"proc/{PID}/environ",
        "usr/bin/docker",
        f"proc/{PID}/cgroup",
    ):
        (root / name).unlink()
    document = probe(root)
    assert document["probe"]["errors"] == []
    missing = document["facts"]["driver_loaded"]["missing"]
    assert {"source": "kernel module", "how": "/proc/driver/nvidia/version", "why": "not found"} in missing
    assert document["servers"][0]["facts"]["environment"]["missing"]


def test_an_empty_root_gives_a_document_of_reasons(tmp_path: Path) -> None:
    document = probe(tmp_path)
    assert document["servers"] == []
    assert not document["facts"]["driver_loaded"]["readings"]


def test_garbage_in_proc_is_survived(root: Path) -> None:
    for name in ("stat", "cmdline", "environ", "maps", "limits", "mounts", "cgroup", "status"):
        (root / "proc" / str(PID + 2) / name).write_bytes(bytes(range(256)) * 40)
    (root / "proc/net/tcp").write_bytes(b"\xff\x00 nothing : here 0A\n" * 20)
    (root / "usr/bin/docker").write_text("#!/bin/sh\necho '{not json'\n")
    document = probe(root)
    assert document["probe"]["unfinished"] == []


def test_this_machine_can_be_probed_too() -> None:
    out = subprocess.run(
        [sys.executable, "-"], input=PROBE_SOURCE.read_bytes(), capture_output=True, check=True, timeout=25
    ).stdout
    document = json.loads(out)
    assert document["probe"]["root"] == "/"
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert document["facts"]["boot_id"]["readings"][0]["value"] == boot


# Transports ----------------------------------------------------------------------------------------------------------


async def test_a_local_node_gives_probe_and_logs(root: Path) -> None:
    (root / "var").mkdir()
    (root / "var/launch.log").write_text("INFO started\n")
    node = Node(name="a", via="local", address=str(root), logs=("var/launch.log", "var/other.log"))
    (taken,) = await probe_node(node)
    assert taken.raw is not None
    assert json.loads(taken.raw)["schema"] == "signoff/probe/1"
    found, absent = await read_logs(node)
    assert found.raw == b"INFO started\n"
    assert "No such file" in absent.missing


async def test_a_folder_of_files_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "rank0.log").write_text("one\n")
    (tmp_path / "nvidia-smi.txt").write_text("banner\n")
    node = Node(name="b", via="file", address=str(tmp_path))
    kinds = {taken.kind: taken for taken in await probe_node(node)}
    assert kinds["probe"].missing == "no probe.json in the folder"
    assert kinds["nvidia_smi"].raw == b"banner\n"
    (log,) = await read_logs(node)
    assert log.raw == b"one\n"
    (tmp_path / "probe.json").write_text('{"schema": "signoff/probe/1"}')
    assert (await probe_node(node))[0].raw == b'{"schema": "signoff/probe/1"}'


@pytest.mark.parametrize("via", ["ssh", "kubectl", "docker", "podman", "slurm", "ray"])
async def test_a_transport_that_is_not_there_says_so(via: str) -> None:
    node = Node(name="c", via=via, address="somewhere")  # type: ignore[arg-type]
    for taken in (*await probe_node(node), *await read_logs(node)):
        assert taken.raw is None
        assert taken.missing == f"transport not available: {via}"


async def test_a_root_that_is_not_there_is_missing_evidence(tmp_path: Path) -> None:
    (taken,) = await probe_node(Node(name="d", via="local", address=str(tmp_path / "none")))
    assert "no folder" in taken.missing


async def test_a_log_too_large_is_cut_in_the_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signoff.collect.environment.transports.FILE_BYTES_MAX", 100)
    (tmp_path / "big.log").write_text("a" * 200 + "z" * 200)
    (log,) = await read_logs(Node(name="e", via="file", address=str(tmp_path)))
    assert log.raw == b"a" * 50 + b"\n" + b"z" * 50
    assert log.conditions == {"bytes_total": 400, "bytes_cut": 300}


def test_addresses_of_interfaces_are_read_without_loopback(root: Path) -> None:
    assert probe(root)["facts"]["addresses"]["readings"] == []  # a root without them: a reason, no guess
    assert probe(root)["facts"]["addresses"]["missing"]
    (root / "proc/net/fib_trie").write_text(
        "Main:\n  +-- 10.7.0.0/24 2 0 2\n     |-- 10.7.0.0\n        /24 link UNICAST\n     |-- 10.7.0.4\n"
        "        /32 host LOCAL\n     |-- 10.7.0.255\n        /32 link BROADCAST\n"
        "     |-- 127.0.0.1\n        /32 host LOCAL\n"
    )
    (root / "proc/net/if_inet6").write_text(
        "fd000000000000000000000000000002 02 40 00 00     eth0\n"
        "00000000000000000000000000000001 01 80 10 80       lo\nodd\n"
    )
    (reading,) = probe(root)["facts"]["addresses"]["readings"]
    assert reading["value"] == "10.7.0.4 fd00::2"


def test_a_process_tells_its_number_inside_its_container(root: Path) -> None:
    status = root / f"proc/{PID}/status"
    assert probe(root)["servers"][0]["processes"][0]["pid_inside"] == PID
    status.write_text("Name:\tvllm\nNSpid:\t4711\t17\t1\n")
    assert probe(root)["servers"][0]["processes"][0]["pid_inside"] == 1
    status.write_text("Name:\tvllm\n")
    assert probe(root)["servers"][0]["processes"][0]["pid_inside"] is None

"""The simulated host: its programs answer as the real ones do, and each fault changes what it says."""

import json
import subprocess
from pathlib import Path

import pytest

from signoff.sim.host import HEALTHY, Host, command, non_default_args, write_root
from signoff.sim.host_faults import FAULTS, host_with


def answer(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(root / words[0]), *words[1:]], capture_output=True, text=True, check=False)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_root(tmp_path, HEALTHY, pid=4711, port=8000)
    return tmp_path


def test_programs_answer_known_arguments_and_refuse_others(root: Path) -> None:
    assert "<cuda_version>13.0</cuda_version>" in answer(root, "usr/bin/nvidia-smi", "-q", "-x").stdout
    assert "Driver Version: 580.126.20" in answer(root, "usr/bin/nvidia-smi").stdout
    assert "NV18" in answer(root, "usr/bin/nvidia-smi", "topo", "-m").stdout
    assert answer(root, "usr/bin/nvidia-smi", "--wrong").returncode == 9
    assert answer(root, "usr/sbin/modinfo", "-F", "version", "nvidia").stdout == "580.126.20\n"
    told = json.loads(answer(root, "usr/bin/docker", "inspect", HEALTHY.container).stdout)
    assert told[0]["Config"]["Image"] == "vllm/vllm-openai:kimi-k3"
    assert answer(root, "usr/bin/docker", "inspect", "other").returncode != 0


def test_the_banner_changes_its_words_with_the_branch(tmp_path: Path) -> None:
    write_root(tmp_path, Host(driver_loaded="610.43.02", smi_cuda="13.3"), pid=1, port=2)
    said = answer(tmp_path, "usr/bin/nvidia-smi").stdout
    assert "KMD Version: 610.43.02" in said
    assert "CUDA UMD Version: 13.3" in said


def test_the_launch_is_told_the_same_by_process_and_log() -> None:
    words = command(HEALTHY, 8000)
    arguments = non_default_args(HEALTHY, 8000)
    assert words[words.index("--kv-cache-dtype") + 1] == arguments["kv_cache_dtype"]
    assert arguments["enable_flashinfer_autotune"] is False
    assert "--no-enable-flashinfer-autotune" in words


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_changes_the_host_and_says_what_it_does(fault: object, tmp_path: Path) -> None:
    broken = host_with([fault.name])  # type: ignore[attr-defined]
    assert broken != HEALTHY
    assert fault.name.startswith("env-")  # type: ignore[attr-defined]
    assert len(fault.says) > 10  # type: ignore[attr-defined]
    write_root(tmp_path, broken, pid=4711, port=8000)


def test_faults_of_other_layers_are_passed_over() -> None:
    assert host_with(["prefix-off", "tool-leak"]) == HEALTHY

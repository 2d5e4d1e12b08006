"""Launch commands as people write them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.launch_command import read_launch_command

DOCKER = """#!/bin/sh
# eight B300
export HF_HOME=/cache
docker run -d --gpus all --ipc=host -e VLLM_USE_V2_MODEL_RUNNER=1 \\
  -v /m:/m vllm/vllm-openai:kimi-k3 /m/kimi-k3 \\
  --tensor-parallel-size=8 --enable-prefix-caching \\
  --attention-config '{"mla_prefill_backend": "flashinfer"}' --max-model-len 1048576 # the whole window
"""
POD = """
apiVersion: v1
kind: Pod
spec:
  containers:
    - name: server
      image: "vllm/vllm-openai:v0.28.0"
      env:
        - name: VLLM_HOST_IP
          value: "10.0.0.1"
      command: ["vllm", "serve"]
      args:
        - /models/m
        - --tensor-parallel-size
        - "4"
        - --no-enable-prefix-caching
"""


def test_docker() -> None:
    launch = read_launch_command(DOCKER.encode())
    assert (launch.engine, launch.runtime, launch.image) == ("vllm", "docker", "vllm/vllm-openai:kimi-k3")
    assert launch.model == "/m/kimi-k3"
    assert launch.flags["tensor-parallel-size"] == "8"
    assert launch.flags["enable-prefix-caching"] == "true"
    assert launch.flags["attention-config"] == '{"mla_prefill_backend": "flashinfer"}'
    assert launch.flags["max-model-len"] == "1048576"
    assert launch.env == {"HF_HOME": "/cache", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    assert (launch.container["gpus"], launch.container["ipc"]) == ("all", "host")
    assert launch.lines["max-model-len"] == 7
    assert "eight B300" in launch.notes


def test_plain_line_with_environment_and_short_options() -> None:
    launch = read_launch_command(
        b"CUDA_VISIBLE_DEVICES=0,1 nohup vllm serve org/model -tp 2 --port 8000 > out.log 2>&1 &\n"
    )
    assert (launch.engine, launch.model, launch.runtime) == ("vllm", "org/model", "shell")
    assert launch.env["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert (launch.flags["tensor-parallel-size"], launch.flags["port"]) == ("2", "8000")


def test_module_and_other_engine() -> None:
    launch = read_launch_command(b"python3 -m vllm.entrypoints.openai.api_server --model org/m --max_num_seqs 4\n")
    assert (launch.engine, launch.model, launch.flags["max-num-seqs"]) == ("vllm", "org/m", "4")
    other = read_launch_command(b"python3 -m sglang.launch_server --model-path /m --tp 2\n")
    assert (other.engine, other.model, other.flags["tensor-parallel-size"]) == ("sglang", "/m", "2")


def test_a_command_inside_a_shell() -> None:
    launch = read_launch_command(
        b"docker run --gpus all img:1 bash -c 'pip list && vllm serve /m --tensor-parallel-size 8'\n"
    )
    assert (launch.engine, launch.model, launch.image) == ("vllm", "/m", "img:1")
    assert launch.flags["tensor-parallel-size"] == "8"


def test_kubernetes() -> None:
    launch = read_launch_command(POD.encode())
    assert (launch.engine, launch.runtime, launch.image) == ("vllm", "kubernetes", "vllm/vllm-openai:v0.28.0")
    assert launch.model == "/models/m"
    assert launch.flags == {"tensor-parallel-size": "4", "no-enable-prefix-caching": "true"}
    assert launch.env == {"VLLM_HOST_IP": "10.0.0.1"}


def test_no_launch() -> None:
    assert read_launch_command(b"echo hello\n").engine == ""
    assert read_launch_command(b"").runtime == ""


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 500))
def test_any_bytes(noise: bytes, at: int) -> None:
    read_launch_command(noise)
    for sample in (DOCKER, POD):
        read_launch_command(sample.encode()[:at] + noise + sample.encode()[at:])

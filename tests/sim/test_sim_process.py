"""The service as a process: its host root, its log, its gateway, its end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request

import aiohttp
import pytest

from signoff.errors import SignoffError
from signoff.read.launch_log import read_launch_log
from signoff.sim.process import start


def get(url):
    with urllib.request.urlopen(url, timeout=10) as response:
        return response.status, response.read().decode()


def test_a_healthy_service_has_a_root_a_log_and_a_gateway(tmp_path):
    with start(root=tmp_path / "root") as simulated:
        assert simulated.alive
        assert get(simulated.base_url + "/health")[0] == 200
        assert json.loads(get(simulated.gateway_url + "/v1/models")[1])["data"][0]["id"] == "kimi-k3"
        assert (simulated.root / "proc" / str(simulated.pid) / "cmdline").exists()
        assert (simulated.root / "usr/bin/nvidia-smi").exists()
        log = read_launch_log(simulated.log.read_bytes())
        assert (log.ready, log.tp, len(log.ranks), log.max_model_len) == (True, 8, 8, 1_048_576)
        assert log.architecture == "KimiK3ForConditionalGeneration"
        assert (log.prefix_caching, log.kv_tokens, log.nccl) == (True, 5_024_299, ("2.30.7",))
        assert log.kv_gib == 65.0
        assert log.notes == ()
    assert not simulated.alive
    simulated.stop()
    with pytest.raises(urllib.error.URLError):
        get(simulated.base_url + "/health")


def test_a_load_fault_ends_the_process(tmp_path):
    with start(["load-kv-too-small"], root=tmp_path / "root") as simulated:
        assert not simulated.alive
        log = read_launch_log(simulated.log.read_bytes())
        assert not log.ready
        assert log.first_error is not None
        assert not (simulated.root / "proc" / str(simulated.pid)).exists()


def test_an_unknown_fault_is_refused_before_anything_starts(tmp_path):
    with pytest.raises(SignoffError, match="unknown fault"):
        start(["soak-nothing"], root=tmp_path / "root")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(tmp_path, number):
    words = [sys.executable, "-m", "signoff.sim.serve", "--root", str(tmp_path / "root")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"ready ")
    os.kill(process.pid, number)
    _out, errors = process.communicate(timeout=10)
    assert (process.returncode, errors) == (0, b"")
    assert "Application shutdown complete." in (tmp_path / "root/var/log/vllm.log").read_text()


def test_a_taken_port_is_said(tmp_path):
    with start(root=tmp_path / "one") as first:
        port = int(first.base_url.rpartition(":")[2])
        with pytest.raises(SignoffError, match="did not start"):
            start(root=tmp_path / "two", port=port)


def test_sixty_four_streams_need_little_cpu(tmp_path):
    """The server's own CPU time for 64 streams of 100 tokens, read from the kernel."""

    def cpu_s(pid):
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    async def stream(session, url):
        body = {
            "model": "kimi-k3",
            "messages": [{"role": "user", "content": "go on"}],
            "max_tokens": 100,
            "stream": True,
        }
        async with session.post(url, json=body) as response:
            return (await response.read()).count(b"data: ")

    async def load(url):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            return await asyncio.gather(*(stream(session, url) for _ in range(64)))

    with start(root=tmp_path / "root") as simulated:
        before = cpu_s(simulated.pid)
        chunks = asyncio.run(load(simulated.base_url + "/v1/chat/completions"))
        assert min(chunks) > 90
        assert cpu_s(simulated.pid) - before < 1.0
        made = 'vllm:generation_tokens_total{engine="0",model_name="kimi-k3"} 6400.0'
        assert made in get(simulated.base_url + "/metrics")[1]

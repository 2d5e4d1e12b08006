"""A faithful real gateway between caller and service raises nothing."""

import json
import shutil
import subprocess
import sys
import time
import urllib.request

import pytest

from signoff.core.words import Gate
from signoff.run.demo import demo_plan
from signoff.sim.process import start

pytestmark = pytest.mark.gateway

CONF = """daemon off; pid {folder}/nginx.pid; error_log {folder}/error.log;
worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; client_max_body_size 64m;
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass {upstream}; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


@pytest.fixture
def nginx(tmp_path):
    running = []

    def begin(upstream, port):
        conf = tmp_path / "nginx.conf"
        conf.write_text(CONF.format(folder=tmp_path, port=port, upstream=upstream))
        running.append(subprocess.Popen([shutil.which("nginx"), "-c", conf, "-p", tmp_path]))
        for _ in range(100):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    return f"http://127.0.0.1:{port}"
            except OSError:
                time.sleep(0.05)
        raise AssertionError((tmp_path / "error.log").read_text())

    yield begin
    for process in running:
        process.terminate()
        process.wait(10)


def test_a_faithful_gateway_raises_nothing(tmp_path, nginx, free_port):
    with start((), root=tmp_path / "root") as service:
        gateway = nginx(service.base_url, free_port)
        plan = tmp_path / "plan.yaml"
        plan.write_text(demo_plan(service.base_url, gateway, service.root, "nginx", (Gate.ENVIRONMENT, Gate.AGENT)))
        bundle = tmp_path / "bundle"
        done = subprocess.run(
            [sys.executable, "-m", "signoff", "run", plan, "-o", bundle], capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stdout + done.stderr
        findings = json.loads((bundle / "findings.json").read_bytes())["findings"]
        about = {f["code"]: f["outcome"] for f in findings if f["code"].startswith("agent.gateway.")}
        assert about
        assert set(about.values()) == {"pass"}

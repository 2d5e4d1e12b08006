"""A run that ends badly loses nothing that was measured."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from signoff.bundle.reading import read_all_records
from signoff.core.words import State
from signoff.run.demo import demo_plan
from signoff.sim.process import start

SIGNOFF = [sys.executable, "-m", "signoff"]


@pytest.fixture
def begun(tmp_path):
    """A run in progress against a healthy service: the process, the service and the bundle folder."""
    with start((), root=tmp_path / "root") as service:
        plan = tmp_path / "plan.yaml"
        plan.write_text(demo_plan(service.base_url, service.gateway_url, service.root, "go"))
        folder = tmp_path / "bundle"
        process = subprocess.Popen(
            [*SIGNOFF, "run", plan, "-o", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            yield process, service, folder
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.communicate()


def finished_by_the_server(base_url: str) -> int:
    with urllib.request.urlopen(f"{base_url}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    return int(sum(float(n) for n in re.findall(r"^vllm:request_success_total\{[^}]*\} (\S+)$", text, re.MULTILINE)))


def until(condition, seconds=40):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.1)


def judged(folder: Path, code: int) -> dict:
    done = subprocess.run([*SIGNOFF, "judge", folder, "--json"], capture_output=True, timeout=60)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_a_killed_run_keeps_every_request_that_had_ended(begun):
    process, service, folder = begun
    seen: list[tuple[float, int]] = []

    def enough() -> bool:
        seen.append((time.monotonic(), finished_by_the_server(service.base_url)))
        return seen[-1][1] > 150

    until(enough)
    os.kill(process.pid, signal.SIGKILL)
    killed = time.monotonic()
    process.wait()
    ended_before = max((count for at, count in seen if at < killed - 1.0), default=0)
    assert ended_before > 0
    kept = [r for r in read_all_records(folder) if r.state is State.OK]
    assert len(kept) >= ended_before
    verdict = judged(folder, 13)
    assert verdict["verdict"] == "incomplete"
    assert any(reason["code"] == "run.whole.finished" for reason in verdict["reasons"])


def test_interrupting_stops_load_within_two_seconds_and_seals(begun):
    process, service, folder = begun
    until(lambda: finished_by_the_server(service.base_url) > 60)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    time.sleep(2.0)
    before = finished_by_the_server(service.base_url)
    time.sleep(1.0)
    assert finished_by_the_server(service.base_url) == before
    assert process.wait(30) == 130
    assert time.monotonic() - asked < 30
    assert (folder / "manifest.json").exists()
    assert json.loads((folder / "verdict.json").read_bytes())["verdict"] == "incomplete"
    assert read_all_records(folder)


def test_a_service_that_dies_in_the_middle_is_evidence(begun):
    process, service, folder = begun
    until(lambda: finished_by_the_server(service.base_url) > 60)
    os.kill(service.pid, signal.SIGKILL)
    out, err = process.communicate(timeout=90)
    assert process.returncode in (11, 13), out + err
    assert "Traceback" not in err
    verdict = json.loads((folder / "verdict.json").read_bytes())
    assert verdict["verdict"] in ("rework", "incomplete")
    assert verdict["gates"]["capacity"] != "pass"

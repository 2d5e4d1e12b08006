"""`make real`: acceptances of a real vLLM on the CPU, checked against what must come out. Two server starts.

1  whole acceptances under `generic-vllm` and `vllm-cpu`, and the simulator held to the same server
2  a pool of 4,096 tokens: the capacity gate must fail on KV and name the highest load that held
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import real_vllm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
OUT = ROOT / "out" / "real"
WHOLE = "--whole" in sys.argv
"""All gates under `generic-vllm` too, which costs minutes; without it environment and prefix alone."""
TEMPLATE = HERE / "chatml_tools.jinja"

PLAN = """schema: signoff/plan/1
name: {name}
profile: {profile}
service: {{base_url: "{url}", gateway_url: none, model: smol, exclusive: true}}
nodes: [{{name: here, via: local, logs: ["{log}"]}}]
objective:
  concurrency: {{target: {target}, floor: {floor}, hold_s: 10}}
  input_tokens: {{target: {window}, floor: 512}}
  limits: {{ttft_ms_p99: {ttft}, itl_ms_p99: 2000, queue_ms_p99: {queue}, error_rate: 0.01, preempted_share: 0.05}}
load:
  reuse_share: {reuse}
  long_input: {{output_tokens: 8}}
  concurrency: {{input_tokens: {input}, output_tokens: {output}}}
  soak: {{concurrency: {floor}}}
prefix: {{rounds: 5, prompt_tokens: 450}}
agent: {{failure_rate: {{limit: 0.2, confidence: 0.95, attempts_max: 20}}}}
review: {{runner: the lane, items: {{all: the lane}}}}
triggers: {{throttle: refuse above the cap, scale: never, rollback: stop the server}}
rollback: {{to: nothing, how: stop the server, minutes: 1}}
seed: 1
"""


class Lane:
    """What was expected and did not come."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def expect(self, holds: object, what: str) -> None:
        print(f"  {'ok  ' if holds else 'MISS'} {what}", flush=True)
        if not holds:
            self.missed.append(what)


def accept(
    name: str, url: str, log: Path, *words: str, **numbers: object
) -> tuple[int, dict[str, Any], dict[str, Any]]:
    """Run one plan; exit code, verdict and findings (by code, the first of each)."""
    bundle = OUT / name
    plan = OUT / f"{name}.yaml"
    plan.write_text(PLAN.format(name=name, url=url, log=log, **numbers))
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "signoff", "run", plan, "-o", bundle, *words], check=False)
    print(f"{name}: exit {done.returncode} after {time.monotonic() - began:.0f} s", flush=True)
    verdict = json.loads((bundle / "verdict.json").read_bytes())
    findings: dict[str, Any] = {}
    for finding in json.loads((bundle / "findings.json").read_bytes())["findings"]:
        findings.setdefault(finding["code"], finding)
    return done.returncode, verdict, findings


def healthy_server(lane: Lane, folder: Path) -> None:
    log = OUT / "server-1.log"
    options = ("--max-model-len", "4096", "--block-size", "32", "--chat-template", str(TEMPLATE))
    with real_vllm.served(folder, log, *options) as (url, _):
        small: dict[str, object] = {
            "window": 3072,
            "ttft": 30000,
            "queue": 30000,
            "input": 256,
            "output": 32,
            "reuse": 0.5,
        }
        code, verdict, _ = accept(
            "generic-vllm", url, log, *([] if WHOLE else ["--gate", "environment", "--gate", "prefix"]),
            profile="generic-vllm", target=4, floor=2, **small,
        )  # fmt: skip
        lane.expect(code == 13 and verdict["verdict"] == "incomplete", "generic-vllm on a CPU is incomplete")
        first = verdict["reasons"][0]["code"]
        lane.expect(first.startswith("environment.chain."), f"... because the chain is not proved ({first})")
        lane.expect(
            "CUDA 12" not in json.dumps(verdict), "... and a CPU build is never called a build for an older CUDA"
        )
        code, verdict, findings = accept("vllm-cpu", url, log, profile="vllm-cpu", target=4, floor=2, **small)
        check_laboratory(lane, code, verdict, findings)
        # last, since the refusals that it provokes stand in the server's log
        parity = subprocess.run(
            [sys.executable, "-m", "pytest", "-m", "real", "tests/real"],
            cwd=ROOT,
            env=os.environ | {"SIGNOFF_REAL_URL": url},
            check=False,
        )
        lane.expect(parity.returncode == 0, "the simulated service answers as the real one does")


def check_laboratory(lane: Lane, code: int, verdict: dict[str, Any], findings: dict[str, Any]) -> None:
    chain = {code: f["outcome"] for code, f in findings.items() if code.startswith("environment.chain.")}
    lane.expect(
        chain and set(chain.values()) == {"pass"}, f"vllm-cpu: {len(chain)} links of the chain are proved without a GPU"
    )
    unlike = {code: f["outcome"] for code, f in findings.items() if f["outcome"] not in ("pass", "not_applicable")}
    lane.expect(verdict["gates"]["environment"] == "pass", f"the environment gate passes ({unlike})")
    lane.expect(verdict["gates"]["capacity"] == "pass", "the small target holds")
    hits = findings["prefix.hits.expected"]
    lane.expect(hits["outcome"] == "pass", f"prefix hits equal the expectation to the token ({hits['values']})")
    control = findings["prefix.control.zero"]
    lane.expect(control["outcome"] == "pass", f"controls hit nothing they may not ({control['values']})")
    lane.expect(
        code == 11 and (verdict["verdict"], verdict["scope"]) == ("rework", "interface"),
        "the small model breaks its arguments at every load: rework of the interface",
    )
    shown = json.dumps([f["values"] for f in findings.values() if f["gate"] == "agent" and f["outcome"] == "fail"])
    lane.expect("arguments" in shown, "the broken arguments are shown raw")


def small_pool(lane: Lane, folder: Path) -> None:
    log = OUT / "server-2.log"
    options = ("--max-model-len", "2048", "--block-size", "32", "--num-gpu-blocks-override", "128")
    with real_vllm.served(folder, log, *options) as (url, _):
        code, verdict, findings = accept(
            "small-pool", url, log, "--gate", "environment", "--gate", "capacity",
            profile="vllm-cpu", target=16, floor=8, window=1024, ttft=4000, queue=2000,
            input=448, reuse=0.0, output=224,
        )  # fmt: skip
        floor = findings["capacity.concurrency.floor"]
        lane.expect(code == 12 and verdict["verdict"] == "scale", "a pool of 4,096 tokens under 8 streams: scale")
        lane.expect(
            (floor["outcome"], floor["cause"], floor["resource"]) == ("fail", "concurrency", "kv"),
            f"the floor fails by concurrency, resource KV ({floor['values']})",
        )
        lane.expect(verdict["accepted"]["held"] in (1, 2, 4), f"the highest load that held: {verdict['accepted']}")


def main() -> int:
    subprocess.run(["rm", "-rf", str(OUT)], check=True)
    OUT.mkdir(parents=True)
    folder = real_vllm.home()
    real_vllm.set_up(folder)
    lane = Lane()
    healthy_server(lane, folder)
    small_pool(lane, folder)
    print(f"real lane: {'as it should be' if not lane.missed else '; '.join(lane.missed)}")
    return 1 if lane.missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Two hundred random draws of faults and strengths, each a whole acceptance with a short plan: the verdict must be the
simulator's own, in at least 95 of 100, and never `go` where the truth is not.

    python tests/lanes/draws.py [--draws 200] [--first 0] [--at-once 2] [--seed 1] [--only N]
"""

import argparse
import concurrent.futures
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import signoff
from signoff.core.words import VerdictName
from signoff.run.demo import demo_plan
from signoff.sim.faults import FAULTS, Fault
from signoff.sim.process import start
from signoff.sim.truth import truth

SHORT = {"soak_s": 4.0, "soak_idle_s": 1.0, "hold_s": 1.0}
NOT_DRAWN = ("load-oom", "load-kv-too-small", "load-shard-truncated")
"""The service never comes up: there is nothing to run a plan against."""
SHARE_RIGHT = 0.95


class Draw(NamedTuple):
    number: int
    faults: tuple[str, ...]
    wanted: tuple[VerdictName, ...]
    got: str
    first: str

    @property
    def right(self) -> bool:
        return self.got in self.wanted

    @property
    def wrong_go(self) -> bool:
        return self.got == VerdictName.GO and VerdictName.GO not in self.wanted


def drawn(number: int, seed: int) -> tuple[str, ...]:
    """None to two faults, each with its own strength or one within a factor of three of it."""
    draw = random.Random(f"{seed}/{number}")
    offered = [fault for fault in FAULTS if fault.name not in NOT_DRAWN and not fault.name.startswith("client-")]
    count = draw.choices((0, 1, 2), weights=(2, 6, 2))[0]
    return tuple(_with_strength(fault, draw) for fault in draw.sample(offered, count))


def _with_strength(fault: Fault, draw: random.Random) -> str:
    if fault.strength is None or draw.random() < 0.5:
        return fault.name
    strength = fault.strength * 3 ** draw.uniform(-1, 1)
    if fault.unit == "share":
        strength = min(1.0, strength)
    return f"{fault.name}={strength:.3g}"


def short_profile(folder: Path) -> Path:
    """The simulated profile with a soak and holds of seconds."""
    text = (Path(signoff.__file__).parent / "profiles" / "kimi-k3-simulated.yaml").read_text()
    for key, value in SHORT.items():
        lines = [f"  {key}: {value:g}" if line.strip().startswith(f"{key}:") else line for line in text.splitlines()]
        text = "\n".join(lines) + "\n"
    path = folder / "short.yaml"
    path.write_text(text)
    return path


def run(number: int, seed: int) -> Draw:
    faults = drawn(number, seed)
    ruled = truth(faults)
    with tempfile.TemporaryDirectory(prefix="signoff-draw-") as scratch:
        folder = Path(scratch)
        with start(faults, seed=number, root=folder / "root") as service:
            gateway = service.gateway_url if any(name.startswith(("gateway-", "retry-")) for name in faults) else None
            text = demo_plan(service.base_url, gateway, service.root, f"draw-{number}")
            text = text.replace("profile: kimi-k3-simulated", f"profile: {short_profile(folder)}")
            plan = folder / "plan.yaml"
            plan.write_text(text.replace("hold_s: 2", "hold_s: 1"))
            done = subprocess.run(
                [sys.executable, "-m", "signoff", "run", plan, "-o", folder / "bundle", "--json"],
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        try:
            verdict = json.loads(done.stdout)
            got, first = verdict["verdict"], next((r["code"] for r in verdict["reasons"]), "")
        except ValueError:
            got, first = "none", done.stderr.strip()[-300:]
    return Draw(number, faults, (ruled.verdict, *ruled.also), got, first)


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("--draws", type=int, default=200)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--at-once", type=int, default=2)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--only", type=int, action="append")
    words.add_argument("--json", type=Path)
    said = words.parse_args()
    numbers = said.only or range(said.first, said.first + said.draws)
    with concurrent.futures.ThreadPoolExecutor(said.at_once) as pool:
        draws = []
        for draw in pool.map(lambda number: run(number, said.seed), numbers):
            draws.append(draw)
            mark = "ok  " if draw.right else "MISS"
            print(f"{mark} {draw.number:3d} {draw.got:<10} {' '.join(draw.faults) or 'healthy'}", flush=True)
            if not draw.right:
                print(f"         wanted {' or '.join(draw.wanted)}; first reason {draw.first}", flush=True)
    right, wrong_go = sum(d.right for d in draws), [d.number for d in draws if d.wrong_go]
    print(f"draws: {right} of {len(draws)} right, wrong go: {wrong_go or 'none'}")
    if said.json:
        said.json.write_text(json.dumps({"draws": len(draws), "right": right, "wrong_go": len(wrong_go)}))
    return 0 if right >= SHARE_RIGHT * len(draws) and not wrong_go else 1


if __name__ == "__main__":
    sys.exit(main())

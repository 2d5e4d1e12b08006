"""One run of the agent gate alone into a bundle, judged from the bundle: what the tests of the loop share."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from signoff.bundle.folder import Folder
from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.core.dossier import Dossier
from signoff.core.events import Event
from signoff.core.finding import Finding
from signoff.core.plan_text import parse_plan
from signoff.judge.agent import findings
from signoff.run.again import read_dossier
from signoff.run.agent import run_agent
from signoff.run.profiles import load_profile
from signoff.run.session import Session

PLAN = """schema: signoff/plan/1
name: agent-alone
profile: {profile}
service: {{base_url: {base_url}, gateway_url: {gateway}, model: {model}}}
gates: [agent]
objective:
  concurrency: {{target: 8, floor: 4}}
  input_tokens: {{target: 1024, floor: 512}}
agent:
  failure_rate: {{limit: {limit}, attempts_max: {attempts_max}}}
"""


class AgentRun:
    """What came of one run."""

    def __init__(self, dossier: Dossier, events: Sequence[Event], seconds: float) -> None:
        self.dossier, self.events, self.seconds = dossier, events, seconds
        self.findings: dict[str, Finding] = {f.code: f for f in findings(dossier)}


async def run_gate(
    folder: Path,
    base_url: str,
    *,
    gateway: str = "none",
    profile: str = "kimi-k3-simulated",
    model: str = "kimi-k3",
    limit: float = 0.5,
    attempts: int = 6,
    attempts_max: int = 12,
    stop_after: int | None = None,
    caps: str = "",
) -> AgentRun:
    """Runs the gate with `attempts` per kind and lane; `stop_after` sets the stop after that many records.

    `caps` is what the plan's `caps` hold, as text."""
    text = PLAN.format(
        profile=profile, base_url=base_url, gateway=gateway, model=model, limit=limit, attempts_max=attempts_max
    )
    text += f"caps: {{{caps}}}\n" if caps else ""
    plan, known = parse_plan(text), load_profile(profile)
    known = replace(known, floors=replace(known.floors, agent_attempts=attempts))
    clock, stop, store = SystemClock(), asyncio.Event(), Folder.create(folder, text.encode(), known)
    events: list[Event] = []
    began = clock.now_ns()
    async with HttpClient(plan.service, clock) as client:
        session = Session(
            plan=plan,
            profile=known,
            model=model,
            max_model_len=None,
            client=client,
            store=store,
            clock=clock,
            stop=stop,
            run_id="test",
        )
        async for event in run_agent(session):
            events.append(event)
            if stop_after is not None and sum(type(e).__name__ == "RecordTaken" for e in events) >= stop_after:
                if not stop.is_set():
                    began = clock.now_ns()
                stop.set()
    seconds = (clock.now_ns() - began) / 1e9
    store.close()
    return AgentRun(read_dossier(folder), events, seconds)

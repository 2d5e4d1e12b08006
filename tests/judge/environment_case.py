"""A dossier of the environment gate from a simulated host: a fake root, probed for real, and a launch log beside it."""

import asyncio
import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from signoff.collect.environment.transports import PROBE_SOURCE, probe_node
from signoff.core.dossier import Dossier
from signoff.core.events import StageStarted
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.plan import Concurrency, InputTokens, Node, Objective, Plan, Service
from signoff.core.profile import Profile
from signoff.core.words import Gate, Outcome
from signoff.judge.environment import findings
from signoff.run.profiles import load_profile
from signoff.sim.host import Host, write_root
from signoff.sim.host_faults import host_with
from signoff.sim.launch import launched
from signoff.sim.launch_log import LaunchLog

PID, PORT, STARTED_S = 4711, 8000, 1_796_000_000.0
STARTED_STAMP = b"11-30 00:53:20"
"""`STARTED_S` as the log has it."""
T_NS = 1_796_000_100 * 10**9


class Case(Struct):
    """What a test may change before judging."""

    profile: Profile
    plan: Plan
    cards: list[Evidence] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    events: list[StageStarted] = field(default_factory=list)

    def add(self, kind: str, raw: bytes, where: str = "node-a", **conditions: Value) -> None:
        digest = hashlib.sha256(raw).hexdigest()
        self.blobs[digest] = raw
        card = Evidence(
            kind=kind,
            source=f"test {kind}",
            where=where,
            taken_ns=T_NS,
            digest=digest,
            bytes=len(raw),
            conditions=dict(conditions),
            stage="environment.probe",
        )
        self.cards.append(card)

    def miss(self, kind: str, why: str, where: str = "node-a") -> None:
        self.cards.append(Evidence(kind=kind, source=f"test {kind}", where=where, taken_ns=T_NS, missing=why))

    def drop(self, kind: str) -> None:
        self.cards = [card for card in self.cards if card.kind != kind]

    def probe(self) -> dict:  # type: ignore[type-arg]
        card = next(card for card in self.cards if card.kind == "probe")
        return json.loads(self.blobs[card.digest])  # type: ignore[no-any-return]

    def with_probe(self, document: dict) -> None:  # type: ignore[type-arg]
        self.drop("probe")
        self.add("probe", json.dumps(document).encode())

    def loaded(self, *, probe: dict | None = None, log: bytes | None = None, after: bool = True) -> "Case":  # type: ignore[type-arg]
        """The case after load was sent: a stage of another gate began, and all was looked at again."""
        self.events.append(StageStarted(stage="capacity.load", gate=Gate.CAPACITY, at_ns=T_NS + 1))
        if after:
            card = next(card for card in self.cards if card.kind == "launch_log")
            self.add("probe", json.dumps(later(probe or self.probe())).encode(), when="after")
            self.add("launch_log", self.blobs[card.digest] if log is None else log, when="after")
        return self

    def dossier(self, started: bool = True) -> Dossier:
        events = [StageStarted(stage="environment.probe", gate=Gate.ENVIRONMENT, at_ns=T_NS)] if started else []
        events += self.events
        return Dossier(
            plan=self.plan,
            profile=self.profile,
            evidence=self.cards,
            records=[],
            metrics={},
            events=events,
            blob=lambda digest: self.blobs[digest],
        )

    def findings(self, started: bool = True) -> dict[str, Finding]:
        return {finding.code: finding for finding in findings(self.dossier(started))}

    def outcomes(self) -> dict[str, Outcome]:
        return {code: finding.outcome for code, finding in self.findings().items()}


def later(document: dict) -> dict:  # type: ignore[type-arg]
    """A probe document as one taken a minute later."""
    about = document.get("probe")
    if not isinstance(about, dict) or not isinstance(about.get("began_unix_ns"), int):
        return document
    return {**document, "probe": {**about, "began_unix_ns": about["began_unix_ns"] + 60 * 10**9}}


def plan_of(profile: str, nodes: Sequence[Node], simulated: bool) -> Plan:
    return Plan(
        schema="signoff/plan/1",
        name="test",
        profile=profile,
        service=Service(base_url=f"http://127.0.0.1:{PORT}", model="kimi-k3", simulated=simulated),
        nodes=tuple(nodes),
        objective=Objective(
            concurrency=Concurrency(target=8, floor=4, hold_s=1), input_tokens=InputTokens(target=131072, floor=32768)
        ),
    )


def launch_log(folder: Path, faults: Sequence[str], host: Host | None = None) -> bytes:
    settings, own = launched(list(faults))
    host = host or own
    settings = replace(settings, version=host.wheels["vllm"])
    path = folder / "launch.log"
    log = LaunchLog(path, settings, host, pid=PID, port=PORT)
    log.launch()
    log.close()
    return re.sub(rb"\d\d-\d\d \d\d:\d\d:\d\d", STARTED_STAMP, path.read_bytes())


def case_of(
    folder: Path,
    faults: Sequence[str] = (),
    *,
    profile: str = "kimi-k3-simulated",
    prune: Sequence[str] = (),
    change: Callable[[Host], Host] | None = None,
    simulated: bool = True,
) -> Case:
    """The case of a host with `faults`; files named in `prune` (relative to its root) are removed before the probe."""
    root, host = folder / "root", host_with(list(faults))
    host = change(host) if change is not None else host
    write_root(root, host, pid=PID, port=PORT, started_s=STARTED_S)
    for name in prune:
        for path in root.glob(name):
            path.unlink()
    node = Node(name="node-a", via="local", address=str(root))
    taken = asyncio.run(probe_node(node))[0]
    assert taken.raw is not None, taken.missing
    case = Case(profile=load_profile(profile), plan=plan_of(profile, [node], simulated))
    case.add("probe", taken.raw)
    case.add("launch_log", launch_log(folder, faults, host), when="before")
    version = host.wheels.get("vllm", "")
    case.add("version", json.dumps({"version": version}).encode(), where=case.plan.service.base_url)
    case.add("models", json.dumps({"data": [{"id": "kimi-k3", "max_model_len": 1048576}]}).encode())
    case.add("stranger", b'{"path": "/v1/models", "status": 200}')
    case.add("scrape", f"process_start_time_seconds {STARTED_S}\n".encode())
    return case


def with_plan(case: Case, **changes: object) -> Case:
    return replace(case, plan=replace(case.plan, **changes))


def probe_root(root: Path) -> bytes:
    words = [sys.executable, "-", "--root", str(root)]
    return subprocess.run(words, input=PROBE_SOURCE.read_bytes(), capture_output=True, check=True, timeout=25).stdout

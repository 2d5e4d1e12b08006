"""A crafted bundle, judged by hand: every verdict, every outcome, a few hundred requests and scrapes, and foreign text
that tries to be markup. What the numbers say is invented; their shapes are those of a run."""

import random
from typing import Literal

import numpy as np

from signoff.core.codec import digest
from signoff.core.dossier import Dossier
from signoff.core.events import RunStopped, StageFinished, StageStarted
from signoff.core.evidence import Evidence
from signoff.core.finding import Finding
from signoff.core.metrics import MetricTable
from signoff.core.plan import Concurrency, InputTokens, Limits, Objective, Plan, Review, Service
from signoff.core.profile import Cache, Floors, Profile
from signoff.core.record import Record
from signoff.core.verdict import Accepted, ChecklistItem, Gates, Reason, Subject, Verdict
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity, State, VerdictName
from signoff.judge.catalogue.entry import Entry
from signoff.judge.judgement import Judgement
from signoff.report.sentences import Sentences

START_NS = 1_796_096_467 * 10**9  # 2026-12-01 03:41:07 UTC
HOSTILE = '<script>alert("owned")</script>'
SERVER = "http://127.0.0.1:8000/metrics"
CHAIN = (
    ("driver", "580.82.07", {"at_least": "580"}, Outcome.PASS),
    ("libcuda", "13.0", {"major": 13}, Outcome.PASS),
    ("cuda_runtime", "12.9", {"major": 13}, Outcome.FAIL),
    ("cuda_build", "12.9", {"major": 13}, Outcome.FAIL),
    ("image", "vllm/vllm-openai:kimi-k3", {"equals": "vllm/vllm-openai:kimi-k3"}, Outcome.PASS),
    ("vllm_build", "0.14.0+cu129", {"at_least": "0.14.0"}, Outcome.PASS),
    ("gpu", "8 x NVIDIA B300", {"one_of": "B200, B300, GB200, GB300"}, Outcome.PASS),
    ("process", None, {"one_of": "vllm"}, Outcome.INCONCLUSIVE),
)
STAGES = (
    ("capacity.load", Gate.CAPACITY, 0, 4),
    ("capacity.long_input.8192", Gate.CAPACITY, 4, 9),
    ("capacity.long_input.32768", Gate.CAPACITY, 9, 17),
    ("capacity.long_input.131072", Gate.CAPACITY, 17, 30),
    ("capacity.concurrency.8", Gate.CAPACITY, 30, 37),
    ("capacity.concurrency.16", Gate.CAPACITY, 37, 44),
    ("capacity.concurrency.32", Gate.CAPACITY, 44, 52),
    ("capacity.soak", Gate.CAPACITY, 52, 66),
    ("capacity.idle", Gate.CAPACITY, 66, 69),
    ("prefix.rounds", Gate.PREFIX, 69, 78),
    ("agent.one_tool", Gate.AGENT, 78, 82),
    ("agent.second_turn", Gate.AGENT, 82, 86),
    ("agent.structured", Gate.AGENT, 86, 90),
)


def entry(code: str, title: str) -> Entry:
    """A catalogue entry for codes of this sample."""
    return Entry(
        code=code,
        always=False,
        title=title,
        checked=f"Whether {title.lower()} is as it must be.",
        matters="What is not checked is not known.",
        measured="From several independent sources.",
        changes="A run in which it is as demanded.",
        sentences={
            Outcome.PASS: title + " is as demanded: {observed}.",
            Outcome.FAIL: title + " is {observed}, and that is not what is demanded.",
            Outcome.INCONCLUSIVE: title + " cannot be told: one source only.",
        },
        next_step={
            Outcome.FAIL: "Rebuild the container from the official image with CUDA 13, then run the same plan again.",
            Outcome.INCONCLUSIVE: "Give Signoff read access to the node and run again.",
        },
    )


def entries() -> tuple[Entry, ...]:
    codes = dict.fromkeys(finding.code for finding in findings(hostile=False))
    titles = {
        "environment.chain.cuda_runtime": "CUDA runtime",
        "environment.chain.cuda_build": "CUDA build of vLLM",
        "environment.chain.libcuda": "Mapped libcuda",
        "environment.chain.vllm_build": "vLLM build",
        "environment.chain.gpu": "GPUs",
    }
    return tuple(
        entry(code, titles.get(code, code.split(".", 1)[1].replace(".", " ").replace("_", " ").capitalize()))
        for code in codes
    )


def findings(hostile: bool) -> list[Finding]:
    made = [
        Finding(
            code=f"environment.chain.{name}",
            gate=Gate.ENVIRONMENT,
            outcome=outcome,
            bearing=Bearing.CHAIN,
            cause=Cause.ENVIRONMENT if outcome is Outcome.FAIL else Cause.NONE,
            phase=Phase.LOAD if outcome is Outcome.FAIL else Phase.NA,
            values={
                "observed": observed,
                "sources": 2 if observed else 1,
                "readings": f"{observed} (/proc/driver/nvidia/version), {observed} (nvidia-smi)" if observed else None,
                "missing": None if observed else "node probe: permission denied",
                "reason": None if outcome is Outcome.PASS else "one independent source of two",
            },
            limit={**demand, "sources_least": 2, "source": "recipe"},
            evidence=(f"sha256:{digest(name.encode())}#L17", "profile.json#chain"),
            items=(2, 3),
        )
        for name, observed, demand, outcome in CHAIN
    ]
    for load, p99, outcome in ((8, 412.2, Outcome.PASS), (16, 655.1, Outcome.PASS), (32, 1804.9, Outcome.FAIL)):
        made.append(
            Finding(
                code="capacity.concurrency.held",
                gate=Gate.CAPACITY,
                outcome=outcome,
                bearing=Bearing.EVIDENCE,
                subject=f"{load} streams",
                cause=Cause.CONCURRENCY if outcome is Outcome.FAIL else Cause.NONE,
                phase=Phase.CONCURRENCY,
                resource="kv" if outcome is Outcome.FAIL else "",
                values={
                    "observed": f"{load} streams",
                    "ttft_ms_p99": p99,
                    "ttft_ms_p99_low": p99 * 0.9,
                    "ttft_ms_p99_high": p99 * 1.13,
                    "queue_ms_p99": p99 / 3,
                    "error_rate": 0.0021,
                    "kv_cache_usage": min(1.0, load / 33),
                    "preempted_share": 0.0,
                },
                limit={"ttft_ms_p99": 1000.0, "error_rate": 0.01},
                evidence=(f"metrics:{SERVER}@{START_NS}-{START_NS + 10**10}",),
                items=(6, 8),
            )
        )
    made += [
        Finding(
            code="capacity.concurrency.target",
            gate=Gate.CAPACITY,
            outcome=Outcome.FAIL,
            bearing=Bearing.TARGET,
            cause=Cause.CONCURRENCY,
            phase=Phase.CONCURRENCY,
            values={"held": 16, "observed": 16, "kv_cache_usage": 0.97},
            limit={"target": 32},
            items=(6,),
        ),
        Finding(
            code="capacity.memory.peak",
            gate=Gate.CAPACITY,
            outcome=Outcome.PASS,
            bearing=Bearing.EVIDENCE,
            severity=Severity.WARN,
            values={"observed": "171 GiB", "gpu_memory_gib_max": 171.25, "host_memory_gib_max": 940.0},
            items=(7,),
        ),
        Finding(code="capacity.soak.drift", gate=Gate.CAPACITY, outcome=Outcome.NOT_RUN, bearing=Bearing.EVIDENCE),
        Finding(
            code="prefix.witness.accounting",
            gate=Gate.PREFIX,
            outcome=Outcome.PASS,
            bearing=Bearing.HITS,
            values={"observed": "9,216 of 9,216 tokens", "hit_share": 0.994, "expected_share": 1.0, "rounds": 5},
            items=(9, 10),
        ),
        Finding(
            code="agent.tool.arguments",
            gate=Gate.AGENT,
            outcome=Outcome.INCONCLUSIVE,
            bearing=Bearing.MINOR,
            required=False,
            values={
                "observed": HOSTILE if hostile else "1 of 40",
                "k": 1,
                "n": 40,
                "failure_rate": 0.025,
                "failure_rate_low": 0.0006,
                "failure_rate_high": 0.132,
            },
            limit={"failure_rate": 0.05},
            subject=HOSTILE if hostile else "structured, streamed",
            items=(11,),
        ),
        Finding(
            code="agent.one_tool.rate",
            gate=Gate.AGENT,
            outcome=Outcome.PASS,
            bearing=Bearing.CALLS,
            values={
                "observed": "1 of 40",
                "attempts": 40,
                "failed": 1,
                "failed_share": 0.025,
                "share_low": 0.0006,
                "share_high": 0.132,
                "reason": None,
                "streamed": "1 of 20",
                "whole": "0 of 20",
                "example": '{"city": "Zürich}',
            },
            limit={"failure_rate": 0.15},
            items=(5, 11),
        ),
        Finding(code="agent.gateway.fields", gate=Gate.AGENT, outcome=Outcome.NOT_APPLICABLE, bearing=Bearing.CALLS),
    ]
    return made


def records() -> list[Record]:
    draw = random.Random(7)
    made = []
    for stage, gate, begin, end in STAGES:
        if stage in ("capacity.load", "capacity.idle"):
            continue
        count = 60 if gate is Gate.CAPACITY else 40
        for number in range(count):
            made.append(_record(draw, stage, gate, begin + (end - begin) * 0.9 * number / count, number))
    return made


def _record(draw: random.Random, stage: str, gate: Gate, at_s: float, number: int) -> Record:
    sent = START_NS + int(at_s * 1e9)
    step = float(stage.rsplit(".", 1)[-1]) if stage[-1].isdigit() else 4.0
    ttft = int((60 + step * (0.004 if "long" in stage else 20) * draw.uniform(0.7, 1.4)) * 1e6)
    labels = {"arm": ("cold", "warm", "replay", "control")[number % 4], "round": str(number // 4)}
    cached = 9216 if stage == "prefix.rounds" and labels["arm"] in ("warm", "replay") else 0
    state = State.TIMEOUT if number == 31 else State.OK
    chunks = [sent + ttft + i * 11_000_000 for i in range(24)]
    example = gate is Gate.AGENT and number == 31
    return Record(
        id=f"{stage}-{number}",
        gate=gate,
        stage=stage,
        labels=labels if gate is Gate.PREFIX else {"sample": str(number)},
        stream=number % 2 == 0 or gate is not Gate.AGENT,
        state=state,
        planned_ns=sent,
        sent_ns=sent,
        written_ns=sent + 200_000,
        first_content_ns=sent + ttft // (5 if cached else 1),
        chunk_ns=chunks,
        end_ns=chunks[-1],
        status=200,
        error="deadline passed" if state is State.TIMEOUT else "",
        prompt_tokens=9300,
        completion_tokens=24,
        cached_tokens=cached,
        request_digest="d1" if example else "",
        response_digest="d2" if example else "",
    )


def metrics(scrapes: int = 300) -> dict[str, MetricTable]:
    t = START_NS + (np.arange(scrapes) * 90e9 / scrapes).astype(np.int64)
    x = np.arange(scrapes) * 90.0 / scrapes
    running = np.where((x > 30) & (x < 66), np.minimum(32, 8 * (1 + (x - 30) // 7)), 1.0)
    columns = {
        'vllm:num_requests_running{engine="0"}': running,
        'vllm:num_requests_waiting{engine="0"}': np.maximum(0, running - 20),
        'vllm:kv_cache_usage_perc{engine="0"}': np.minimum(0.98, running / 32 + 0.02 * np.sin(x)),
        'vllm:num_preemptions_total{engine="0"}': np.cumsum(running > 30).astype(float) // 9,
    }
    columns['vllm:num_requests_running{engine="0"}'][40] = np.nan
    return {SERVER: MetricTable(server=SERVER, t_ns=t, columns=columns, failed=np.empty(0, dtype=np.int64))}


def evidence(hostile: bool) -> list[Evidence]:
    seen = [
        ("probe", "node probe", "node-a"),
        ("launch_log", f"/var/log/vllm.log {HOSTILE if hostile else ''}", "node-a"),
        ("nvidia_smi", "nvidia-smi -q -x", "node-a"),
        ("version", "GET /version", "http://127.0.0.1:8000"),
        ("models", "GET /v1/models", "http://127.0.0.1:8000"),
    ]
    made = [
        Evidence(
            kind=kind,
            source=source,
            where=where,
            taken_ns=START_NS + i * 10**9,
            digest=digest(kind.encode()),
            bytes=3000 + 700 * i,
        )
        for i, (kind, source, where) in enumerate(seen)
    ]
    why = f"HTTP 404 {HOSTILE}" if hostile else "HTTP 404"
    return [*made, Evidence(kind="scrape", source="GET /gpu", where="node-a", taken_ns=START_NS, missing=why)]


def blob(digest: str) -> bytes:
    return {
        "d1": b'{"model": "kimi-k3", "messages": [{"role": "user", "content": "What is the weather?"}]}',
        "d2": f'{{"choices": [{{"message": {{"content": "{HOSTILE}"}}}}]}}'.encode() + b"\xff" * 9000,
    }[digest]


def profile(scope: Literal["production", "laboratory", "simulated"] = "simulated") -> Profile:
    return Profile(
        schema="signoff/profile/1",
        name=f"kimi-k3-{scope}",
        title=f"Kimi K3, {scope}",
        status="pre-release",
        scope=scope,
        checked_on="2026-11-30",
        architectures=("KimiK3ForConditionalGeneration",),
        platforms=("cuda",),
        sources=(),
        chain=(),
        cache=Cache(),
        floors=Floors(soak_s=6, soak_idle_s=2, hold_s=3),
    )


def dossier(hostile: bool = False, scope: Literal["production", "laboratory", "simulated"] = "simulated") -> Dossier:
    plan = Plan(
        schema="signoff/plan/1",
        name=f"k3-prod-a {HOSTILE}" if hostile else "k3-prod-a",
        profile=profile(scope).name,
        service=Service(base_url="http://127.0.0.1:8000", model="kimi-k3", gateway_url="none", simulated=True),
        objective=Objective(
            concurrency=Concurrency(target=32, floor=16),
            input_tokens=InputTokens(target=131072, floor=32768),
            limits=Limits(ttft_ms_p99=1000.0, error_rate=0.01),
        ),
        review=Review(items={"all": "Ada Lin"}),
    )
    events = [
        event
        for stage, gate, begin, end in STAGES
        for event in (
            StageStarted(stage=stage, gate=gate, at_ns=START_NS + begin * 10**9),
            StageFinished(stage=stage, gate=gate, at_ns=START_NS + end * 10**9),
        )
    ]
    return Dossier(
        plan=plan,
        profile=profile(scope),
        evidence=evidence(hostile),
        records=records(),
        metrics=metrics(),
        events=[*events, RunStopped(why="finished", at_ns=START_NS + 90 * 10**9)],
        blob=blob,
        plan_digest="a" * 64,
        evidence_digest="b" * 64,
    )


def judgement(name: str = "rework", hostile: bool = False) -> Judgement:
    """A verdict of each name over the same findings; the entries of this sample must be in the catalogue."""
    found, told = findings(hostile), Sentences("en")
    verdict = VerdictName(name)
    open_ = [f for f in found if f.outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)]
    row = {"go": 8, "limited": 7, "rework": 1, "scale": 5, "incomplete": 6}[name]
    wanted = {7: Bearing.TARGET, 1: Bearing.CHAIN, 5: Bearing.TARGET, 6: Bearing.CHAIN}.get(row)
    deciding = tuple(f for f in open_ if f.bearing is wanted and (row != 6 or f.outcome is Outcome.INCONCLUSIVE))
    ordered = [] if row == 8 else [*deciding, *(f for f in open_ if f not in deciding)]
    good = {7: Outcome.PASS, 8: Outcome.PASS}.get(row, Outcome.FAIL)
    items = (Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN)
    return Judgement(
        findings=tuple(found),
        row=row,
        deciding=deciding,
        verdict=Verdict(
            verdict=verdict,
            scope=Scope.ENVIRONMENT if verdict is VerdictName.REWORK else None,
            subject=Subject(
                model=f"kimi-k3 {HOSTILE}" if hostile else "kimi-k3",
                image_digest="sha256:" + "c0ffee" * 10,
                driver="580.82.07",
                gpus="8 x NVIDIA B300",
                layout="TP8",
                platform="cuda",
                simulated=True,
            ),
            accepted=Accepted(target=32, floor=16, held=16, window=131072),
            gates=Gates(environment=good, capacity=good, prefix=Outcome.PASS, agent=Outcome.INCONCLUSIVE),
            reasons=tuple(
                Reason(
                    code=f.code,
                    outcome=f.outcome,
                    severity=f.severity,
                    cause=f.cause,
                    phase=f.phase,
                    message=told.english(f),
                    evidence=f.evidence,
                )
                for f in ordered
            ),
            checklist=tuple(
                ChecklistItem(
                    item=item,
                    outcome=items[item % 4] if row != 8 else Outcome.PASS,
                    condition=f"plan k3-prod-a, item {item}",
                    result="What was measured for this item." + (HOSTILE if hostile else ""),
                    time="2026-12-01T03:42:37Z",
                    reviewer="Ada Lin",
                )
                for item in range(1, 14)
            ),
            conditions=(
                (
                    {"kind": "concurrency_cap", "value": 16, "target_passed": False},
                    {"kind": "error_rate_alert", "value": 0.01},
                    {"kind": "rollback", "value": None, "to": "vllm/vllm-openai:v0.13.0"},
                    {"kind": "expires", "value": "2026-12-15T03:42:37Z"},
                )
                if verdict is VerdictName.LIMITED
                else ()
            ),
            would_change=("Rebuild the container from the official image.", "Give Signoff read access to the node."),
            valid_until="2026-12-15T03:42:37Z" if verdict is VerdictName.LIMITED else None,
            plan_digest="a" * 64,
            evidence_digest="b" * 64,
        ),
    )

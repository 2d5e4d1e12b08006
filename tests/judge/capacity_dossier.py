"""A crafted run of the capacity gate: healthy unless told otherwise, so that a test changes one thing."""

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from signoff.core.codec import digest
from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.evidence import Evidence
from signoff.core.finding import Finding
from signoff.core.metrics import MetricTable
from signoff.core.plan import Caps, Concurrency, ConcurrencyLoad, InputTokens, Limits, Load, Objective, Plan, Service
from signoff.core.profile import Cache, Floors, Profile
from signoff.core.record import Record
from signoff.core.words import Gate, State
from signoff.judge import capacity

MS, S = 10**6, 10**9
BEGIN = 1_796_000_000 * S
URL = "http://127.0.0.1:8000/metrics"
LIMITS = Limits(ttft_ms_p99=400, itl_ms_p99=50, queue_ms_p99=300, error_rate=0.02, preempted_share=0.05)
READY_LOG = b"""(APIServer pid=1) INFO 12-01 03:27:23 [utils.py:1] non-default args: {'max_num_seqs': 256}
(EngineCore pid=2) INFO 12-01 03:27:24 [core.py:1] Initializing a V1 LLM engine (v0.32.0) with config: model='m'
(Worker pid=3) INFO 12-01 03:27:30 [gpu_model_runner.py:1] Model loading took 12.5 GiB memory and 6.2 seconds
(EngineCore pid=2) INFO 12-01 03:27:40 [kv.py:1] GPU KV cache size: 100,000 tokens, Maximum concurrency for 8,192 tokens per request: 12.2x
(EngineCore pid=2) INFO 12-01 03:27:42 [core.py:1] init engine (profile, create kv cache, warmup model) took 10.10 s
(APIServer pid=1) INFO:     Application startup complete.
"""  # noqa: E501


def plan(**changes: Any) -> Plan:
    made = Plan(
        schema="signoff/plan/1",
        name="crafted",
        profile="crafted",
        service=Service(base_url="http://127.0.0.1:8000", model="m"),
        objective=Objective(
            concurrency=Concurrency(target=8, floor=4, hold_s=1.5),
            input_tokens=InputTokens(target=4096, floor=2048),
            limits=LIMITS,
        ),
        load=Load(reuse_share=0.0, concurrency=ConcurrencyLoad(input_tokens=512, output_tokens=16, steps=(4,))),
        caps=Caps(),
    )
    return replace(made, **changes)


def profile(**changes: Any) -> Profile:
    made = Profile(
        schema="signoff/profile/1",
        name="crafted",
        title="crafted",
        status="stable",
        scope="production",
        checked_on="2026-12-01",
        architectures=("*",),
        platforms=("cpu",),
        sources=(),
        chain=(),
        cache=Cache(),
        floors=Floors(soak_s=10, soak_idle_s=2, hold_s=1.5, concurrency_requests=20, latency_samples=5),
    )
    return replace(made, **changes)


class Run:
    """What happened, stage by stage, and the metrics that go with it."""

    def __init__(self, plan_: Plan | None = None, profile_: Profile | None = None, *, log: bytes = READY_LOG) -> None:
        self.plan, self.profile = plan_ or plan(), profile_ or profile()
        self.now = BEGIN
        self.records: list[Record] = []
        self.events: list[Any] = []
        self.evidence: list[Evidence] = []
        self.blobs: dict[str, bytes] = {}
        self.rows: list[tuple[int, dict[str, float]]] = []
        self.totals = {
            "preemptions": 0.0,
            "queries": 0.0,
            "hits": 0.0,
            "queued": 0.0,
            "queue_s": 0.0,
            "late": 0.0,
            "foreign": 0.0,
        }
        self.gauges = {"kv": 0.0, "running": 0.0, "waiting": 0.0, "memory": 8e9, "started": 1000.0}
        self.scraping = True
        self._count = 0
        if log:
            self.log(log, "before")

    def log(self, raw: bytes, when: str) -> None:
        self.blobs[digest(raw)] = raw
        self.evidence.append(
            Evidence(
                kind="launch_log",
                source="file",
                where="node-1",
                taken_ns=self.now,
                conditions={"when": when},
                digest=digest(raw),
                bytes=len(raw),
            )
        )

    def scrape(self, at_ns: int | None = None) -> None:
        if not self.scraping:
            return
        t, g = self.totals, self.gauges
        labels = '{engine="0",model_name="m"}'

        def bucket(le: str) -> str:
            return f'vllm:request_queue_time_seconds_bucket{{engine="0",le="{le}",model_name="m"}}'

        row = {
            f"vllm:kv_cache_usage_perc{labels}": g["kv"],
            f"vllm:num_requests_running{labels}": g["running"],
            f"vllm:num_requests_waiting{labels}": g["waiting"],
            f"vllm:num_preemptions_total{labels}": t["preemptions"],
            f"vllm:prefix_cache_queries_total{labels}": t["queries"],
            f"vllm:prompt_tokens_total{labels}": t["queries"] + t["foreign"],
            f"vllm:prefix_cache_hits_total{labels}": t["hits"],
            bucket("0.3"): t["queued"] - t["late"],
            bucket("5.0"): t["queued"],
            bucket("+Inf"): t["queued"],
            f"vllm:request_queue_time_seconds_sum{labels}": t["queue_s"],
            "process_resident_memory_bytes": g["memory"],
            "process_start_time_seconds": g["started"],
        }
        self.rows.append((self.now if at_ns is None else at_ns, {k: v for k, v in row.items() if v >= 0}))

    def begin(self, stage: str, **conditions: Any) -> None:
        self.events.append(StageStarted(stage=stage, gate=Gate.CAPACITY, at_ns=self.now, conditions=conditions))
        self.now += 100 * MS
        self.scrape()
        self.now += 100 * MS

    def finish(self, stage: str, stopped: str = "", **conditions: Any) -> None:
        self.now += 100 * MS
        self.scrape()
        self.now += 100 * MS
        self.events.append(
            StageFinished(stage=stage, gate=Gate.CAPACITY, at_ns=self.now, stopped=stopped, conditions=conditions)
        )

    def record(
        self,
        stage: str,
        sent_ns: int,
        *,
        state: State = State.OK,
        ttft_ms: float = 50,
        gap_ms: float = 10,
        tokens: int = 16,
        answer: str = "",
        queue_ms: float = 1,
        hits: int = 0,
        **more: Any,
    ) -> Record:
        self._count += 1
        first = sent_ns + int(ttft_ms * MS)
        good = state is State.OK
        chunks = [first + int(i * gap_ms * MS) for i in range(tokens)]
        raw = b""
        if answer:
            body = {"choices": [{"index": 0, "delta": {"content": answer}, "finish_reason": "length"}]}
            raw = b"data: " + msgspec.json.encode(body) + b"\n\ndata: [DONE]\n\n"
            self.blobs[digest(raw)] = raw
        values: dict[str, Any] = {
            "id": f"r{self._count}",
            "gate": Gate.CAPACITY,
            "stage": stage,
            "state": state,
            "planned_ns": sent_ns,
            "sent_ns": sent_ns,
            "written_ns": sent_ns,
            "first_content_ns": first if good else None,
            "chunk_ns": chunks if good else [],
            "end_ns": chunks[-1] if good else first,
            "status": 200 if good else None,
            "prompt_tokens": 512 if good else None,
            "completion_tokens": tokens if good else None,
            "response_digest": digest(raw) if raw else "",
        }
        made = Record(**(values | more))
        self.records.append(made)
        if good:
            self.totals["queued"] += 1
            self.totals["queue_s"] += queue_ms / 1000
            self.totals["late"] += queue_ms > 300
            self.totals["queries"] += 512
            self.totals["hits"] += hits
        return made

    def load(self, **more: Any) -> None:
        self.begin("capacity.load", window_tokens=8192)
        self.record("capacity.load", self.now, **more)
        self.now = self.records[-1].end_ns
        self.finish("capacity.load")

    def rung(self, tokens: int, *, stopped: str = "", right: bool = True, tries: int = 2, **more: Any) -> None:
        stage = f"capacity.long_input.{tokens}"
        self.begin(stage, rung_tokens=tokens)
        for kind in ("filler", "agent"):
            for _ in range(tries):
                answer = "It is 123456." if right else "the the the the"
                labels = {"kind": kind, "expect": "123456"}
                self.record(
                    stage,
                    self.now,
                    **({"tokens": 32, "prompt_tokens": tokens, "labels": labels, "answer": answer} | more),
                )
                self.now = self.records[-1].end_ns
        self.finish(stage, stopped)

    def level(
        self,
        streams: int,
        *,
        stage: str = "",
        rounds: int = 8,
        bad: int = 0,
        bad_state: State = State.HTTP_ERROR,
        bad_status: int = 500,
        preemptions: float = 0,
        kv: float = 0.3,
        waiting: float = 0,
        running: float | None = None,
        stopped: str = "",
        wrong: int = 0,
        disqualified: str = "",
        **more: Any,
    ) -> None:
        """`rounds` requests a stream, the first of each the ramp; the first `bad` of the others fail."""
        name = stage or f"capacity.concurrency.{streams}"
        self.begin(name, streams=streams, requests_min=min(20, 2 if streams < 4 else 20))
        self.gauges |= {"kv": kv, "waiting": waiting, "running": streams if running is None else running}
        begun, failed, checked = self.now, 0, 0
        for turn in range(rounds):
            took = 0
            for _ in range(streams):
                labels = {"wave": "ramp" if turn == 0 else "steady"}
                values = dict(more)
                if turn and failed < bad:
                    failed += 1
                    values |= {"state": bad_state, "status": bad_status}
                elif turn:
                    checked += 1
                    labels["expect"] = "123456"
                    values["answer"] = "no idea at all" if checked <= wrong else "123456"
                made = self.record(name, self.now, labels=labels, disqualified=disqualified, **values)
                took = max(took, made.end_ns - self.now)
            self.scrape(self.now + took // 2)
            self.now += took
        self.totals["preemptions"] += preemptions
        self.gauges |= {"kv": 0.0, "waiting": 0.0, "running": 0.0}
        self.finish(name, stopped, held_s=(self.now - begun) / S)

    def soak(
        self,
        *,
        streams: int = 4,
        seconds: float = 11,
        slower: float = 1.0,
        leak: float = 0.0,
        grow: float = 1.0,
        **more: Any,
    ) -> None:
        """Rounds of short turns, one sentinel each; times end `slower`, memory ends `grow` times its start."""
        self.begin("capacity.soak", streams=streams)
        begun, rounds = self.now, int(seconds / 0.21)
        bad = more.pop("bad", 0)
        evict = more.pop("evict", False)
        wrong, checked = more.pop("wrong", 0), 0
        stopped, kv = more.pop("stopped", ""), more.pop("kv", 0.3)
        memory = self.gauges["memory"]
        for turn in range(rounds):
            part = turn / rounds
            factor = 1 + (slower - 1) * part
            self.gauges |= {"kv": kv, "running": streams, "memory": memory * (1 + (grow - 1) * part)}
            for stream in range(streams):
                arm = "sentinel" if stream == streams - 1 else "short"
                labels = {"wave": "ramp" if turn == 0 else "steady", "arm": arm}
                values = dict(more)
                if arm == "sentinel":
                    labels["sentinel"] = "0"
                    values["cached_tokens"] = 0 if turn == 0 or (evict and turn > 1) else 256
                if arm == "short" and turn % 2:
                    checked += 1
                    labels["expect"] = "123456"
                    values = {"answer": "the the the" if checked <= wrong else "123456"} | values
                if turn and bad > 0:
                    bad -= 1
                    values |= {"state": State.INBAND_ERROR, "status": 200}
                wobble = 1 + 0.02 * ((turn * 7 + stream) % 5)
                self.record(
                    "capacity.soak",
                    self.now,
                    labels=labels,
                    **({"ttft_ms": 50 * factor * wobble, "gap_ms": 10 * factor * wobble} | values),
                )
            self.now += 210 * MS
            if turn % 4 == 0:
                self.scrape()
        self.gauges |= {"kv": leak, "running": 0.0}
        self.finish("capacity.soak", stopped, held_s=(self.now - begun) / S)

    def idle(self, seconds: float = 2.0, **more: Any) -> None:
        self.begin("capacity.idle")
        foreign = more.pop("foreign", 0.0)
        for _ in range(4):
            self.scrape()
            self.totals["foreign"] += foreign
            self.now += int(seconds / 4 * S)
        quiet_ns = self.now
        self.record("capacity.idle", self.now, labels={"arm": "probe"}, **more)
        self.now = self.records[-1].end_ns
        self.finish("capacity.idle", idle_s=seconds, quiet_until_ns=quiet_ns)

    def healthy_until(self, part: str) -> "Run":
        """Everything before `part` went well: `load`, `long_input`, `climb`, `soak`, `idle`, `end`."""
        steps = (
            ("load", self.load),
            ("long_input", lambda: [self.rung(tokens) for tokens in (512, 1024, 2048, 4096)]),
            ("climb", lambda: [self.level(streams) for streams in (1, 2, 4, 8)]),
            ("soak", self.soak),
            ("idle", self.idle),
        )
        for name, step in steps:
            if name == part:
                return self
            step()
        return self

    def table(self) -> MetricTable:
        rows = sorted(self.rows, key=lambda row: row[0])
        keys = sorted({key for _, row in rows for key in row})
        return MetricTable(
            server=URL,
            t_ns=np.array([t for t, _ in rows], dtype=np.int64),
            columns={key: np.array([row.get(key, np.nan) for _, row in rows]) for key in keys},
            failed=np.array([], dtype=np.int64),
        )

    def dossier(self) -> Dossier:
        return Dossier(
            plan=self.plan,
            profile=self.profile,
            evidence=self.evidence,
            records=self.records,
            metrics={URL: self.table()} if self.rows else {},
            events=self.events,
            blob=self.blobs.__getitem__,
        )

    def findings(self) -> Mapping[str, Finding]:
        return {f.code: f for f in capacity.findings(self.dossier())}

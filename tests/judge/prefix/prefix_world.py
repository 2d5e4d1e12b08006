"""A crafted run of the prefix gate: a lawful world by default, and knobs to make it lie.

The world's hits are written down by hand from the sizes below, not computed by the code under test.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from signoff.core.codec import digest
from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.evidence import Evidence
from signoff.core.plan import Plan
from signoff.core.plan_text import parse_plan
from signoff.core.profile import Profile
from signoff.core.record import Record
from signoff.core.words import Gate, State
from signoff.read.token_list import pack
from signoff.run.profiles import load_profile

UNIT = 16
TEMPLATE, NONCE, BODY, QUESTION = 3, 4, 60, 5
LENGTH = TEMPLATE + NONCE + BODY + QUESTION  # 72 tokens: 4 units and a half
WARM_HIT = REPLAY_HIT = 64
ARMS = ("cold", "warm_1", "control_head", "warm_2", "replay", "control_tools", "warm_3", "control_salt")
HITS = {"warm_1": WARM_HIT, "warm_2": WARM_HIT, "warm_3": WARM_HIT, "replay": REPLAY_HIT, "gateway": REPLAY_HIT}
URL = "http://127.0.0.1:9/metrics"

PLAN = """schema: signoff/plan/1
name: crafted
profile: kimi-k3-simulated
service: {base_url: "http://127.0.0.1:9", gateway_url: none, model: m}
gates: [prefix]
objective: {concurrency: {target: 4, floor: 2}, input_tokens: {target: 100, floor: 50}}
"""


class World:
    """What a service said. Change its attributes, then take `dossier()`."""

    def __init__(self) -> None:
        self.rounds = 5
        self.config: dict[str, str] | None = {
            "enable_prefix_caching": "True",
            "cache_hit_alignment_tokens": str(UNIT),
            "block_size": str(UNIT),
            "mamba_cache_mode": "none",
            "engine": "0",
        }
        self.hits: Callable[[str, int], int] = lambda arm, number: HITS.get(arm, 0)
        self.cached: Callable[[str, int], int | None] = self.hit_of
        self.counted: Callable[[str, int], int | None] = self.hit_of
        self.by_source: Callable[[str, int], int | None] = self.hit_of
        self.looked_up = True
        self.foreign: Callable[[str, int], int] = lambda arm, number: 0
        """Prompt tokens of somebody else in the window."""
        self.ttft_ms: Callable[[str, int], float] = lambda arm, number: (40 if self.hits(arm, number) else 100) + number
        self.prefill_ms: Callable[[str, int], float | None] = lambda arm, number: None
        self.queue_ms = 1.0
        self.ids: Callable[[str, int], list[int] | None] = prompt_ids
        self.told_tokens: Callable[[str, int], int] = lambda arm, number: len(prompt_ids(arm, number))
        self.said: Callable[[str, int], str] = lambda arm, number: needle(arm, number)
        self.state: Callable[[str, int], State] = lambda arm, number: State.OK
        self.scraped = True
        self.restart_at = ""
        self.echo: list[int] | None = None
        self.held: int | None = None
        self.more_arms: tuple[str, ...] = ()
        self.external: Callable[[str, int], int] = lambda arm, number: 0
        """How much of the hits a KV connector brought."""
        self.engine: Callable[[str, int], str] = lambda arm, number: "0"
        self.stopped = ""
        self.plan: Plan = parse_plan(PLAN)
        self.profile: Profile = load_profile("kimi-k3-simulated")
        self.launch_log = b""
        self._forget()

    def _forget(self) -> None:
        self._blobs: dict[str, bytes] = {}
        self._evidence: list[Evidence] = []
        self._totals = dict.fromkeys(("queries", "hits", "external", "source", "cached", "finished"), 0)
        self._engines = {"0": 0}
        self._sums = {"prefill": 0.0, "queue": 0.0}
        self._now = 1_000_000_000

    def hit_of(self, arm: str, number: int) -> int | None:
        return self.hits(arm, number)

    def dossier(self, started: bool = True) -> Dossier:
        self._forget()
        records = []
        self._scrape({"when": "first"})
        for number in range(1, self.rounds + 1):
            records += [self._request(arm, number) for arm in (*ARMS, *self.more_arms)]
        if self.echo is not None:
            records.append(self._echoed())
        if self.held is not None:
            records.append(self._held(self.held))
        if self.launch_log:
            self._evidence.append(self._card(self.launch_log, "launch_log", {"when": "before"}, stage=""))
        begun = StageStarted(stage="prefix.rounds", gate=Gate.PREFIX, at_ns=1)
        ended = StageFinished(stage="prefix.rounds", gate=Gate.PREFIX, at_ns=2, stopped=self.stopped)
        return Dossier(
            plan=self.plan,
            profile=self.profile,
            evidence=self._evidence,
            records=records,
            metrics={},
            events=[begun, ended] if started else [],
            blob=self._blobs.__getitem__,
        )

    def _card(self, raw: bytes, kind: str, conditions: dict[str, Any], stage: str = "prefix.rounds") -> Evidence:
        self._blobs[digest(raw)] = raw
        return Evidence(
            kind=kind,
            source="test",
            where=URL,
            taken_ns=self._now,
            stage=stage,
            conditions=conditions,
            digest=digest(raw),
        )

    def _scrape(self, conditions: dict[str, Any]) -> None:
        self._now += 1_000_000
        if not self.scraped:
            card = Evidence(
                kind="scrape",
                source="test",
                where=URL,
                taken_ns=self._now,
                stage="prefix.rounds",
                conditions=conditions,
                missing="refused",
            )
            self._evidence.append(card)
            return
        self._evidence.append(self._card(self._exposition(), "scrape", conditions))

    def _exposition(self) -> bytes:
        totals, lines = self._totals, []
        if self.config is not None:
            labels = ",".join(f'{name}="{value}"' for name, value in self.config.items())
            lines.append(f"vllm:cache_config_info{{{labels}}} 1.0")
        for name, value in (
            ("num_requests_running", 0),
            ("num_requests_waiting", 0),
            ("prefix_cache_queries_total", totals["queries"]),
            ("external_prefix_cache_hits_total", totals["external"]),
            ("request_prefill_time_seconds_sum", self._sums["prefill"]),
            ("request_queue_time_seconds_sum", self._sums["queue"]),
        ):
            lines.append(f'vllm:{name}{{engine="0",model_name="m"}} {value}')
        lines += [f'vllm:prompt_tokens_total{{engine="{e}"}} {tokens}' for e, tokens in self._engines.items()]
        lines.append(f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {totals["finished"]}')
        if self.counted("cold", 1) is not None:
            lines.append(f'vllm:prefix_cache_hits_total{{engine="0"}} {totals["hits"]}')
        if self.by_source("cold", 1) is not None:
            lines.append(
                f'vllm:prompt_tokens_by_source_total{{engine="0",source="local_cache_hit"}} {totals["source"]}'
            )
            lines.append(f'vllm:prompt_tokens_cached_total{{engine="0"}} {totals["cached"]}')
        return ("\n".join(lines) + "\n").encode()

    def _request(self, arm: str, number: int) -> Record:
        name, _, extra = arm.partition("_")
        labels = {"arm": name, "round": str(number), "needle": needle(arm, number)}
        labels |= {"warm_index": extra} if name == "warm" else {"control": extra} if name == "control" else {}
        record_id = f"{number}-{arm}"
        ids = self.ids(arm, number)
        if ids is not None:
            cold = self.ids("cold", number) or []
            raw = pack(ids) if arm == "cold" else pack(ids, f"{number}-cold", cold)
            self._evidence.append(self._card(raw, "tokenize", {"record": record_id}))
        about = {"record": record_id, **labels}
        self._scrape({**about, "when": "before"})
        sent = self._now
        tokens, ok = self.told_tokens(arm, number), self.state(arm, number) is State.OK
        self._count(arm, number, tokens)
        ttft = self.ttft_ms(arm, number)
        self._now += int(ttft * 1e6) + 1_000_000
        answer = self._answer(self.said(arm, number))
        self._blobs[digest(answer)] = answer
        if f"{number}-{arm}" == self.restart_at:
            self._totals, self._engines = dict.fromkeys(self._totals, 0), {"0": 0}
        self._scrape({**about, "when": "after"})
        return Record(
            id=record_id,
            gate=Gate.PREFIX,
            stage="prefix.rounds",
            labels=labels,
            state=self.state(arm, number),
            planned_ns=sent,
            sent_ns=sent,
            written_ns=sent,
            first_content_ns=sent + int(ttft * 1e6) if ok else None,
            end_ns=self._now,
            prompt_tokens=tokens if ok else None,
            cached_tokens=self.cached(arm, number) if ok else None,
            response_digest=digest(answer),
        )

    def _count(self, arm: str, number: int, tokens: int) -> None:
        others = self.foreign(arm, number)
        self._totals["queries"] += (tokens + others) if self.looked_up else 0
        engine = self.engine(arm, number)
        self._engines[engine] = self._engines.get(engine, 0) + tokens + others
        self._totals["finished"] += 1 + (others > 0)
        external = self.external(arm, number)
        self._totals["external"] += external
        self._totals["cached"] += self.by_source(arm, number) or 0
        self._totals["hits"] += (self.counted(arm, number) or 0) - external
        self._totals["source"] += (self.by_source(arm, number) or 0) - external
        self._sums["prefill"] += (self.prefill_ms(arm, number) or 0.0) / 1e3
        self._sums["queue"] += self.queue_ms / 1e3

    def _echoed(self) -> Record:
        raw = msgspec.json.encode({"prompt_token_ids": self.echo, "choices": []})
        self._blobs[digest(raw)] = raw
        return Record(
            id="echo",
            gate=Gate.PREFIX,
            stage="prefix.rounds",
            labels={"arm": "echo", "round": str(self.rounds)},
            stream=False,
            state=State.OK,
            planned_ns=self._now,
            sent_ns=self._now,
            end_ns=self._now,
            response_digest=digest(raw),
        )

    def _held(self, hit: int) -> Record:
        return Record(
            id="held",
            gate=Gate.PREFIX,
            stage="prefix.rounds",
            labels={"arm": "held", "turn": "second", "round": str(self.rounds)},
            state=State.OK,
            planned_ns=self._now,
            sent_ns=self._now,
            end_ns=self._now,
            cached_tokens=hit,
        )

    def _answer(self, text: str) -> bytes:
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]}
        return b"data: " + msgspec.json.encode(chunk) + b"\n\ndata: [DONE]\n\n"


def prompt_ids(arm: str, number: int) -> list[int]:
    """Token ids: template, nonce, body, question; the tool schema stands before all but the template."""
    mark = 1000 * number + (500 if arm == "control_head" else 0)
    question = {"warm_1": 11, "warm_2": 12, "warm_3": 13}.get(arm, 10)
    schema = [7, 7, 7, number] if arm == "control_tools" else []
    nonce = [mark + k for k in range(NONCE)]
    body = [2_000_000 + k for k in range(BODY)]
    return [1, 2, 3][:TEMPLATE] + schema + nonce + body + [100 * question + k for k in range(QUESTION)]


def needle(arm: str, number: int) -> str:
    return str(50_000 + 10 * number + (5 if arm == "control_head" else 0))

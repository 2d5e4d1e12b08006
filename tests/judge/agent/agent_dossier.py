"""Crafted dossiers of the agent gate: every attempt answered by a function of the test, bodies as servers send them."""

import json
from collections.abc import Callable
from typing import Any

from signoff.collect.agent.attempts import Attempt, Options, attempts, request_of
from signoff.collect.agent.effects import Effect, Ledger
from signoff.collect.agent.gateway import gateway_request
from signoff.core.codec import digest, to_json
from signoff.core.dossier import Dossier
from signoff.core.events import StageFinished, StageStarted
from signoff.core.evidence import Evidence
from signoff.core.finding import Finding
from signoff.core.plan import Agent, Concurrency, FailureRate, InputTokens, Objective, Plan, Service
from signoff.core.profile import Cache, Floors, Profile
from signoff.core.record import Record
from signoff.core.sample import KINDS, Kind, Pack, Sample
from signoff.core.words import Gate, State
from signoff.judge.agent import findings
from signoff.run.packs import load_packs

PACK = load_packs(())
OPTIONS = Options(model="m", run_id="r", seed=1, thinking=True)
Message = dict[str, Any]
Answers = Callable[[Attempt], Message | None]


def profile(reasoning_parser: str | None = "kimi_k3", agent_attempts: int = 20) -> Profile:
    return Profile(
        schema="signoff/profile/1",
        name="p",
        title="p",
        status="stable",
        scope="simulated",
        checked_on="2026-12-01",
        architectures=("*",),
        platforms=("cuda",),
        sources=(),
        chain=(),
        reasoning_parser=reasoning_parser,
        thinking_efforts=("low",),
        cache=Cache(),
        floors=Floors(soak_s=1, soak_idle_s=1, hold_s=1, agent_attempts=agent_attempts),
    )


def plan(limit: float | None = 0.1, gateway_url: str | None = "none", **agent: Any) -> Plan:
    return Plan(
        schema="signoff/plan/1",
        name="n",
        profile="p",
        service=Service(base_url="http://s", gateway_url=gateway_url),
        objective=Objective(
            concurrency=Concurrency(target=8, floor=4), input_tokens=InputTokens(target=1000, floor=100)
        ),
        agent=Agent(failure_rate=FailureRate(limit=limit), **agent),
    )


def right(sample: Sample) -> Message:
    """A message that satisfies the oracle of a sample."""
    thought = {"role": "assistant", "reasoning": "I see."}
    if sample.calls:
        calls = [
            {
                "id": f"call-{index}",
                "type": "function",
                "function": {
                    "name": rule.tool,
                    "arguments": json.dumps({k: v["const"] for k, v in rule.arguments.items()}, ensure_ascii=False),
                },
            }
            for index, rule in enumerate(sample.calls)
        ]
        return {**thought, "content": None, "tool_calls": calls}
    if sample.values is not None:
        return {**thought, "content": json.dumps(sample.values["const"], ensure_ascii=False)}
    rule = sample.content
    said = " ".join([*rule.all_of, *rule.any_of[:1]]) if rule else ""
    return {**thought, "content": f"Well: {said}."}


def whole(message: Message, finish: str | None = None) -> bytes:
    body = {
        "choices": [{"index": 0, "message": message, "finish_reason": finish or finish_of(message)}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 9},
    }
    return json.dumps(body).encode()


def streamed(message: Message, finish: str | None = None) -> bytes:
    """The message in deltas: reasoning, content, then each call whole, as K3's parser sends them."""
    deltas: list[Message] = [{"role": "assistant", "content": ""}]
    deltas += [{key: message[key]} for key in ("reasoning", "reasoning_content", "content") if message.get(key)]
    for index, call in enumerate(message.get("tool_calls") or ()):
        deltas.append({"tool_calls": [{"index": index, **call}]})
    events: list[Message] = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish or finish_of(message)}]})
    events.append({"choices": [], "usage": {"prompt_tokens": 90, "completion_tokens": 9}})
    return ("".join(f"data: {json.dumps(e)}\n\n" for e in events) + "data: [DONE]\n\n").encode()


def finish_of(message: Message) -> str:
    return "tool_calls" if message.get("tool_calls") else "stop"


class Case:
    """A dossier while it is being made."""

    def __init__(self, pack: Pack = PACK, **about: Any) -> None:
        self.pack = pack
        self.plan = about.pop("plan", None) or plan()
        self.profile = about.pop("profile", None) or profile()
        self.blobs: dict[str, bytes] = {}
        self.records: list[Record] = []
        self.evidence: list[Evidence] = []
        self.events: list[StageStarted | StageFinished] = []
        self.keep(to_json(pack), "agent_pack")

    def keep(self, raw: bytes, kind: str, where: str = "http://s", **conditions: Any) -> None:
        self.blobs[digest(raw)] = raw
        self.evidence.append(
            Evidence(kind=kind, source="test", where=where, taken_ns=1, conditions=conditions, digest=digest(raw))
        )

    def started(self, stage: str) -> None:
        self.events.append(StageStarted(stage=stage, gate=Gate.AGENT, at_ns=1))

    def send(self, kind: Kind, count: int, answer: Answers, via: str = "direct") -> "Case":
        """`count` attempts; an answer of `None` is a connection that broke."""
        for attempt in attempts(self.pack, kind, range(count), OPTIONS, via=via):  # type: ignore[arg-type]
            made = gateway_request if via == "gateway" else request_of
            request = made(attempt, self.pack, OPTIONS)
            message = answer(attempt)
            raw = b"" if message is None else (streamed if attempt.streamed else whole)(message)
            if raw:
                self.blobs[digest(raw)] = raw
            self.records.append(
                Record(
                    id=request.id,
                    gate=Gate.AGENT,
                    stage=request.stage,
                    labels=request.labels,
                    stream=request.stream,
                    state=State.OK if raw else State.RESET,
                    error="" if raw else "connection reset",
                    planned_ns=1,
                    sent_ns=1,
                    end_ns=2,
                    response_digest=digest(raw) if raw else "",
                )
            )
        return self

    def send_all(self, count: int = 40, answer: Answers = lambda a: right(a.sample), via: str = "direct") -> "Case":
        for kind in KINDS:
            self.send(kind, count, answer, via)
        return self

    def record(self, stage: str, *, raw: bytes = b"", state: State = State.OK, **more: Any) -> None:
        if raw:
            self.blobs[digest(raw)] = raw
        labels = more.pop("labels", {})
        id = more.pop("id", f"{stage}-{len(self.records)}")
        self.records.append(
            Record(
                id=id,
                gate=Gate.AGENT,
                stage=stage,
                labels=labels,
                stream=False,
                state=state,
                planned_ns=1,
                sent_ns=1,
                end_ns=2,
                response_digest=digest(raw) if raw else "",
                **more,
            )
        )

    def dossier(self) -> Dossier:
        return Dossier(
            plan=self.plan,
            profile=self.profile,
            evidence=self.evidence,
            records=self.records,
            metrics={},
            events=self.events,
            blob=self.blobs.__getitem__,
        )

    def found(self) -> dict[str, Finding]:
        return {finding.code: finding for finding in findings(self.dossier())}


def double_encoded(attempt: Attempt) -> Message:
    message = right(attempt.sample)
    for call in message.get("tool_calls") or ():
        call["function"]["arguments"] = json.dumps(call["function"]["arguments"])
    return message


def healthy_case(**about: Any) -> Case:
    case = Case(**about)
    for what in ("with", "without"):
        case.keep(json.dumps({"count": 232 if what == "with" else 115}).encode(), "tokenize", what="tools", tools=what)
    case.record("agent.template", labels={"what": "auto"}, status=200, raw=whole({"content": "x"}))
    ledger(case, [effect(case, n) for n in range(6)])
    return case.send_all()


def effect(case: Case, intent: int, arguments: str = "", turn: int = 1) -> Effect:
    arguments = arguments or json.dumps({"recipient": f"r{intent}", "text": "t"})
    call = {"id": f"c{intent}{turn}", "function": {"name": "send_message", "arguments": arguments}}
    id = f"effect-{intent}-{turn}-{len(case.records)}"
    labels = {"intent": str(intent), "turn": str(turn)}
    case.record("agent.effects", id=id, raw=whole({"content": None, "tool_calls": [call]}), labels=labels)
    return Effect(intent=intent, turn=turn, record=id, call_id=call["id"], tool="send_message", arguments=arguments)


def ledger(case: Case, effects: list[Effect]) -> None:
    """The ledger, and a plain second answer to every intent that has none."""
    case.started("agent.effects")
    for intent in sorted({e.intent for e in effects} - {e.intent for e in effects if e.turn == 2}):
        labels = {"intent": str(intent), "turn": "2"}
        case.record("agent.effects", id=f"told-{intent}", raw=whole({"content": f"Sent {intent}."}), labels=labels)
    case.keep(to_json(Ledger(intents=6, answered=6, effects=effects)), "effect_ledger")


def counted(case: Case, what: str, before: object, after: object) -> None:
    for when, count in (("before", before), ("after", after)):
        text = f'vllm:request_success_total{{engine="0",finished_reason="stop"}} {count}\n'
        case.keep(text.encode() + what.encode(), "scrape", "http://s/metrics", what=what, when=when)

"""The simulated server: routes, authorisation, and the road of one request into the engine and back."""

import hashlib
import json
import time
from typing import Any

import msgspec

from signoff.core.workload import nonce, rng
from signoff.sim import wire
from signoff.sim.answer_faults import AnswerFaults
from signoff.sim.answering import Answering, Choice
from signoff.sim.engine import DEAD, Engine
from signoff.sim.engine_faults import EngineFaults
from signoff.sim.http1 import Incoming, Reply
from signoff.sim.metrics import Metrics
from signoff.sim.model import Question, think, tokens_of
from signoff.sim.request import (
    Asked,
    Refusal,
    asked_chat,
    asked_completion,
    body_of,
    chat_prompt,
    check_model,
    completion_prompts,
    wrong,
    wrongs,
)
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings
from signoff.sim.tokens import Ids, decode, raw_of

METRICS_TYPE = "text/plain; version=1.0.0; charset=utf-8"
GUARDED = ("/v1", "/v2", "/inference", "/cohere")


class Service:
    """One server process: an engine, its metrics and its routes. A restart makes a new one."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics(settings)
        self.engine_faults = EngineFaults(settings)
        self.engine = Engine(settings, self.metrics, self.engine_faults)
        self.answer_faults = AnswerFaults(settings)
        self.created = int(time.time())
        shape = json.dumps([settings.version, settings.model, settings.unit, settings.kv_blocks])
        self.fingerprint = f"vllm-{settings.version}-{hashlib.sha256(shape.encode()).hexdigest()[:8]}"
        self.taken = 0
        """Requests that came to the completion routes."""

    async def handle(self, incoming: Incoming, reply: Reply) -> None:
        path = incoming.path
        if self.settings.api_key and path.startswith(GUARDED) and not self._authorised(incoming):
            reply.send(401, wire.json({"error": "Unauthorized"}))
            return
        known = {"/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"}
        simple = {"/health", "/ping", "/version", "/load", "/metrics", "/v1/models"}
        if path in known and incoming.method == "POST":
            self._post(incoming, reply)
        elif path in simple and (incoming.method == "GET" or path == "/ping"):
            self._get(path, reply)
        elif path == "/reset_prefix_cache" and self.settings.dev_mode and incoming.method == "POST":
            reply.send(200, wire.json({"success": self.engine.scheduler.pool.forget()}))
        elif path in known | simple:
            allow = "POST" if path in known else "GET"
            reply.send(405, wire.json({"detail": "Method Not Allowed"}), allow=allow)
        else:
            reply.send(404, wire.json({"detail": "Not Found"}))

    def _authorised(self, incoming: Incoming) -> bool:
        return incoming.headers.get("authorization") == f"Bearer {self.settings.api_key}"

    def _get(self, path: str, reply: Reply) -> None:
        if path == "/metrics":
            reply.send(200, self.metrics.text(), METRICS_TYPE)
        elif path in ("/health", "/ping"):
            reply.send(503 if self.engine.dead else 200, b"")
        elif path == "/version":
            reply.send(200, wire.json({"version": self.settings.version}))
        elif path == "/load":
            reply.send(200, wire.json({"server_load": 0}))
        else:
            reply.send(200, wire.json(self._models()))

    def _models(self) -> dict[str, Any]:
        permission = {
            "id": f"modelperm-{nonce('permission', self.settings.seed)}",
            "object": "model_permission",
            "created": self.created,
            "allow_create_engine": False,
            "allow_sampling": True,
            "allow_logprobs": True,
            "allow_search_indices": False,
            "allow_view": True,
            "allow_fine_tuning": False,
            "organization": "*",
            "group": None,
            "is_blocking": False,
        }
        entry = {
            "id": self.settings.model,
            "object": "model",
            "created": self.created,
            "owned_by": "vllm",
            "root": self.settings.root,
            "parent": None,
            "max_model_len": self.settings.window,
            "permission": [permission],
        }
        return {"object": "list", "data": [entry]}

    def _post(self, incoming: Incoming, reply: Reply) -> None:
        try:
            if incoming.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
                says = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
                raise Refusal(says, kind="Bad Request")
            if incoming.path == "/tokenize":
                reply.send(200, self._tokenize(incoming.body))
            elif incoming.path == "/detokenize":
                reply.send(200, self._detokenize(incoming.body))
            else:
                self._complete(incoming, reply)
        except Refusal as refusal:
            reply.send(refusal.status, refusal.body())

    def _tokenize(self, raw: bytes) -> bytes:
        body = body_of(raw)
        check_model(body, self.settings)
        if "messages" in body:
            generate = body.get("add_generation_prompt") is not False
            ids = chat_prompt(body, self.settings, generate=generate)
        elif isinstance(body.get("prompt"), str):
            ids = completion_prompts(body["prompt"], body)[0]
        else:
            raise wrongs(("prompt", "messages"), "missing", "Field required", body)
        strings = (
            [raw_of(n).decode("utf-8", "replace") for n in ids.tolist()] if body.get("return_token_strs") else None
        )
        told = {"count": len(ids), "max_model_len": self.settings.window, "tokens": ids.tolist()}
        return wire.json(told | {"token_strs": strings})

    def _detokenize(self, raw: bytes) -> bytes:
        body = body_of(raw)
        check_model(body, self.settings)
        tokens = body.get("tokens")
        if not isinstance(tokens, list) or not all(type(n) is int and 0 <= n < 1 << 33 for n in tokens):
            raise wrong("tokens", "list_type", "Input should be a valid list", tokens)
        return wire.json({"prompt": decode(completion_prompts(tokens, body)[0]) if tokens else ""})

    def _complete(self, incoming: Incoming, reply: Reply) -> None:
        """Into the engine; the callbacks of its sequences answer."""
        self.taken += 1
        chat = incoming.path == "/v1/chat/completions"
        request_id = incoming.headers.get("x-request-id") or nonce("request", self.settings.seed, self.taken)
        seed = (self.settings.seed,)
        asked = (asked_chat if chat else asked_completion)(incoming.body, self.settings, seed)
        if self.engine.dead:
            reply.send(500, wire.error_event(DEAD)[6:-2])
            return
        if self.answer_faults.refuses(len(self.engine.scheduler.running) + len(self.engine.scheduler.waiting)):
            raise Refusal("Internal server error", None, 500, "InternalServerError")
        asked.prompts = [self.answer_faults.headed(prompt, self.taken) for prompt in asked.prompts]
        answering = Answering(
            asked,
            self._choices(asked, request_id),
            reply,
            self.settings,
            response_id=("chatcmpl-" if chat else "cmpl-") + request_id,
            fingerprint=self.fingerprint,
        )
        answering.break_after = self.answer_faults.breaks_after(asked.stream)
        reply.on_gone = lambda: answering.abort(self.engine)
        for choice in answering.choices:
            prompt = asked.prompts[choice.index // asked.n]
            self._submit(answering, choice, prompt, request_id)
            if "client-resubmits" in self.settings.faults:
                self.unheard(prompt, [token.id for token in choice.tokens])

    def _choices(self, asked: Asked, request_id: str) -> list[Choice]:
        made = []
        for place, (prompt, question) in enumerate(zip(asked.prompts, asked.questions, strict=True)):
            for copy in range(asked.n):
                seeded = msgspec.structs.replace(question, seed=(*question.seed, _digest(prompt), copy))
                made.append(self._choice(place * asked.n + copy, seeded, asked, request_id, len(prompt)))
        return made

    def _choice(self, index: int, question: Question, asked: Asked, request_id: str, prompt_tokens: int) -> Choice:
        draw = rng("ids", self.settings.seed, request_id, index)
        thought = self.answer_faults.thought(think(question), question, request_id, prompt_tokens)
        tokens, finish = tokens_of(thought, question)
        thoughts = sum(1 for token in tokens if token.field == "reasoning")
        tokens = self.answer_faults.tokens(tokens, request_id)
        names = [f"chatcmpl-tool-{draw.getrandbits(64):016x}" for _ in thought.calls]
        choice = Choice(index, thought, tokens, names, thoughts)
        choice.finish = finish
        if asked.tools and self.settings.tool_parser:
            self.metrics.parsed_tools(asked.stream, bool(thought.calls))
        return choice

    def _submit(self, answering: Answering, choice: Choice, prompt: Ids, request_id: str) -> None:
        asked = answering.asked
        sequence = Sequence(
            request_id=request_id,
            prompt=prompt,
            answer_ids=[token.id for token in choice.tokens],
            finish=choice.finish or "stop",
            hashes=self.engine.hashes(self.answer_faults.cached_as(prompt, self.taken), asked.salt),
            salt=asked.salt,
            max_tokens=asked.max_tokens or 0,
            arrived_s=self.engine.now_s,
            on_tokens=lambda s, _: answering.on_tokens(choice, s),
            on_end=lambda s, reason: answering.on_end(choice, s, reason),
            skip_reading=asked.skip_reading,
        )
        choice.sequence = sequence
        self.engine.submit(sequence)

    def unheard(self, prompt: Ids, answer_ids: list[int]) -> None:
        """A request of somebody else: it goes through the engine and the counters, and nobody here hears it."""
        self.taken += 1
        sequence = Sequence(
            request_id=nonce("unheard", self.settings.seed, self.taken),
            prompt=prompt,
            answer_ids=answer_ids,
            finish="length",
            hashes=self.engine.hashes(self.answer_faults.cached_as(prompt, self.taken), ""),
            salt="",
            max_tokens=len(answer_ids),
            arrived_s=self.engine.now_s,
            on_tokens=lambda s, n: None,
            on_end=lambda s, reason: None,
        )
        self.engine.submit(sequence)
        self.metrics.answered("POST", "/v1/chat/completions", 200, 0.05, 4 * len(prompt), 0)


def _digest(prompt: Ids) -> str:
    return hashlib.blake2b(prompt.tobytes(), digest_size=8).hexdigest()

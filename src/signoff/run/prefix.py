"""The loop of the prefix gate: preconditions, then rounds of arms, one request at a time on an idle server."""

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from msgspec.structs import replace

from signoff.collect.client import HttpClient
from signoff.collect.control import Control
from signoff.collect.prefix.arms import (
    OUTPUT_TOKENS,
    OUTPUT_TOKENS_THINKING,
    Arm,
    Round,
    body_of,
    echo_body,
    held_body,
    ladder_messages,
    round_arms,
    template_of,
    warmup_messages,
)
from signoff.collect.prefix.window import Scraped, Sent, Window, or_stop
from signoff.collect.tokenize import fit, token_ids
from signoff.core.events import Event, EvidenceTaken, Progress, RecordTaken, StageFinished, StageStarted
from signoff.core.evidence import Evidence, Value
from signoff.core.protocols import Client
from signoff.core.record import Request
from signoff.core.words import Gate, State
from signoff.judge.prefix.next_step import Pair, next_length, prompt_tokens, unit_of
from signoff.read.prefix_cache import CacheConfig, cache_config, cache_counters
from signoff.read.token_list import pack
from signoff.run.capacity_stage import Spent
from signoff.run.rails import GUARD_RAIL
from signoff.run.session import Events, Session

STAGE = "prefix.rounds"
IDLE_WAIT_S, IDLE_LOOK_S = 10.0, 0.2
HEAD_START_NS = 50_000_000
"""How long past a cold prompt's first token the second of two held requests waits."""
FEW_TOKENS = 4
"""Output of requests outside the rounds, whose answers nobody reads."""
FAILURES_MAX = 6
"""Requests in a row that may fail before the service counts as lost."""
ARMS = 8


async def run_prefix(session: Session, gateway: Client | None = None) -> Events:
    """Every event of the gate. Stops within a request's cancellation when the session's `stop` is set.

    `gateway` takes the place of an own client to the plan's gateway."""
    rounds = max(session.plan.prefix.rounds or 0, session.profile.floors.prefix_rounds)
    started = StageStarted(
        stage=STAGE,
        gate=Gate.PREFIX,
        at_ns=session.clock.now_ns(),
        conditions={"rounds": rounds, "asked_prompt_tokens": session.plan.prefix.prompt_tokens},
        planned_requests=2 + rounds * ARMS,
    )
    session.store.note(started)
    yield started
    url = session.plan.service.gateway_url
    async with AsyncExitStack() as stack:
        control = await stack.enter_async_context(Control(session.plan.service))
        if gateway is None and url is not None and url != "none":
            there = replace(session.plan.service, base_url=url.rstrip("/"))
            gateway = await stack.enter_async_context(HttpClient(there, session.clock))
        loop = _Loop(session, control, rounds, gateway)
        async for event in loop.events():
            yield event
    finished = StageFinished(
        stage=STAGE, gate=Gate.PREFIX, at_ns=session.clock.now_ns(), stopped=loop.stopped, conditions=loop.found
    )
    session.store.note(finished)
    yield finished


class _Loop:
    """One pass of the gate. `stopped` and `found` are whole once `events` ended."""

    def __init__(self, session: Session, control: Control, rounds: int, gateway: Client | None) -> None:
        self.session, self.control, self.rounds, self.gateway = session, control, rounds, gateway
        self.window = Window(
            control=control,
            client=session.client,
            store=session.store,
            clock=session.clock,
            urls=session.plan.metrics_urls(),
            stage=STAGE,
            stop=session.stop,
        )
        self.spent = Spent(session)
        self.stopped = ""
        self.found: dict[str, Value] = {}
        self.template = template_of(session.profile.thinking_efforts)
        thinks = session.profile.reasoning_parser is not None and not self.template
        self.output_tokens = OUTPUT_TOKENS_THINKING if thinks else OUTPUT_TOKENS
        self._count = self._failed = self._cold_ns = 0
        self._sent: Sent | None = None
        self._hits: list[int] = []
        """Hits of the warm and replayed requests, where the server tells."""

    async def events(self) -> AsyncIterator[Event]:
        if not await self._idle():
            self.stopped = self._why("not_idle")
            return
        async for event in self._send(self._request(_warmup(self.session.run_id), {"arm": "warmup"})):
            yield event
        look = await self.window.scrape({"when": "first"}, whole=True)
        for card in look.cards:
            yield EvidenceTaken(evidence=card)
        config = _config(look)
        pairs: list[Pair] = []
        async for event in self._ladder(config, pairs):
            yield event
        if self.stopped:
            return
        unit = unit_of(config, self.session.profile, pairs)
        self.found |= {"unit_tokens": unit.tokens, "unit_source": unit.source}
        if unit.tokens is None:
            self.stopped = self.stopped or self._why("unit_unknown")
            return
        off = config is not None and config.enabled is False
        async for event in self._all_rounds(unit.tokens, config, 1 if off else self.rounds):
            yield event
        if off:
            self.stopped = self.stopped or "caching_off"
        for card in (await self.window.scrape({"when": "last"}, whole=True)).cards:
            yield EvidenceTaken(evidence=card)

    def _why(self, otherwise: str) -> str:
        return "interrupted" if self.session.stop.is_set() else otherwise

    async def _idle(self) -> bool:
        """Wait until nothing runs or waits; servers that do not say count as idle, the windows will show."""
        clock = self.session.clock
        until_ns = clock.now_ns() + int(IDLE_WAIT_S * 1e9)
        while not self.session.stop.is_set():
            if not (await self.window.busy() or 0.0):
                return True
            if clock.now_ns() >= until_ns or not self.session.plan.service.exclusive:
                return not self.session.plan.service.exclusive
            await clock.sleep_until(clock.now_ns() + int(IDLE_LOOK_S * 1e9))
        return False

    def _request(self, arm: Arm, labels: Mapping[str, str], rank: str = "") -> Request:
        self._count += 1
        return Request(
            id=f"prefix-{self.session.run_id}-{self._count}",
            gate=Gate.PREFIX,
            stage=STAGE,
            body=body_of(
                arm, self.session.model, self.output_tokens if "round" in labels else FEW_TOKENS, self.template
            ),
            labels={**labels, **arm.labels, **({"rank": rank} if rank else {})},
            keep=True,
            headers={"X-data-parallel-rank": rank} if rank else {},
        )

    async def _last_looks(self, cold: Arm, number: str, rank: str, off: bool) -> AsyncIterator[Event]:
        """The cold prompt once more, asking how the server rendered it; and, when nothing ever hit, twice at a time:
        what hits only while another request holds it is evicted as soon as it is let go."""
        echo = self._request(cold, {"arm": "echo", "round": number}, rank)
        async for event in self._send(
            replace(echo, stream=False, body=echo_body(cold, self.session.model, self.template))
        ):
            yield event
        if self.stopped or off or not self._hits or any(self._hits):
            return
        first = self._request(cold, {"arm": "held", "turn": "first", "round": number}, rank)
        first = replace(first, body=held_body(cold, self.session.model, self.template))
        second = self._request(cold, {"arm": "held", "turn": "second", "round": number}, rank)
        holding = asyncio.ensure_future(self.window.send(first))
        until_ns = self.session.clock.now_ns() + int(1.2 * self._cold_ns) + HEAD_START_NS
        await or_stop(self.session.clock.sleep_until(until_ns), self.session.stop)
        async for event in self._send(second):
            yield event
        sent = await holding
        self.spent.add(sent.record)
        for card in (*sent.before.cards, *sent.after.cards):
            yield EvidenceTaken(evidence=card)
        yield RecordTaken(exchange=sent.exchange)

    async def _send(self, request: Request) -> AsyncIterator[Event]:
        arm = request.labels["arm"]
        sent = await self.window.send(request, self.gateway if arm == "gateway" else None)
        self._sent = sent
        self.spent.add(sent.record)
        self._failed = 0 if sent.record.state is State.OK else self._failed + 1
        for card in sent.before.cards:
            yield EvidenceTaken(evidence=card)
        yield RecordTaken(exchange=sent.exchange)
        for card in sent.after.cards:
            yield EvidenceTaken(evidence=card)
        pair = pair_of(sent)
        if pair is not None and arm in ("warm", "replay"):
            self._hits.append(pair[1])
        if arm == "cold":
            self._cold_ns = sent.record.ttft_ns or self._cold_ns
        if self.session.stop.is_set():
            self.stopped = "interrupted"
        elif self._failed >= FAILURES_MAX:
            self.stopped = "service_lost"
        elif self.spent.over:
            self.stopped = GUARD_RAIL

    async def _ladder(self, config: CacheConfig | None, pairs: list[Pair]) -> AsyncIterator[Event]:
        """Replays of growing length while the unit is not known."""
        while not self.stopped and unit_of(config, self.session.profile, pairs).tokens is None:
            length = next_length(pairs, self.session.max_model_len)
            if length is None:
                return
            number = len(pairs)

            def build(words: int, number: int = number) -> list[dict[str, Any]]:
                return list(ladder_messages(self.session.run_id, words, number))

            fitted = await or_stop(self._fit(build, length), self.session.stop)
            if fitted is None:
                self.stopped = "interrupted"
                return
            arm = Arm(name="ladder", messages=tuple(fitted[0]))
            for turn in ("first", "again"):
                async for event in self._send(self._request(arm, {"arm": "ladder", "turn": turn})):
                    yield event
                if self.stopped:
                    return
            pair = pair_of(self._sent) if self._sent else None
            if pair is None:
                return
            pairs.append(pair)

    async def _fit(
        self, build: Callable[[int], list[dict[str, Any]]], tokens: int
    ) -> tuple[list[dict[str, Any]], int | None]:
        return await fit(self.control, self.session.model, build, tokens, template=self.template)

    async def _all_rounds(self, unit: int, config: CacheConfig | None, rounds: int) -> AsyncIterator[Event]:
        run_id = self.session.run_id
        length = prompt_tokens(
            unit,
            self.session.plan.prefix.prompt_tokens,
            self.session.max_model_len,
            self.output_tokens,
            config.pool_tokens if config is not None else None,
        )
        built: list[tuple[int, list[dict[str, Any]]]] = []

        def first_cold(words: int) -> list[dict[str, Any]]:
            messages = list(round_arms(Round(run_id=run_id, number=0, words=words))[0].messages)
            built.append((words, messages))
            return messages

        fitted = await or_stop(self._fit(first_cold, length), self.session.stop)
        if fitted is None:
            self.stopped = "interrupted"
            return
        best, count = fitted
        words = next(size for size, messages in built if messages is best)
        self.found |= {"prompt_tokens": length, "first_prompt_tokens": count, "filler_words": words}
        engines = config.engines if config is not None else ()
        off = config is not None and config.enabled is False
        done = 0
        for number in range(rounds):
            rank = str(number % len(engines)) if len(engines) > 1 else ""
            this = Round(run_id=run_id, number=number, words=words, gateway=self.gateway is not None)
            arms = round_arms(this)
            requests = [self._request(arm, {"arm": arm.name, "round": str(number + 1)}, rank) for arm in arms]
            for card in await self._token_cards(arms, requests):
                yield EvidenceTaken(evidence=card)
            for request in requests:
                if self.session.stop.is_set():
                    self.stopped = "interrupted"
                if self.stopped:
                    return
                async for event in self._send(request):
                    yield event
                done += 1
                yield Progress(stage=STAGE, done=done, planned=rounds * len(arms))
            if number == rounds - 1 and not self.stopped:
                async for event in self._last_looks(arms[0], str(number + 1), rank, off):
                    yield event

    async def _token_cards(self, arms: list[Arm], requests: list[Request]) -> list[Evidence]:
        """The token ids of every prompt of a round, asked before its first request; later ones as a difference."""
        cards: list[Evidence] = []
        base_id = ""
        base_ids: tuple[int, ...] = ()
        store, where = self.session.store, self.session.plan.service.base_url
        for arm, request in zip(arms, requests, strict=True):
            if self.session.stop.is_set():
                break
            asking = token_ids(
                self.control, self.session.model, list(arm.messages), list(arm.tools) or None, self.template
            )
            ids = await or_stop(asking, self.session.stop)
            about: dict[str, Value] = {"record": request.id, **request.labels}
            taken_ns = self.session.clock.now_ns()
            if ids is None:
                cards.append(
                    store.miss(
                        "the server gave no token ids",
                        kind="tokenize",
                        source="POST /tokenize",
                        where=where,
                        taken_ns=taken_ns,
                        stage=STAGE,
                        conditions=about,
                    )
                )
                continue
            if not base_id:
                base_id, base_ids, raw = request.id, ids, pack(ids)
            else:
                raw = pack(ids, base_id, base_ids)
            cards.append(
                store.keep(
                    raw,
                    kind="tokenize",
                    source="POST /tokenize",
                    where=where,
                    taken_ns=taken_ns,
                    stage=STAGE,
                    conditions={**about, "tokens": len(ids)},
                    media_type="application/json",
                )
            )
        return cards


def pair_of(sent: Sent) -> Pair | None:
    """Prompt and hit tokens of a replay; `None` when the server tells neither way."""
    if sent.record.prompt_tokens is None:
        return None
    if sent.record.cached_tokens is not None:
        return sent.record.prompt_tokens, sent.record.cached_tokens
    before, after = (
        [cache_counters(series).hits for series in look.series.values()] for look in (sent.before, sent.after)
    )
    if not after or any(hits is None for hits in after):
        return None
    moved = sum(h or 0.0 for h in after) - sum(h or 0.0 for h in before)
    return (sent.record.prompt_tokens, int(moved)) if math.isfinite(moved) else None


def _config(look: Scraped) -> CacheConfig | None:
    """The first configuration that a server tells."""
    return next((c for c in (cache_config(series) for series in look.series.values()) if c is not None), None)


def _warmup(run_id: str) -> Arm:
    return Arm(name="warmup", messages=warmup_messages(run_id, 40))

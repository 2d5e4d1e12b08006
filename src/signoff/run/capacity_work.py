"""Work: what the parts of the capacity loop share, and how they make requests."""

from typing import Any

from signoff.collect.capacity import prompts
from signoff.collect.capacity.text import Corpus, Ruler, fitted
from signoff.collect.control import Control
from signoff.collect.tokenize import Message
from signoff.core.record import Request
from signoff.judge.capacity.sizes import PROBE_OUTPUT_TOKENS, REST_OUTPUT_TOKENS, Sizes
from signoff.run.capacity_stage import Health, Spent, Stage
from signoff.run.session import Session

SILENCE_S, SILENCE_LEAST_S = 120.0, 10.0
SILENCE_PER_LIMIT = 10.0
"""A request that says nothing for ten times the first-token limit has missed it beyond doubt."""
DEADLINE_PER_SILENCE = 5.0
PROBE_SILENCE_S = 5.0
REST_WORDS = 64


class Turns:
    """How many words the parts of a turn have, found once with the server's tokeniser."""

    def __init__(self, shared: int, own: int, long_own: int, sentinel: int) -> None:
        self.shared, self.own, self.long_own, self.sentinel = shared, own, long_own, sentinel


class Work:
    """One pass of the gate."""

    def __init__(
        self, *, session: Session, control: Control, spent: Spent, health: Health, sizes: Sizes, corpus: Corpus
    ) -> None:
        self.session, self.control, self.spent, self.health = session, control, spent, health
        self.sizes, self.corpus = sizes, corpus
        self.ruler = Ruler(tokens_per_word=2.2, exact=False)
        self.soak_streams: int | None = None
        self.recalls = True
        """Whether every fact in the shortest of the long inputs was recalled."""
        self._count = 0
        self._turns: Turns | None = None
        limit = session.plan.objective.limits.ttft_ms_p99
        wanted = SILENCE_S if limit is None else limit / 1000 * SILENCE_PER_LIMIT
        self.silence_s = min(SILENCE_S, max(SILENCE_LEAST_S, wanted))
        off = "none" in session.profile.thinking_efforts
        self.thinking_off: dict[str, Any] = {"reasoning_effort": "none"} if off else {}

    @property
    def over(self) -> bool:
        """Nothing more may be sent in this gate."""
        return self.session.stop.is_set() or self.spent.over

    def stage(self, name: str, streams: int = 1) -> Stage:
        return Stage(self.session, self.control, self.spent, self.health, name, streams)

    def request(
        self,
        stage: str,
        messages: list[Message],
        output_tokens: int,
        labels: dict[str, str],
        *,
        keep: bool = False,
        silence_s: float | None = None,
        tools: bool = False,
    ) -> Request:
        """A streamed request with an id of its own in the run."""
        self._count += 1
        silence = silence_s or self.silence_s
        body = prompts.body_of(self.session.model, messages, output_tokens, thinking_off=self.thinking_off, tools=tools)
        return prompts.request(
            stage,
            f"{self.session.run_id}-capacity-{self._count}",
            body,
            labels,
            keep=keep,
            deadline_s=silence * DEADLINE_PER_SILENCE,
            silence_s=silence,
        )

    def probe(self, stage: str, attempt: int) -> Request:
        """A short request that asks only whether the service answers."""
        fact = prompts.needle(self.session.run_id, stage, attempt)
        messages = prompts.turn_messages(self.corpus, 0, 8, fact, self.session.run_id, stage, "probe", attempt)
        return self.request(stage, messages, PROBE_OUTPUT_TOKENS, {"arm": "probe"}, silence_s=PROBE_SILENCE_S)

    def rest(self, stage: str, index: int) -> Request:
        """One of the requests whose pace is compared on an idle server."""
        fact = prompts.needle(self.session.run_id, stage, "rest", index)
        messages = prompts.turn_messages(self.corpus, 0, REST_WORDS, fact, self.session.run_id, stage, "rest", index)
        labels = {"arm": "rest", "expect": fact.value}
        return self.request(stage, messages, REST_OUTPUT_TOKENS, labels, keep=True)

    async def turns(self) -> Turns:
        """Words for the turns of the concurrency and soak stages, found once."""
        if self._turns is None:
            self._turns = await self._measured_turns()
        return self._turns

    async def _measured_turns(self) -> Turns:
        size, run, model = self.sizes, self.session.run_id, self.session.model
        fact = prompts.needle(run, "turns")

        async def words(tokens: int, shared: int) -> int:
            def build(count: int) -> list[Message]:
                return prompts.turn_messages(self.corpus, shared, count, fact, run, "fit", tokens)

            return (await fitted(self.control, model, self.ruler, build, tokens))[0]

        def head(count: int) -> list[Message]:
            return prompts.shared_messages(self.corpus, count, run)

        shared = 0
        if size.shared_tokens:
            shared = (await fitted(self.control, model, self.ruler, head, size.shared_tokens))[0]
        own = await words(size.input_tokens, shared)
        room = (size.window or 2 * size.input_tokens + 4 * size.output_tokens) - 4 * size.output_tokens - 64
        long_own = max(own, await words(min(2 * size.input_tokens, room), shared)) if room > size.input_tokens else own
        sentinel = await words(size.input_tokens, 0)
        return Turns(shared=shared, own=own, long_own=long_own, sentinel=sentinel)

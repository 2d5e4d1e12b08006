"""One HTTP request on its way through the engine: its choices, and the writer of each, streamed or whole."""

import time
from typing import Any

from signoff.sim import wire
from signoff.sim.engine import DEAD, Engine
from signoff.sim.http1 import Reply
from signoff.sim.model import Thought, Token
from signoff.sim.request import Asked
from signoff.sim.sequences import Sequence
from signoff.sim.settings import Settings

EVENT_STREAM = "text/event-stream; charset=utf-8"


class Choice:
    """One answer: its tokens, and how far they have come."""

    def __init__(
        self, index: int, thought: Thought, tokens: list[Token], call_ids: list[str], reasoning_tokens: int
    ) -> None:
        self.index, self.thought, self.tokens, self.call_ids = index, thought, tokens, call_ids
        self.sequence: Sequence | None = None
        self.finish: str | None = None
        self.reasoning_tokens = reasoning_tokens
        """As the server counts them from token ids, whatever becomes of their text."""

    @property
    def stop_reason(self) -> str | None:
        return self.thought.stop_reason if self.finish == "stop" else None

    def text(self, field: str, count: int) -> str:
        return "".join(token.text for token in self.tokens[:count] if token.field == field)

    def calls(self, count: int) -> list[dict[str, Any]]:
        """Tool calls that were closed within the first `count` tokens."""
        closed = [token.call for token in self.tokens[:count] if token.call is not None]
        return [wire.tool_call(self.thought.calls[i], self.call_ids[i]) for i in closed]


class Answering:
    """All choices of one request. `finished` is called once, when the reply is through."""

    def __init__(
        self,
        asked: Asked,
        choices: list[Choice],
        reply: Reply,
        settings: Settings,
        *,
        response_id: str,
        fingerprint: str,
    ) -> None:
        self.asked, self.choices, self.reply, self.settings = asked, choices, reply, settings
        self.response_id, self.fingerprint = response_id, fingerprint
        self.created = int(time.time())
        self.open = len(choices)
        self.failed = False
        self.break_after: int | None = None
        """Tokens after which the stream ends in an error event (a fault)."""
        self._writers = [
            wire.ChunkWriter(
                response_id=response_id,
                created=self.created,
                model=settings.model,
                index=choice.index,
                chat=asked.chat,
                ids=asked.return_ids,
            )
            for choice in choices
        ]

    def on_tokens(self, choice: Choice, sequence: Sequence) -> None:
        """A token came out of a step."""
        if not self.asked.stream or self.failed:
            return
        count = sequence.generated
        if self.reply.status is None:
            self.reply.open(200, EVENT_STREAM)
        if count == 1 and self.asked.chat:
            prompt_ids = sequence.prompt.tolist() if self.asked.return_ids else None
            self.reply.write(self._writers[choice.index].role(prompt_ids, self._running(sequence, 0)))
        if self.break_after is not None and count >= self.break_after:
            self._break()
            return
        data = self._chunk(choice, sequence, choice.tokens[count - 1], count)
        if data:
            self.reply.write(data)

    def _chunk(self, choice: Choice, sequence: Sequence, token: Token, count: int) -> bytes:
        writer, asked = self._writers[choice.index], self.asked
        ends = count == len(choice.tokens)
        special = ends or asked.return_ids or asked.continuous_usage or not asked.chat or token.call is not None
        if not special:
            return (
                writer.plain(token.field, token.text) if token.field in ("reasoning", "content") and token.text else b""
            )
        delta: dict[str, Any] = {}
        if token.call is not None:
            call = choice.thought.calls[token.call]
            delta = {"content": None, "tool_calls": [wire.tool_call(call, choice.call_ids[token.call], token.call)]}
        elif token.field and token.text:
            delta = {token.field: token.text}
        if not (delta or ends or asked.return_ids or not asked.chat):
            return b""
        return writer.chunk(
            delta,
            text=token.text,
            finish=sequence.finish if ends else None,
            stop_reason=choice.thought.stop_reason if ends and sequence.finish == "stop" else None,
            ids=[token.id] if asked.return_ids else None,
            prompt_ids=sequence.prompt.tolist() if asked.return_ids and count == 1 else None,
            running=self._running(sequence, count),
            fingerprint=self.fingerprint if ends and not asked.include_usage else None,
        )

    def _running(self, sequence: Sequence, count: int) -> dict[str, Any] | None:
        if not self.asked.continuous_usage:
            return None
        prompt = len(sequence.prompt)
        told = {"prompt_tokens": prompt, "total_tokens": prompt + count, "completion_tokens": count}
        return told | {"completion_tokens_details": None} if self.asked.chat else told

    def on_end(self, choice: Choice, sequence: Sequence, reason: str) -> None:
        """The engine is through with one choice."""
        self.open -= 1
        if self.failed:
            return
        if reason == "reset":
            self.failed = True
            self.reply.reset()
            return
        if reason == "dead":
            self._dead()
            return
        choice.finish = sequence.finish
        if self.open > 0:
            return
        if self.asked.stream:
            if self.asked.include_usage:
                self.reply.write(self._writers[0].last(self._usage(), self.fingerprint))
            self.reply.write(wire.DONE)
            self.reply.close()
        else:
            self.reply.send(200, self._whole())

    def _dead(self) -> None:
        self.failed = True
        if self.reply.status is None:
            self.reply.send(500, wire.error_event(DEAD)[6:-2])
        else:
            self.reply.write(wire.error_event(DEAD))
            self.reply.write(wire.DONE)
            self.reply.close()

    def _break(self) -> None:
        self.failed = True
        self.reply.write(wire.error_event("Internal server error"))
        self.reply.write(wire.DONE)
        self.reply.close()

    def abort(self, engine: Engine) -> None:
        for choice in self.choices:
            if choice.sequence is not None:
                engine.abort(choice.sequence)

    def _usage(self) -> dict[str, Any]:
        sequences = [choice.sequence for choice in self.choices if choice.sequence is not None]
        prompts = {id(s.prompt): s for s in sequences}.values()
        cached = sum(s.reported_cached for s in prompts) if self.settings.token_details else None
        unit = self.settings.unit
        created = sum(max(0, len(s.prompt) // unit * unit - s.reported_cached) for s in prompts)
        reasoning = sum(choice.reasoning_tokens for choice in self.choices)
        return wire.usage(
            sum(len(s.prompt) for s in prompts),
            sum(s.generated for s in sequences),
            cached=cached,
            created=created,
            reasoning=reasoning if self.asked.chat and self.settings.reasoning_parser else None,
            streamed=self.asked.stream,
            chat=self.asked.chat,
        )

    def _whole(self) -> bytes:
        choices = []
        for choice in self.choices:
            sequence = choice.sequence
            assert sequence is not None
            count = sequence.generated
            ids = [token.id for token in choice.tokens[:count]] if self.asked.return_ids else None
            prompt_ids = sequence.prompt.tolist() if self.asked.return_ids else None
            if self.asked.chat:
                calls = choice.calls(count)
                content = choice.text("content", count)
                made = wire.chat_choice(
                    choice.index,
                    reasoning=choice.text("reasoning", count) or None,
                    content=content or ("" if calls and not choice.reasoning_tokens else None),
                    calls=calls,
                    finish=sequence.finish,
                    stop_reason=choice.stop_reason,
                    ids=ids,
                )
            else:
                made = wire.text_choice(
                    choice.index,
                    text=choice.text("content", count),
                    finish=sequence.finish,
                    stop_reason=choice.stop_reason,
                    ids=ids,
                    prompt_ids=prompt_ids,
                )
            choices.append(made)
        first = self.choices[0].sequence
        assert first is not None
        return wire.whole(
            chat=self.asked.chat,
            response_id=self.response_id,
            created=self.created,
            model=self.settings.model,
            choices=choices,
            fingerprint=self.fingerprint,
            used=self._usage(),
            prompt_ids=first.prompt.tolist() if self.asked.return_ids else None,
        )

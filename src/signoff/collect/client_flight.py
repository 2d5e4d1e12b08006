"""One request on its way: its instants, its answer so far, and the terminal state it comes to."""

import asyncio

from signoff.collect.client_answer import DEAD_FINISHES, Tally, asks_usage, clip
from signoff.collect.sse import SseReader
from signoff.core.record import Exchange, Record, Request
from signoff.core.words import State

RESPONSE_BYTES_MAX = 64 * 1024 * 1024
KEPT_WITHOUT_BODY_MAX = 64 * 1024
"""Of error answers, also when bodies are not kept."""

_PLAIN = b"data: {"


class Flight:
    """Mutable until `landed`; what it is then is read off by `exchange`."""

    __slots__ = (
        "body",
        "connected_ns",
        "content_type",
        "deadline",
        "end_ns",
        "first_byte_ns",
        "keep_body",
        "landed",
        "planned_ns",
        "quick",
        "request",
        "sent_ns",
        "silence",
        "size",
        "sse",
        "status",
        "strict",
        "tally",
        "trouble",
        "written_ns",
    )

    def __init__(self, request: Request, planned_ns: int, sent_ns: int, keep_body: bool) -> None:
        self.request = request
        self.planned_ns = planned_ns
        self.sent_ns = sent_ns
        self.keep_body = keep_body
        self.connected_ns: int | None = None
        self.written_ns: int | None = None
        self.first_byte_ns: int | None = None
        self.end_ns: int | None = None
        self.status: int | None = None
        self.content_type = ""
        self.sse: SseReader | None = None
        self.quick = False
        """The stream stands between two events of the usual shape: the next such one needs no reader of lines."""
        self.tally = Tally()
        self.strict = request.path.split("?", 1)[0].endswith("completions")
        self.body: list[bytes] = []
        self.size = 0
        self.trouble: tuple[State, str] | None = None
        """What ended it before its answer was whole."""
        self.deadline: asyncio.TimerHandle | None = None
        self.silence: asyncio.TimerHandle | None = None
        self.landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def headers(self, status: int, headers: dict[bytes, bytes]) -> str:
        """Takes the answer's status and headers; a reason to give the answer up, empty when there is none."""
        self.status = status
        self.content_type = headers.get(b"content-type", b"").decode("latin-1").split(";")[0].strip().lower()
        coding = headers.get(b"content-encoding", b"identity").strip().lower()
        if coding not in (b"identity", b""):
            return f"content-encoding {clip(coding, 40)}, although only identity was accepted"
        if self.request.stream and 200 <= status < 300 and self.content_type == "text/event-stream":
            self.sse = SseReader()
        return ""

    def part(self, body: bytes, at: int) -> str:
        """Takes a piece of the body that arrived at `at`; a reason to give the answer up, empty when there is none."""
        self.size += len(body)
        if self.size > RESPONSE_BYTES_MAX:
            return f"answer larger than {RESPONSE_BYTES_MAX} bytes"
        sse = self.sse
        if sse is None:
            self.body.append(body)
            return ""
        if self.keep_body:
            self.body.append(body)
        tally = self.tally
        if (
            self.quick
            and body.startswith(_PLAIN)
            and body.find(b"\n") == len(body) - 2
            and body.endswith(b"\n\n")
            and b"\r" not in body
        ):
            tally.event(body[6:], at)  # one whole event; JSON may end in blanks
            return tally.malformed
        for payload in sse.feed(body):
            tally.event(payload, at)
        if sse.errors:
            for payload in sse.errors:
                tally.named_error(payload)
            sse.errors.clear()
        self.quick = sse.between_events
        if sse.too_large:
            return "an event larger than the limit"
        return tally.malformed

    def unwatch(self) -> None:
        """No limit watches it any longer."""
        for timer in (self.deadline, self.silence):
            if timer is not None:
                timer.cancel()

    def land(self, at: int, trouble: tuple[State, str] | None = None) -> None:
        """Ends it, once; what comes later changes nothing."""
        if self.end_ns is not None:
            return
        self.end_ns = at
        self.trouble = trouble
        good = self.status is not None and 200 <= self.status < 300
        if good and self.sse is None and trouble is None and self.size:
            self.tally.whole(b"".join(self.body))
        if not self.landed.done():
            self.landed.set_result(None)

    def _state(self) -> tuple[State, str]:
        """The terminal state and the words for it. An HTTP error or an error object outranks how the socket ended."""
        tally = self.tally
        if self.trouble is not None and self.trouble[0] is State.ABORTED:
            return self.trouble
        if self.status is not None and not 200 <= self.status < 300:
            said = clip(b"".join(self.body[:64]), 1500).strip()
            return State.HTTP_ERROR, f"HTTP {self.status}" + (f": {said}" if said else "")
        if tally.error:
            return State.INBAND_ERROR, tally.error
        if self.trouble is not None:
            return self.trouble
        if tally.malformed:
            return State.MALFORMED, tally.malformed
        if self.size == 0:
            return State.UNFINISHED, "an empty answer"
        if self.request.stream:
            return self._stream_state()
        if not self.strict:
            return State.OK, ""
        return self._finish_state()

    def _stream_state(self) -> tuple[State, str]:
        tally, sse = self.tally, self.sse
        if sse is None:
            said = self.content_type or "no content type"
            return State.MALFORMED, f"a stream was asked for, the answer is {said}"
        if tally.after_done:
            return State.MALFORMED, "events after [DONE]"
        if self.strict and (state := self._finish_state())[0] is State.UNFINISHED:
            return state
        if tally.done == 0:
            return State.UNFINISHED, "ended without [DONE]" + (", last event not ended" if sse.unended else "")
        return self._finish_state() if self.strict else (State.OK, "")

    def _finish_state(self) -> tuple[State, str]:
        tally = self.tally
        finishes = tally.finishes
        if not finishes:
            return State.UNFINISHED, "ended without finish reason"
        if len(finishes) < len(tally.indexes):
            return State.UNFINISHED, f"{len(tally.indexes) - len(finishes)} choices without finish reason"
        for reason in finishes.values():
            if reason in DEAD_FINISHES:
                return State.UNFINISHED, f"finish reason {reason}"
        if tally.usage is None and self.request.stream and asks_usage(self.request.body):
            return State.NO_USAGE, "usage was asked for and never came"
        return State.OK, "[DONE] came more than once" if tally.done > 1 else ""

    def exchange(self, disqualified: str) -> Exchange:
        """What it came to; only after `land`."""
        assert self.end_ns is not None
        tally, request = self.tally, self.request
        state, error = self._state()
        usage = tally.usage
        prompt = usage.prompt_tokens_details if usage else None
        completion = usage.completion_tokens_details if usage else None
        record = Record(
            id=request.id,
            gate=request.gate,
            stage=request.stage,
            labels=request.labels,
            stream=request.stream,
            state=state,
            planned_ns=self.planned_ns,
            sent_ns=self.sent_ns,
            connected_ns=self.connected_ns,
            written_ns=self.written_ns,
            first_byte_ns=self.first_byte_ns,
            first_event_ns=tally.first_event,
            first_reasoning_ns=tally.first_reasoning,
            first_content_ns=tally.first_content,
            first_tool_ns=tally.first_tool,
            chunk_ns=tally.chunks,
            end_ns=self.end_ns,
            status=self.status,
            error=error[:2000],
            finish_reason=clip(tally.finish.encode(), 200),
            prompt_tokens=usage.prompt_tokens if usage else None,
            completion_tokens=usage.completion_tokens if usage else None,
            cached_tokens=prompt.cached_tokens if prompt else None,
            reasoning_tokens=completion.reasoning_tokens if completion else None,
            disqualified=disqualified,
        )
        body = b"".join(self.body)
        return Exchange(
            record=record,
            request=request.body,
            response=body if self.keep_body else body[: KEPT_WITHOUT_BODY_MAX if state is not State.OK else 0],
        )

"""Record: one request that was sent, with all its instants, whatever became of it.

    planned  sent  connected  written  first byte  first event  first reasoning | content | tool  chunks ...  end

Every instant is in nanoseconds on the run's one axis: a monotonic clock anchored to Unix time when the run began, so
instants compare with scrapes and log lines and never step. `None` means that it did not happen.
"""

from msgspec import Struct

from signoff.core.words import Gate, State


class Request(Struct, frozen=True, kw_only=True):
    """What is to be sent. `id` is unique in the run and travels as `X-Request-Id`."""

    id: str
    gate: Gate
    stage: str
    """`<gate>.<stage>[.<step>]`, for instance `capacity.concurrency.16`, `prefix.warm`, `agent.tool_turn`."""
    body: bytes
    path: str = "/v1/chat/completions"
    stream: bool = True
    labels: dict[str, str] = {}
    """What distinguishes this request inside its stage: round, arm, sample, matrix cell, lane."""
    keep: bool = False
    """Keep request and response bytes as evidence; failures are kept whatever this says."""
    headers: dict[str, str] = {}
    deadline_s: float = 600.0
    silence_s: float = 120.0
    """Longest time without a byte before the request is given up as stalled."""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one request."""

    id: str
    gate: Gate
    stage: str
    labels: dict[str, str] = {}
    stream: bool = True
    state: State
    planned_ns: int
    """When the schedule wanted it sent; latency from here hides no queueing of a late client."""
    sent_ns: int
    """When the client took it up."""
    connected_ns: int | None = None
    written_ns: int | None = None
    """When its last byte was handed to the kernel; TTFT counts from here."""
    first_byte_ns: int | None = None
    first_event_ns: int | None = None
    """First SSE event with any choice, the empty role chunk included."""
    first_reasoning_ns: int | None = None
    first_content_ns: int | None = None
    first_tool_ns: int | None = None
    chunk_ns: list[int] = []
    """Arrival of every chunk that carries reasoning, content or a tool delta; shape (chunks,)."""
    end_ns: int
    status: int | None = None
    """HTTP status."""
    error: str = ""
    """What went wrong in the words of server or socket, to 2,000 characters."""
    finish_reason: str = ""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    """`usage.prompt_tokens_details.cached_tokens`; `None` when the server does not say."""
    reasoning_tokens: int | None = None
    request_digest: str = ""
    response_digest: str = ""
    """SHA-256 of kept bytes, empty when they were not kept."""
    disqualified: str = ""
    """Why the client itself was the bottleneck around this request, empty when it was not."""

    @property
    def first_token_ns(self) -> int | None:
        """The first reasoning, content or tool delta, whichever came first."""
        seen = [t for t in (self.first_reasoning_ns, self.first_content_ns, self.first_tool_ns) if t is not None]
        return min(seen) if seen else None

    @property
    def ttft_ns(self) -> int | None:
        """From fully written to the first token."""
        first = self.first_token_ns
        return None if first is None or self.written_ns is None else first - self.written_ns

    @property
    def ttft_planned_ns(self) -> int | None:
        """From the planned instant to the first token."""
        first = self.first_token_ns
        return None if first is None else first - self.planned_ns

    @property
    def e2e_ns(self) -> int | None:
        """From fully written to the end."""
        return None if self.written_ns is None else self.end_ns - self.written_ns


class Exchange(Struct, frozen=True, kw_only=True):
    """A record with the bytes of both sides, as the client hands them on before anything is stored."""

    record: Record
    request: bytes
    response: bytes
    """The body as received, de-chunked, to the size limit; empty when none came."""

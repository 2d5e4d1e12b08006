"""Attempts: which sample is sent, in which lane and under which options. Pure and seeded; sending is the loop's.

A lane is streamed or whole, direct or through the gateway. Inside a lane the samples of a kind take turns in seeded
order; thinking alternates where the profile knows efforts; a quarter of those that can demand a call do.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from signoff.core.record import Request
from signoff.core.sample import Kind, Pack, Sample, tail_nonce, tool_json, with_nonce
from signoff.core.words import Gate
from signoff.core.workload import rng

Via = Literal["direct", "gateway"]
THINKING_TOKENS, PLAIN_TOKENS, LABORATORY_TOKENS = 2048, 256, 128
"""Output budgets: a model that thinks spends most before the answer; a laboratory's slow one must end in minutes."""
DEADLINE_S, SILENCE_S = 120.0, 60.0
CELLS = 8
"""Options a sample can meet: thinking on and off, six with the choice left to the model and two that demand a call."""


class Options(Struct, frozen=True, kw_only=True):
    """What of plan and profile shapes a request."""

    model: str
    run_id: str
    seed: int
    thinking: bool
    """Whether the profile knows thinking efforts, so that thinking can be turned off."""
    tokens: int = THINKING_TOKENS
    """Output budget of every request."""
    full: bool = False
    """Every sample under every option, instead of pairs."""
    auto: bool = True
    """Whether the server takes tool choice `auto`; otherwise every call is demanded."""


class Attempt(Struct, frozen=True, kw_only=True):
    kind: Kind
    sample: Sample
    number: int
    """From 0 inside the kind and `via`; even numbers are streamed, odd ones whole, so that any prefix is balanced."""
    via: Via
    thinking: Literal["on", "off", "default"]
    choice: Literal["auto", "required", "none"]
    """`none`: the sample offers no tools, or calls for none where the server does not take `auto`."""
    alone: bool

    @property
    def streamed(self) -> bool:
        return self.number % 2 == 0

    @property
    def stage(self) -> str:
        return f"agent.{self.kind}"


def attempts(
    pack: Pack, kind: Kind, numbers: Sequence[int], options: Options, *, via: Via = "direct", alone: bool = False
) -> list[Attempt]:
    """The attempts of a kind with these numbers; the same numbers always give the same attempts."""
    samples = list(pack.of_kind(kind))
    rng("agent", options.seed, kind).shuffle(samples)
    made = []
    for number in numbers if samples else ():
        turn = number // 2  # the same turn is sent streamed and whole, so that the lanes compare like with like
        sample = samples[turn % len(samples)]
        lap = turn // len(samples)
        # A sample meets the next cell on each lap, or one an odd step further on: so it meets all eight in turn.
        cell = lap if options.full else turn + (lap if len(samples) % 2 == 0 else 0)
        thinking: Literal["on", "off", "default"] = "default"
        if options.thinking:
            thinking = "on" if cell % 2 == 0 else "off"
        made.append(
            Attempt(
                kind=kind,
                sample=sample,
                number=number,
                via=via,
                thinking=thinking,
                choice=_choice(sample, cell, options),
                alone=alone,
            )
        )
    return made


def _choice(sample: Sample, cell: int, options: Options) -> Literal["auto", "required", "none"]:
    if not sample.tools:
        return "none"
    if sample.calls and (not options.auto or cell % CELLS >= CELLS - 2):
        return "required"
    return "auto" if options.auto else "none"


def request_of(attempt: Attempt, pack: Pack, options: Options) -> Request:
    """The request of an attempt: same sample, same tokens up to the nonce at the end of the last user message."""
    id = f"{options.run_id}-agent-{attempt.kind}-{attempt.via}-{attempt.number}"
    return Request(
        id=id,
        gate=Gate.AGENT,
        stage=attempt.stage,
        body=msgspec.json.encode(body_of(attempt, pack, options, tail_nonce(id))),
        stream=attempt.streamed,
        labels={
            "sample": attempt.sample.id,
            "streamed": "true" if attempt.streamed else "false",
            "via": attempt.via,
            "thinking": attempt.thinking,
            "choice": attempt.choice,
            "load": "alone" if attempt.alone else "together",
            "attempt": str(attempt.number),
        },
        keep=True,
        deadline_s=DEADLINE_S,
        silence_s=SILENCE_S,
    )


def body_of(attempt: Attempt, pack: Pack, options: Options, nonce: str) -> dict[str, Any]:
    """The JSON body of an attempt."""
    sample = attempt.sample
    body: dict[str, Any] = {
        "model": options.model,
        "messages": with_nonce(sample.messages, nonce),
        "max_tokens": sample.max_tokens or options.tokens,
    }
    if sample.tools:
        offered = [pack.tool(name) for name in sample.tools]
        body["tools"] = [tool_json(tool) for tool in offered if tool is not None]
        body["tool_choice"] = attempt.choice
    if sample.response_schema is not None:
        body["response_format"] = {
            "type": "json_schema",
            "json_schema": {"name": sample.id, "schema": sample.response_schema, "strict": True},
        }
    if attempt.thinking == "off":
        body["reasoning_effort"] = "none"
    if attempt.streamed:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return body

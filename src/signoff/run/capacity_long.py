"""Long input: one request at a time, longer and longer, until the target or the first length that does not hold."""

from collections.abc import AsyncIterator
from functools import partial

from signoff.collect.capacity import prompts
from signoff.collect.capacity.text import fitted
from signoff.collect.tokenize import Message
from signoff.core.events import Event, RecordTaken
from signoff.core.record import Record
from signoff.core.words import State
from signoff.judge.capacity.honest import honest
from signoff.judge.capacity.sizes import prompt_tokens
from signoff.read.stream import read_stream
from signoff.run.capacity_stage import Stage
from signoff.run.capacity_work import Work
from signoff.run.session import Events

TRIES_AFTER_FAILURE = 2
"""A length is given up only when it fails again and again: one failure may be a stray one."""
SHORT_SAMPLES = 2
"""Requests of each kind on the first rung, by which recall on long ones is compared."""
SILENCE_FIRST_S, SILENCE_LEAST_S, SILENCE_MOST_S = 60.0, 15.0, 1800.0
SILENCE_PER_EXPECTED = 5.0


async def long_input(work: Work) -> Events:
    slowest: tuple[int, float] | None = None
    for index, rung in enumerate(work.sizes.rungs):
        if work.over:
            return
        stage = work.stage(f"capacity.long_input.{rung}")
        tokens = prompt_tokens(rung, work.sizes)
        yield stage.begin(
            len(prompts.KINDS) * (SHORT_SAMPLES if index == 0 else 1),
            rung_tokens=rung,
            prompt_tokens=tokens,
            output_tokens=work.sizes.long_output_tokens,
        )
        async for event in stage.comes_back(partial(work.probe, stage.name)):
            yield event
        async for evidence in stage.scrape("before"):
            yield evidence
        for kind in prompts.KINDS:
            silence_s = _silence(rung, slowest)
            async for event in _kind(
                work, stage, kind, tokens, SHORT_SAMPLES if index == 0 else 1, silence_s, first=index == 0
            ):
                yield event
        async for evidence in stage.scrape("after"):
            yield evidence
        yield stage.finish()
        took = [r.ttft_ns for r in stage.records if r.ttft_ns is not None]
        slowest = (rung, max(took) / 1e9) if took else slowest
        if stage.stopped or not all(held(honest(stage.records, work.sizes), kind) for kind in prompts.KINDS):
            return


def _wrong(event: RecordTaken, expected: str) -> bool:
    """Whether a whole answer lacks the fact that was asked for."""
    answer = read_stream(event.exchange.response)
    said = f"{answer.reasoning or ''}{answer.content or ''}"
    return event.exchange.record.state is State.OK and expected not in said


def held(records: list[Record], kind: str) -> bool:
    """Most requests of this kind succeeded."""
    ours = [r.state is State.OK for r in records if r.labels.get("kind") == kind]
    return sum(ours) * 2 > len(ours)


def _silence(rung: int, slowest: tuple[int, float] | None) -> float:
    """How long a first token may take: attention is quadratic at worst in what the last length took."""
    if slowest is None:
        return SILENCE_FIRST_S
    expected = slowest[1] * (rung / slowest[0]) ** 2
    return min(SILENCE_MOST_S, max(SILENCE_LEAST_S, expected * SILENCE_PER_EXPECTED))


async def _kind(
    work: Work, stage: Stage, kind: str, tokens: int, samples: int, silence_s: float, *, first: bool
) -> AsyncIterator[Event]:
    """The samples of one kind; two more tries after a failure, and after a wrong answer where the first length had
    none: one of each kind proves nothing."""
    sent, tries, wrong = 0, samples, False
    while sent < tries and not stage.ended:
        fact = prompts.needle(work.session.run_id, stage.name, kind, sent)
        seed = (work.session.run_id, stage.name, kind, sent)

        def build(count: int, fact: prompts.Needle = fact, seed: tuple[object, ...] = seed) -> list[Message]:
            return prompts.long_messages(kind, work.corpus, count, fact, *seed)

        tools = [prompts.TOOL] if kind == prompts.AGENT else []
        count, exact = await fitted(work.control, work.session.model, work.ruler, build, tokens, tools)
        labels = {"kind": kind, "expect": fact.value, "tokens": str(exact if exact is not None else "")}
        request = work.request(
            stage.name,
            build(count),
            work.sizes.long_output_tokens,
            labels,
            keep=True,
            silence_s=silence_s,
            tools=bool(tools),
        )
        async for event in stage.single(request):
            wrong = wrong or (isinstance(event, RecordTaken) and _wrong(event, fact.value))
            work.recalls = work.recalls and not (wrong and first)
            yield event
        if sent == samples - 1 and (
            (wrong and work.recalls)
            or any(r.state is not State.OK for r in stage.records if r.labels.get("kind") == kind)
        ):
            tries = samples + TRIES_AFTER_FAILURE
        sent += 1

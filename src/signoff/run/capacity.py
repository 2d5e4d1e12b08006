"""The loop of the capacity gate: load, long input, concurrency with its cap, soak, idle.

Every stage is begun and finished whatever becomes of the service: a dead one ends each stage early, which is evidence,
and the gate goes on to its end without hanging. Only a guard rail or an interrupt ends the gate itself.
"""

from signoff.collect.capacity import prompts
from signoff.collect.capacity.text import PROBE_WORDS, Corpus, Ruler, calibrate
from signoff.collect.control import Control
from signoff.core.record import Request
from signoff.core.words import State
from signoff.judge.capacity.sizes import LOAD_OUTPUT_TOKENS, sizes
from signoff.run.capacity_climb import climb
from signoff.run.capacity_long import long_input
from signoff.run.capacity_soak import soak
from signoff.run.capacity_stage import REST_SAMPLES, Health, Spent
from signoff.run.capacity_work import Work
from signoff.run.session import Events, Session

TEMPLATE_GUESS_TOKENS = 40


async def run_capacity(session: Session) -> Events:
    """Every event of the gate, in the order in which things happened."""
    async with Control(session.plan.service) as control:
        work = Work(
            session=session,
            control=control,
            spent=Spent(session),
            health=Health(),
            sizes=sizes(session.plan, session.profile, session.max_model_len),
            corpus=Corpus(session.plan.seed, session.run_id),
        )
        work.ruler = await calibrate(control, session.model, work.corpus)
        for part in (load, long_input, climb, soak):
            if work.over:
                return
            async for event in part(work):
                yield event


async def load(work: Work) -> Events:
    """The server as it was loaded, and the first real completion."""
    stage = work.stage("capacity.load")
    yield stage.begin(1 + REST_SAMPLES, window_tokens=work.sizes.window)
    async for evidence in stage.scrape("before"):
        yield evidence
    async for event in stage.single(first_request(work)):
        yield event
    work.health.lost = not stage.records or stage.records[-1].status is None
    if stage.records and stage.records[-1].state is State.OK:
        async for event in stage.at_rest(work.rest):
            yield event
    async for evidence in stage.scrape("after"):
        yield evidence
    if not work.ruler.exact and stage.records and stage.records[0].prompt_tokens:
        counted = stage.records[0].prompt_tokens - TEMPLATE_GUESS_TOKENS
        work.ruler = Ruler(tokens_per_word=max(0.5, counted / PROBE_WORDS), exact=False)
    yield stage.finish(tokens_per_word=round(work.ruler.tokens_per_word, 3), exact_counts=work.ruler.exact)


def first_request(work: Work) -> Request:
    fact = prompts.needle(work.session.run_id, "load")
    messages = prompts.long_messages(prompts.FILLER, work.corpus, PROBE_WORDS, fact, work.session.run_id, "load")
    return work.request("capacity.load", messages, LOAD_OUTPUT_TOKENS, {"arm": "first"}, keep=True)

"""The parts of a turn: as long together, and as much of it shared, as the plan says."""

import asyncio
import json

import msgspec
import pytest
from msgspec.structs import replace

from signoff.collect.capacity.text import Corpus, calibrate
from signoff.collect.clock import SystemClock
from signoff.collect.control import Answer
from signoff.core.plan_text import parse_plan
from signoff.judge.capacity.sizes import sizes
from signoff.run.capacity_climb import Turning
from signoff.run.capacity_stage import Health, Spent
from signoff.run.capacity_work import Work
from signoff.run.profiles import load_profile
from signoff.run.session import Session

PLAN = """schema: signoff/plan/1
name: turns
profile: kimi-k3-simulated
service: {base_url: "http://127.0.0.1:1", model: m}
objective:
  concurrency: {target: 8, floor: 4}
  input_tokens: {target: 4096, floor: 2048}
load: {reuse_share: 0.4, concurrency: {input_tokens: 1000, output_tokens: 50}}
"""


def tokens(messages):
    return 7 + sum(2 * len(str(m["content"]).split()) for m in messages)


class Tokeniser:
    async def post(self, path, body, timeout_s=60.0):
        count = tokens(json.loads(body)["messages"])
        return Answer(status=200, body=msgspec.json.encode({"count": count, "tokens": [1] * count}))


def work_of(text):
    plan, profile = parse_plan(text), load_profile("kimi-k3-simulated")
    session = Session(
        plan=plan,
        profile=profile,
        model="m",
        max_model_len=8192,
        client=None,
        store=None,
        clock=SystemClock(),
        stop=asyncio.Event(),
        run_id="run",
    )
    size = sizes(plan, profile, 8192)
    corpus = Corpus(1, "run")
    return Work(session=session, control=Tokeniser(), spent=Spent(session), health=Health(), sizes=size, corpus=corpus)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.4, 0.8])
async def test_so_much_of_a_turn_is_shared_and_no_more(share):
    work = work_of(PLAN.replace("0.4", str(share)))
    work.ruler = await calibrate(work.control, "m", work.corpus)
    stage = work.stage("capacity.concurrency.4", 4)
    maker = Turning(work, stage, 4, await work.turns())
    one, two = (json.loads(maker(n).body)["messages"] for n in (0, 1))
    assert 940 <= tokens(one) <= 1060
    shared = tokens([one[0]]) if one[0] == two[0] else 0
    assert abs(shared - 1000 * share) < 30
    assert one[1]["content"][:16] != two[1]["content"][:16]


async def test_the_long_turns_of_the_soak_fit_the_window():
    work = work_of(PLAN.replace("input_tokens: 1000", "input_tokens: 7900"))
    work.ruler = await calibrate(work.control, "m", work.corpus)
    turns = await work.turns()
    assert turns.long_own >= turns.own
    assert 2 * turns.long_own + 200 <= 8192


async def test_every_request_has_an_id_of_its_own_and_patience_by_the_plan():
    work = work_of(PLAN)
    first, second = (work.rest("capacity.load", n) for n in (0, 1))
    assert first.id != second.id
    assert first.silence_s == 120.0
    hurried = replace(work.session.plan.objective.limits, ttft_ms_p99=2000)
    objective = replace(work.session.plan.objective, limits=hurried)
    session = msgspec.structs.replace(work.session, plan=replace(work.session.plan, objective=objective))
    again = Work(
        session=session,
        control=work.control,
        spent=work.spent,
        health=work.health,
        sizes=work.sizes,
        corpus=work.corpus,
    )
    assert again.rest("capacity.load", 0).silence_s == 20.0

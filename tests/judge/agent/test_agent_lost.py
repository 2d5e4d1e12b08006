"""Effects, arrivals, and evidence that is gone: what was lost never makes a finding better."""

import json
from collections.abc import Callable

import pytest
from agent_dossier import (
    Case,
    Message,
    counted,
    double_encoded,
    effect,
    healthy_case,
    ledger,
    plan,
    profile,
    right,
    whole,
)
from msgspec.structs import replace

from signoff.collect.agent.attempts import Attempt
from signoff.core.events import StageFinished
from signoff.core.finding import Finding
from signoff.core.plan import Agent, FailureRate
from signoff.core.sample import KINDS
from signoff.core.words import Bearing, Cause, Gate, Outcome
from signoff.judge.catalogue import sentence

RATES = [f"agent.{kind}.rate" for kind in KINDS]


def test_a_call_carried_out_twice_for_one_intent_is_caught() -> None:
    case = Case()
    effects = [effect(case, n) for n in range(6)]
    again = json.dumps({"text": "t", "recipient": "r2"})  # the same call, keys in another order
    ledger(case, [*effects, effect(case, 2, again, turn=2)])
    found = case.found()["agent.effects.once"]
    assert (found.outcome, found.bearing, found.cause) == (Outcome.FAIL, Bearing.EFFECT, Cause.MODEL_PARSER)
    assert found.values["repeated"] == 1


def test_a_ledger_that_the_raw_answers_do_not_bear_out_proves_nothing() -> None:
    case = Case()
    effects = [effect(case, n) for n in range(6)]
    case.records.clear()
    ledger(case, effects * 2)
    found = case.found()["agent.effects.once"]
    assert (found.outcome, found.required) == (Outcome.INCONCLUSIVE, True)


def doubled() -> Case:
    """The third intent is carried out twice; everything is there to show it."""
    case = Case()
    effects = [effect(case, n) for n in range(6)]
    ledger(case, [*effects, effect(case, 2, effects[2].arguments, turn=2)])
    return case


def without_ledger(case: Case) -> None:
    case.evidence = [e for e in case.evidence if e.kind != "effect_ledger"]


def without_answers(case: Case) -> None:
    for record in case.records:
        case.blobs.pop(record.response_digest, None)


def without_the_doubled_answers(case: Case) -> None:
    for record in case.records:
        if record.labels["intent"] == "2":
            case.blobs.pop(record.response_digest, None)


def without_the_second_turn(case: Case) -> None:
    case.records = [r for r in case.records if (r.labels["intent"], r.labels["turn"]) != ("2", "2")]


def without_the_first_turn(case: Case) -> None:
    case.records = [r for r in case.records if (r.labels["intent"], r.labels["turn"]) != ("2", "1")]


def with_a_torn_ledger(case: Case) -> None:
    case.blobs = {d: b"{" if b"call_id" in raw else raw for d, raw in case.blobs.items()}


LOSSES = [
    without_ledger,
    without_answers,
    without_the_doubled_answers,
    without_the_second_turn,
    without_the_first_turn,
    with_a_torn_ledger,
]


@pytest.mark.parametrize("lose", LOSSES)
def test_no_lost_evidence_of_an_effect_makes_it_better(lose: Callable[[Case], None]) -> None:
    assert doubled().found()["agent.effects.once"].outcome is Outcome.FAIL
    for case in (doubled(), healthy_case()):
        case.records = [r for r in case.records if r.stage == "agent.effects"]
        lose(case)
        found = case.found()["agent.effects.once"]
        assert found.outcome is Outcome.FAIL or (found.outcome, found.required) == (Outcome.INCONCLUSIVE, True), found
        assert sentence(found)


def test_a_ledger_that_leaves_out_what_the_answers_hold_proves_nothing() -> None:
    case = Case()
    effects = [effect(case, n) for n in range(6)]
    ledger(case, effects)
    again = effect(case, 2, json.dumps({"recipient": "r2", "text": "other"}), turn=2)
    found = case.found()["agent.effects.once"]
    assert (found.outcome, found.values["reason"]) == (Outcome.INCONCLUSIVE, "ledger_and_answers_differ")
    case = Case()
    ledger(case, [*(effect(case, n) for n in range(6))])
    effect(case, 2, turn=2)
    assert again.turn == 2
    assert case.found()["agent.effects.once"].outcome is Outcome.FAIL  # the answers alone show it


def test_a_model_that_cannot_call_is_an_open_question_outside_a_laboratory() -> None:
    for scope, required in (("simulated", True), ("laboratory", False)):
        case = Case(profile=replace(profile(), scope=scope))
        ledger(case, [effect(case, 0)])
        for n in range(1, 6):
            labels = {"intent": str(n), "turn": "1"}
            case.record("agent.effects", raw=whole({"content": "I would."}), labels=labels)
        found = case.found()["agent.effects.once"]
        assert (found.outcome, found.values["reason"]) == (Outcome.INCONCLUSIVE, "too_few_calls")
        assert found.required is required


def duplicating(direct_extra: int) -> Finding:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
    ledger(case, [effect(case, n) for n in range(6)])
    counted(case, "direct", 10, 210 + direct_extra)
    counted(case, "gateway", 300, 500)
    return case.found()["agent.gateway.once"]


def test_a_gateway_that_sends_twice_is_caught_by_the_servers_count() -> None:
    found = duplicating(direct_extra=0)
    assert (found.outcome, found.bearing, found.cause) == (Outcome.FAIL, Bearing.EFFECT, Cause.GATEWAY)
    assert (found.values["sent"], found.values["arrived"]) == (100, 200)


def test_traffic_of_others_is_not_taken_for_a_gateway_that_sends_twice() -> None:
    found = duplicating(direct_extra=30)
    assert (found.outcome, found.required) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize("what", ["direct", "gateway"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_border_count_that_is_gone_leaves_the_gateway_open(what: str, when: str) -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
    counted(case, "direct", 10, 210)
    counted(case, "gateway", 300, 500)
    assert case.found()["agent.gateway.once"].outcome is Outcome.FAIL
    case.evidence = [e for e in case.evidence if (e.conditions.get("what"), e.conditions.get("when")) != (what, when)]
    found = case.found()["agent.gateway.once"]
    assert (found.outcome, found.required) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize("count", ["NaN", "+Inf", "-Inf", "1e308", "-5", "1e400"])
def test_counts_that_are_no_counts_tell_nothing(count: str) -> None:
    for at in (1, 2, 3):
        counts: list[object] = [10, 210, 300, 400]
        counts[at] = count
        case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
        counted(case, "direct", counts[0], counts[1])
        counted(case, "gateway", counts[2], counts[3])
        found = case.found()["agent.gateway.once"]
        assert (found.outcome, found.required) == (Outcome.INCONCLUSIVE, True)


def test_counters_that_miss_answers_and_servers_that_were_not_counted_leave_it_open() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
    counted(case, "direct", 10, 210)
    counted(case, "gateway", 300, 350)
    assert case.found()["agent.gateway.once"].values["reason"] == "counters_miss_requests"
    service = replace(case.plan.service, metrics=("http://s/metrics", "http://t/metrics"))
    case.plan = replace(case.plan, service=service)
    assert case.found()["agent.gateway.once"].values["reason"] == "arrivals_not_countable"


def test_records_that_a_stage_had_and_are_gone_make_no_gateway_look_bad_or_good() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
    counted(case, "direct", 10, 210)
    counted(case, "gateway", 300, 400)
    ended = StageFinished(stage="agent.gateway", gate=Gate.AGENT, at_ns=2, conditions={"attempts": 100})
    case.events.append(ended)
    assert case.found()["agent.gateway.once"].outcome is Outcome.PASS
    case.records = [r for r in case.records if r.stage != "agent.gateway" or r.labels["attempt"] != "3"]
    assert case.found()["agent.gateway.once"].outcome is Outcome.INCONCLUSIVE
    assert case.found()["agent.gateway.intact"].values["reason"] == "too_few_attempts"


def test_no_attempts_that_are_gone_make_a_rate_a_lane_or_the_gateway_better() -> None:
    def late(attempt: Attempt) -> Message:
        return {"content": "no"} if attempt.number % 5 == 4 else right(attempt.sample)

    case = Case().send("one_tool", 80, late)
    case.records = [r for r in case.records if int(r.labels["attempt"]) % 5 != 4]
    found = case.found()["agent.one_tool.rate"]
    assert (found.outcome, found.values["reason"]) == (Outcome.INCONCLUSIVE, "attempts_missing")

    def stream_leaks(attempt: Attempt) -> Message:
        message = right(attempt.sample)
        return message | {"reasoning": "So <|sep|>"} if attempt.number in (2, 12) else message

    case = Case().send_all(answer=stream_leaks)
    assert case.found()["agent.reasoning.separate"].outcome is Outcome.FAIL
    for record in case.records:
        if record.labels["attempt"] in ("2", "12"):
            case.blobs.pop(record.response_digest, None)
    found = case.found()
    assert found["agent.reasoning.separate"].values["reason"] == "bodies_not_kept"
    assert found["agent.lanes.agree"].outcome is Outcome.INCONCLUSIVE


def test_a_plan_cannot_go_below_the_profiles_attempts_a_lane() -> None:
    few = replace(plan(), agent=Agent(failure_rate=FailureRate(limit=0.5, attempts_max=3)))
    found = Case(plan=few).send_all(count=6).found()
    assert {(found[c].outcome, found[c].values["reason"]) for c in RATES} == {
        (Outcome.INCONCLUSIVE, "too_few_attempts")
    }
    assert found["agent.lanes.agree"].values["streamed"] == 15
    found = Case(plan=few).send_all(count=6, answer=double_encoded).found()
    assert found["agent.one_tool.rate"].outcome is Outcome.FAIL  # few can condemn
    enough = replace(plan(), agent=Agent(failure_rate=FailureRate(limit=0.2, attempts_max=20)))
    assert Case(plan=enough).send_all(count=40).found()["agent.one_tool.rate"].outcome is Outcome.PASS
    one_lane = Case(plan=enough).send_all(count=40)
    one_lane.records = [replace(r, labels=r.labels | {"streamed": "true"}) for r in one_lane.records]
    assert one_lane.found()["agent.one_tool.rate"].outcome is Outcome.INCONCLUSIVE


def test_an_honest_gateway_passes_and_unreadable_counters_are_open() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, via="gateway")
    ledger(case, [effect(case, n) for n in range(6)])
    assert case.found()["agent.gateway.once"].outcome is Outcome.INCONCLUSIVE
    counted(case, "direct", 10, 210)
    counted(case, "gateway", 300, 400)
    assert case.found()["agent.gateway.once"].outcome is Outcome.PASS
    case.keep(b"vllm:request_success_total 1\n", "scrape", "http://s/metrics", what="gateway", when="after")
    assert case.found()["agent.gateway.once"].outcome is Outcome.INCONCLUSIVE

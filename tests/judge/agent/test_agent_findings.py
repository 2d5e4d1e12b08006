"""What the agent gate finds: caught when it is wrong, quiet when healthy, never a pass without evidence."""

import json

import pytest
from agent_dossier import PACK, Case, Message, double_encoded, healthy_case, plan, profile, right, streamed

from signoff.collect.agent.attempts import Attempt
from signoff.core.codec import to_json
from signoff.core.sample import KINDS
from signoff.core.words import Bearing, Cause, Outcome, State
from signoff.judge.catalogue import CATALOGUE, next_step, sentence

RATES = [f"agent.{kind}.rate" for kind in KINDS]


def test_a_healthy_service_passes_everything() -> None:
    found = healthy_case().found()
    outcomes = {code: finding.outcome for code, finding in found.items()}
    assert outcomes.pop("agent.gateway.said") is Outcome.NOT_APPLICABLE
    assert outcomes.pop("agent.gateway.intact") is Outcome.NOT_APPLICABLE
    assert outcomes.pop("agent.gateway.once") is Outcome.NOT_APPLICABLE
    assert set(outcomes.values()) == {Outcome.PASS}
    assert all(finding.evidence for finding in found.values())


def test_nothing_ran_and_nothing_passes() -> None:
    case = Case(plan=plan(gateway_url="http://g"))
    case.evidence.clear()
    found = case.found()
    assert set(found) == {entry.code for entry in CATALOGUE.values() if entry.code.startswith("agent.")}
    assert {f.outcome for code, f in found.items() if code != "agent.gateway.said"} == {Outcome.NOT_RUN}
    assert all(f.required for f in found.values())


@pytest.mark.parametrize("kind", ["one_tool", "choose_tool", "second_turn"])
def test_a_rate_above_the_limit_fails_with_the_raw_arguments(kind: str) -> None:
    found = Case().send_all(answer=double_encoded).found()[f"agent.{kind}.rate"]
    assert found.outcome is Outcome.FAIL
    assert found.bearing is Bearing.CALLS
    assert found.cause is Cause.MODEL_PARSER
    assert found.values["worst"] == "double_encoded"
    assert found.values["side"] == "model or parser"
    example = found.values["example"]
    assert isinstance(example, str)
    assert example.startswith('"{')
    assert example in sentence(found)
    assert found.evidence[1].startswith("record:")


def test_a_kind_that_is_not_critical_only_limits() -> None:
    found = Case(plan=plan(critical=("one_tool",))).send_all(answer=double_encoded).found()
    assert found["agent.one_tool.rate"].bearing is Bearing.CALLS
    assert found["agent.second_turn.rate"].bearing is Bearing.MINOR


def test_a_few_failures_are_undecided_and_say_so() -> None:
    def one_in_ten(attempt: Attempt) -> Message:
        return {"content": "no"} if attempt.number % 10 == 0 else right(attempt.sample)

    found = Case().send("one_tool", 40, one_in_ten).found()["agent.one_tool.rate"]
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.values["failed"] == 4
    assert found.values["reason"] == "limit_inside_interval"


def test_no_limit_or_too_few_attempts_prove_nothing() -> None:
    found = Case(plan=plan(limit=None)).send_all().found()
    assert {found[code].outcome for code in RATES} == {Outcome.INCONCLUSIVE}
    found = Case().send_all(count=10).found()
    assert {found[code].outcome for code in RATES} == {Outcome.INCONCLUSIVE}
    found = Case().send_all(count=10, answer=double_encoded).found()
    assert found["agent.one_tool.rate"].outcome is Outcome.INCONCLUSIVE


def test_attempts_between_two_looks_are_not_counted() -> None:
    def late_failures(attempt: Attempt) -> Message:
        return right(attempt.sample) if attempt.number < 40 else {"content": "no"}

    found = Case().send("one_tool", 50, late_failures).found()["agent.one_tool.rate"]
    assert (found.values["attempts"], found.values["failed"]) == (40, 0)


def test_bodies_that_were_not_kept_help_neither_side() -> None:
    case = Case().send_all()
    first = case.records[0]
    case.blobs.pop(first.response_digest)
    lost = [r for r in case.records if r.response_digest == first.response_digest]
    found = case.found()[f"agent.{lost[0].stage.split('.')[1]}.rate"]
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.values["reason"] == "bodies_not_kept"


def test_without_the_pack_answers_cannot_be_judged() -> None:
    case = Case().send_all()
    case.evidence.clear()
    found = case.found()
    assert {found[code].outcome for code in RATES} == {Outcome.INCONCLUSIVE}


def test_broken_connections_count_and_blame_no_model() -> None:
    found = Case().send("one_tool", 40, lambda a: None).found()["agent.one_tool.rate"]
    assert found.outcome is Outcome.FAIL
    assert found.cause is Cause.NONE
    assert found.values["worst"] == "transport"


def test_what_we_cut_short_ourselves_does_not_count() -> None:
    case = Case().send_all()
    case.record("agent.one_tool", state=State.ABORTED, labels={"attempt": "99", "sample": "weather"})
    assert case.found()["agent.one_tool.rate"].outcome is Outcome.PASS


def test_a_stream_only_fault_shows_as_a_difference_of_lanes() -> None:
    def streams_fail(attempt: Attempt) -> Message:
        return double_encoded(attempt) if attempt.streamed else right(attempt.sample)

    found = Case().send_all(answer=streams_fail).found()["agent.lanes.agree"]
    assert found.outcome is Outcome.FAIL
    assert found.bearing is Bearing.MINOR
    assert found.values["whole_failed"] == 0
    assert Case().send_all(answer=double_encoded).found()["agent.lanes.agree"].outcome is Outcome.PASS


def test_one_lane_alone_cannot_be_compared() -> None:
    case = Case().send_all()
    case.records = [r for r in case.records if r.labels["streamed"] == "true"]
    assert case.found()["agent.lanes.agree"].outcome is Outcome.INCONCLUSIVE


def test_when_nothing_succeeds_the_lanes_prove_nothing() -> None:
    found = Case().send_all(answer=lambda a: None).found()
    assert found["agent.lanes.agree"].outcome is Outcome.INCONCLUSIVE
    assert found["agent.reasoning.separate"].outcome is Outcome.NOT_RUN


def test_one_leak_is_enough_and_named() -> None:
    def leaks_once(attempt: Attempt) -> Message:
        message = right(attempt.sample)
        return message | {"reasoning": "So <|sep|>"} if attempt.number == 7 else message

    found = Case().send_all(answer=leaks_once).found()["agent.reasoning.separate"]
    assert found.outcome is Outcome.FAIL
    assert found.values["places"] == "reasoning 5"
    assert found.values["marker"] == "<|sep|>"
    assert found.bearing is Bearing.MINOR


def test_an_empty_reasoning_field_is_caught_where_a_parser_is_demanded() -> None:
    def silent(attempt: Attempt) -> Message:
        return right(attempt.sample) | {"reasoning": None}

    found = Case().send_all(answer=silent).found()["agent.reasoning.separate"]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.CALLS)
    plain = Case(profile=profile(reasoning_parser=None)).send_all(answer=silent)
    assert plain.found()["agent.reasoning.separate"].outcome is Outcome.PASS
    few = Case().send("one_tool", 8, lambda a: right(a.sample))
    assert few.found()["agent.reasoning.separate"].outcome is Outcome.INCONCLUSIVE


def test_thoughts_beside_a_call_are_lost_reasoning() -> None:
    def spoken(attempt: Attempt) -> Message:
        message = right(attempt.sample)
        if attempt.number == 5 and message.get("tool_calls"):
            return message | {"reasoning": None, "content": "The user wants the weather, so I call the tool."}
        return message

    case = Case()
    case.send_all(answer=spoken)
    found = case.found()["agent.reasoning.separate"]
    thinking_on = [r for r in case.records if r.labels["attempt"] == "5" and r.labels["thinking"] == "on"]
    assert (found.outcome is Outcome.FAIL) == bool(thinking_on)
    assert thinking_on


def test_tools_that_never_reach_the_prompt_are_caught() -> None:
    case = Case()
    for what in ("with", "without"):
        case.keep(json.dumps({"count": 115, "x": what}).encode(), "tokenize", what="tools", tools=what)
    found = case.found()["agent.template.tools"]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.LAUNCH)


def test_without_tokenize_usage_counts_and_without_both_nothing_is_said() -> None:
    case = Case()
    case.started("agent.template")
    assert case.found()["agent.template.tools"].outcome is Outcome.INCONCLUSIVE
    for what, tokens in (("with", 232), ("without", 115)):
        case.record("agent.template", labels={"what": f"usage_{what}"}, prompt_tokens=tokens)
    assert case.found()["agent.template.tools"].outcome is Outcome.PASS


def test_a_launch_without_parser_is_caught_and_an_outage_is_not_taken_for_it() -> None:
    case = Case()
    error = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
    case.record("agent.template", labels={"what": "auto"}, state=State.HTTP_ERROR, status=400, error=error)
    found = case.found()["agent.launch.tools"]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.LAUNCH)
    assert "--tool-call-parser" in sentence(found)
    case = Case()
    case.record("agent.template", labels={"what": "auto"}, state=State.HTTP_ERROR, status=503, error="busy")
    assert case.found()["agent.launch.tools"].outcome is Outcome.INCONCLUSIVE


def test_a_gateway_that_encodes_again_is_blamed_and_the_model_is_not() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, double_encoded, via="gateway")
    found = case.found()
    assert found["agent.one_tool.rate"].outcome is Outcome.PASS
    intact = found["agent.gateway.intact"]
    assert (intact.outcome, intact.bearing, intact.cause) == (Outcome.FAIL, Bearing.CALLS, Cause.GATEWAY)
    assert "one_tool" in str(intact.values["worse_kinds"])
    assert intact.values["worst"] == "double_encoded"


def test_a_gateway_in_front_of_a_broken_parser_is_not_blamed() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all(answer=double_encoded)
    found = case.send_all(20, double_encoded, via="gateway").found()
    assert found["agent.gateway.intact"].outcome is Outcome.INCONCLUSIVE
    assert found["agent.gateway.intact"].values["reason"] == "direct_lane_fails_too"
    assert found["agent.one_tool.rate"].cause is Cause.MODEL_PARSER


def test_a_gateway_that_drops_reasoning_is_caught_and_one_that_renames_it_is_not() -> None:
    def dropped(attempt: Attempt) -> Message:
        return right(attempt.sample) | {"reasoning": None}

    def renamed(attempt: Attempt) -> Message:
        message = right(attempt.sample)
        return message | {"reasoning_content": message.pop("reasoning")}

    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, dropped, via="gateway")
    found = case.found()["agent.gateway.intact"]
    assert (found.outcome, found.bearing, found.cause) == (Outcome.FAIL, Bearing.CALLS, Cause.GATEWAY)
    assert found.values["lost"] == "the reasoning field"
    case = Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, renamed, via="gateway")
    assert case.found()["agent.gateway.intact"].outcome is Outcome.PASS


def test_a_gateway_that_was_not_said_stays_open() -> None:
    found = Case(plan=plan(gateway_url=None)).send_all().found()
    assert found["agent.gateway.said"].outcome is Outcome.INCONCLUSIVE
    assert found["agent.gateway.said"].required
    assert found["agent.gateway.intact"].outcome is Outcome.NOT_RUN


def test_a_gateway_without_the_direct_lane_cannot_be_compared() -> None:
    case = Case(plan=plan(gateway_url="http://g")).send_all(20, via="gateway")
    assert case.found()["agent.gateway.intact"].outcome is Outcome.INCONCLUSIVE


def test_every_sentence_is_whole() -> None:
    cases = [
        healthy_case(),
        Case().send_all(answer=double_encoded),
        Case(plan=plan(gateway_url="http://g")).send_all().send_all(20, double_encoded, via="gateway"),
        Case(plan=plan(limit=None)).send_all(),
        Case(),
    ]
    for finding in [f for case in cases for f in case.found().values()]:
        said = sentence(finding)
        assert said.strip()
        if finding.code.endswith(".rate"):
            assert "not measured" not in said, (finding.code, said)
        if finding.outcome is Outcome.FAIL:
            assert next_step(finding)


def test_judging_twice_gives_the_same_findings() -> None:
    case = Case().send_all(answer=double_encoded)
    assert to_json(list(case.found().values())) == to_json(list(case.found().values()))
    assert streamed(right(PACK.samples[0])) == streamed(right(PACK.samples[0]))

"""What a round sends: fresh heads, one change at a time, nothing met before."""

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.collect.prefix.arms import (
    Arm,
    Round,
    body_of,
    echo_body,
    held_body,
    ladder_messages,
    round_arms,
    template_of,
)
from signoff.collect.prefix.excerpt import cache_lines
from signoff.read.scrape import read_scrape


def arms_of(run_id: str = "run", number: int = 0, words: int = 300, gateway: bool = False) -> list[Arm]:
    return round_arms(Round(run_id=run_id, number=number, words=words, gateway=gateway))


def named(arms: list[Arm]) -> dict[str, Arm]:
    return {arm.name + arm.labels.get("warm_index", "") + arm.labels.get("control", ""): arm for arm in arms}


def test_each_arm_changes_one_thing() -> None:
    arms = named(arms_of(gateway=True))
    cold = arms["cold"]
    assert arms["replay"].messages == arms["gateway"].messages == arms["controlsalt"].messages == cold.messages
    assert arms["controltools"].messages == cold.messages
    assert arms["controltools"].tools
    assert arms["controlsalt"].salt
    asked = {arms[f"warm{k}"].messages[1]["content"] for k in (1, 2, 3)} | {cold.messages[1]["content"]}
    assert len(asked) == 4
    assert all(arms[f"warm{k}"].messages[0] == cold.messages[0] for k in (1, 2, 3))
    head = arms["controlhead"]
    assert head.messages[0]["content"][:16] != cold.messages[0]["content"][:16]
    assert head.messages[1] == cold.messages[1]
    assert head.labels["needle"] != cold.labels["needle"]


def test_every_prompt_holds_the_value_it_is_asked_for() -> None:
    for arm in arms_of():
        system, question = arm.messages[0]["content"], arm.messages[1]["content"]
        name = question.split("What is the value of ")[1].split("?")[0]
        assert f"Note: the value of {name} is {arm.labels['needle']}." in system
        assert " " not in name


@settings(deadline=None)
@given(st.integers(0, 50), st.sampled_from(["a", "b"]))
def test_cold_comes_first_and_the_order_is_seeded(number: int, run_id: str) -> None:
    arms = arms_of(run_id, number, words=20)
    assert arms[0].name == "cold"
    assert [a.labels["warm_index"] for a in arms if a.name == "warm"] == ["1", "2", "3"]
    assert arms == arms_of(run_id, number, words=20)


def test_orders_differ_over_rounds() -> None:
    assert len({tuple(named(arms_of(number=n, words=20))) for n in range(8)}) > 4


def test_no_two_runs_or_rounds_begin_alike() -> None:
    heads = [arms_of(run, n, words=10)[0].messages[0]["content"][:16] for run in ("a", "b") for n in range(5)]
    ladder = [ladder_messages(run, 5, n)[0]["content"][:16] for run in ("a", "b") for n in range(5)]
    assert len({*heads, *ladder}) == 20


def test_bodies_are_greedy_and_small() -> None:
    arm = named(arms_of())["controlsalt"]
    body = msgspec.json.decode(body_of(arm, "m", 16, {}))
    assert (body["temperature"], body["max_tokens"], body["stream"]) == (0, 16, True)
    assert body["stream_options"] == {"include_usage": True}
    assert body["cache_salt"] == arm.salt
    assert msgspec.json.decode(body_of(named(arms_of())["controltools"], "m", 16, {}))["tool_choice"] == "none"
    assert msgspec.json.decode(echo_body(arm, "m", {}))["return_token_ids"] is True
    assert msgspec.json.decode(held_body(arm, "m", {}))["ignore_eos"] is True


def test_thinking_is_off_where_the_model_can_do_without() -> None:
    arm, off = arms_of()[0], template_of(("low", "none"))
    for body in (body_of(arm, "m", 16, off), echo_body(arm, "m", off), held_body(arm, "m", off)):
        assert msgspec.json.decode(body)["chat_template_kwargs"] == {"thinking": False}
    assert "chat_template_kwargs" not in msgspec.json.decode(body_of(arm, "m", 16, template_of(("low", "high"))))


def test_an_excerpt_keeps_what_it_keeps_unchanged() -> None:
    body = b"""# HELP vllm:prefix_cache_hits_total hits
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0"} 7.0
vllm:prompt_tokens_created{engine="0"} 1.7e9
vllm:e2e_request_latency_seconds_bucket{le="1"} 3.0
python_info{version="3.12"} 1.0
process_start_time_seconds 1.7e+09
"""
    kept, whole = read_scrape(cache_lines(body)), read_scrape(body)
    assert set(kept.series) == {'vllm:prefix_cache_hits_total{engine="0"}', "process_start_time_seconds"}
    assert all(whole.series[key] == value for key, value in kept.series.items())
    assert kept.created == whole.created

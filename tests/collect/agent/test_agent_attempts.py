"""Attempts are seeded, balanced over lanes, and their requests carry what the lane says."""

from collections import Counter
from typing import Any

import msgspec
import pytest

from signoff.collect.agent.attempts import Options, attempts, request_of
from signoff.collect.agent.effects import EffectLoop
from signoff.core.record import Exchange, Record
from signoff.core.sample import KINDS
from signoff.core.words import Gate, State
from signoff.run.packs import load_packs

PACK = load_packs(())
OPTIONS = Options(model="m", run_id="r", seed=1, thinking=True)


def body(raw: bytes) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(raw)
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_both_lanes_send_the_same_turns(kind: str) -> None:
    made = attempts(PACK, kind, range(40), OPTIONS)  # type: ignore[arg-type]
    lanes = [[(a.sample.id, a.thinking, a.choice) for a in made if a.streamed is lane] for lane in (True, False)]
    assert lanes[0] == lanes[1]
    counts = Counter(a.sample.id for a in made)
    assert max(counts.values()) - min(counts.values()) <= 2
    assert {a.thinking for a in made} == {"on", "off"}
    assert made == attempts(PACK, kind, range(40), OPTIONS)  # type: ignore[arg-type]


def test_the_same_number_is_the_same_attempt_however_it_is_reached() -> None:
    assert attempts(PACK, "one_tool", range(40), OPTIONS)[30:] == attempts(PACK, "one_tool", range(30, 40), OPTIONS)


def test_a_smaller_share_demands_a_call_and_never_where_none_is_right() -> None:
    made = attempts(PACK, "choose_tool", range(80), OPTIONS)
    demanded = [a for a in made if a.choice == "required"]
    assert 0 < len(demanded) < len(made) / 3
    assert all(a.sample.calls for a in demanded)
    refused = attempts(PACK, "choose_tool", range(80), msgspec.structs.replace(OPTIONS, auto=False))
    assert {a.choice for a in refused} == {"required", "none"}


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_no_sample_is_tied_to_one_option(kind: str, full: bool) -> None:
    options = msgspec.structs.replace(OPTIONS, full=full)
    samples = PACK.of_kind(kind)
    made = attempts(PACK, kind, range(2 * 8 * len(samples)), options)  # type: ignore[arg-type]
    cells = {(a.sample.id, a.streamed, a.thinking, a.choice) for a in made}
    assert len(cells) == sum(2 * 2 * (2 if s.calls else 1) for s in samples)


def test_bodies() -> None:
    for kind in KINDS:
        for attempt in attempts(PACK, kind, range(20), OPTIONS):
            request = request_of(attempt, PACK, OPTIONS)
            sent = body(request.body)
            assert sent.get("stream", False) is attempt.streamed is request.stream
            assert ("stream_options" in sent) is attempt.streamed
            assert ("tools" in sent) is bool(attempt.sample.tools) is ("tool_choice" in sent)
            assert ("response_format" in sent) is (kind == "structured")
            assert sent.get("reasoning_effort") == ("none" if attempt.thinking == "off" else None)
            assert request.keep
            assert request.labels["sample"] == attempt.sample.id
    plain = msgspec.structs.replace(OPTIONS, thinking=False, tokens=99)
    assert body(request_of(attempts(PACK, "one_tool", [2], plain)[0], PACK, plain).body)["max_tokens"] == 99
    assert "reasoning_effort" not in body(request_of(attempts(PACK, "one_tool", [2], plain)[0], PACK, plain).body)


def test_no_two_requests_share_their_end_and_ids() -> None:
    made = [request_of(a, PACK, OPTIONS) for kind in KINDS for a in attempts(PACK, kind, range(40), OPTIONS)]
    assert len({r.id for r in made}) == len(made)
    ends = {[m for m in body(r.body)["messages"] if m["role"] == "user"][-1]["content"][-13:] for r in made}
    assert len(ends) == len(made)


def exchange(loop_request: Any, message: dict[str, Any]) -> Exchange:
    raw = msgspec.json.encode({"choices": [{"message": message, "finish_reason": "stop"}]})
    record = Record(
        id=loop_request.id,
        gate=Gate.AGENT,
        stage=loop_request.stage,
        labels=loop_request.labels,
        stream=False,
        state=State.OK,
        planned_ns=1,
        sent_ns=1,
        end_ns=2,
    )
    return Exchange(record=record, request=loop_request.body, response=raw)


def test_the_ledger_holds_every_call_that_came_and_results_are_handed_back() -> None:
    loop = EffectLoop(OPTIONS, "direct")
    first = loop.first_turns()[3]
    call = {"id": "c1", "function": {"name": "send_message", "arguments": "{}"}}
    answered = exchange(first, {"content": None, "reasoning": "Hm.", "tool_calls": [call, call]})
    loop.take(answered)
    assert [(e.intent, e.turn, e.call_id) for e in loop.ledger().effects] == [(3, 1, "c1")] * 2
    (second,) = loop.second_turns([answered])
    messages = body(second.body)["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "tool"]
    assert messages[2]["reasoning"] == "Hm."
    assert messages[1] == body(first.body)["messages"][1]
    assert loop.second_turns([exchange(first, {"content": "no"})]) == []

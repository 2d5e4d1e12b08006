"""Nothing that a bundle may hold makes the agent gate's judge raise, and no loss makes its verdict better."""

import json

from agent_dossier import Case, counted, double_encoded, effect, ledger, plan, right, whole
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signoff.core.codec import to_json
from signoff.core.dossier import Dossier
from signoff.core.words import Outcome, State
from signoff.judge.agent import findings
from signoff.judge.catalogue import sentence
from signoff.judge.decide import decide

RANK = {"go": 2, "limited": 1}


def run_of(wrong: str = "") -> Dossier:
    """A run through a gateway, every witness there; `wrong` names what is wrong in it."""
    case = Case(plan=plan(gateway_url="http://g"))
    for what in ("with", "without"):
        case.keep(json.dumps({"count": 232 if what == "with" else 115}).encode(), "tokenize", what="tools", tools=what)
    case.record("agent.template", labels={"what": "auto"}, status=200, raw=whole({"content": "x"}))
    effects = [effect(case, n) for n in range(6)]
    if wrong == "twice":
        effects.append(effect(case, 2, effects[2].arguments, turn=2))
    ledger(case, effects)
    case.send_all(answer=double_encoded if wrong == "broken" else lambda a: right(a.sample))
    case.send_all(20, double_encoded if wrong == "gateway" else lambda a: right(a.sample), via="gateway")
    counted(case, "direct", 10, 210)
    counted(case, "gateway", 300, 500 if wrong == "resends" else 400)
    return case.dossier()


RUNS = {name: run_of(name) for name in ("", "twice", "broken", "gateway", "resends")}


def rank(dossier: Dossier) -> int:
    return RANK.get(str(decide(findings(dossier)).verdict), 0)


def test_the_healthy_run_goes_and_the_wrong_ones_do_not() -> None:
    assert {name: rank(dossier) for name, dossier in RUNS.items()} == {
        "": 2,
        "twice": 0,
        "broken": 0,
        "gateway": 0,
        "resends": 0,
    }


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(RUNS)),
    st.sets(st.integers(0, 330), max_size=60),
    st.sets(st.integers(0, 7), max_size=4),
    st.sets(st.integers(0, 330), max_size=60),
)
def test_no_loss_makes_the_verdict_better(name: str, records: set[int], cards: set[int], bodies: set[int]) -> None:
    made = RUNS[name]
    gone = {r.response_digest for k, r in enumerate(made.records) if k in bodies}

    def blob(digest: str) -> bytes:
        if digest in gone:
            raise KeyError(digest)
        return made.blob(digest)

    left = replace(
        made,
        records=[r for k, r in enumerate(made.records) if k not in records],
        evidence=[e for k, e in enumerate(made.evidence) if k not in cards],
        blob=blob,
    )
    assert rank(left) <= rank(made)


def test_every_single_card_that_is_gone_leaves_the_healthy_run_open() -> None:
    made = RUNS[""]
    for card in made.evidence:
        left = replace(made, evidence=[e for e in made.evidence if e is not card])
        assert rank(left) == 0, card
        torn = replace(made, blob=lambda d, gone=card.digest: b"{" if d == gone else made.blob(d))  # type: ignore[misc]
        assert rank(torn) == 0, card


def test_every_record_of_the_effects_that_is_gone_leaves_the_healthy_run_open() -> None:
    made = RUNS[""]
    for record in [r for r in made.records if r.stage == "agent.effects"]:
        found = {f.code: f for f in findings(replace(made, records=[r for r in made.records if r is not record]))}
        assert found["agent.effects.once"].outcome is Outcome.INCONCLUSIVE
        assert found["agent.effects.once"].required


HOSTILE = (
    b"",
    b"[]",
    b"null",
    b"[" * 100_000,
    b'{"intents":99999999999999999999999,"answered":0,"effects":[]}',
    b'{"intents":-1,"answered":0,"effects":[]}',
    b'{"intents":6,"answered":6,"effects":[{"intent":-5,"turn":1,"record":"x","call_id":"","tool":"","arguments":"9e999"}]}',
    b'vllm:request_success_total{engine="0"} NaN\n',
    b'vllm:request_success_total{engine="0"} +Inf\n',
    b'vllm:request_success_total{engine="0"} 1e308\nvllm:request_success_total{engine="1"} 1e308\n',
    b'{"count":1e400}',
    b'{"count":99999999999999999999999999}',
    b'{"schema":"signoff/pack/1","name":"p","version":1,"about":"","tools":[],"samples":[]}',
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":99999999999999999999,"function":{"name":"x"}}]}}]}\n\n',
    b'{"choices":[{"message":{"tool_calls":[{"id":"a","function":{"name":"send_message","arguments":"{\\"a\\":1e999}"}}]}}]}',
    b'{"choices":[{"message":{"content":"\\ud800"},"finish_reason":"stop"}]}',
    b"\xff\xfe data: \xed\xa0\x80",
)
LABELS = st.sampled_from(["²", "9" * 5000, "", "-1", "0", "true", "\U0001d7d9", "weather", "nan"])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(st.integers(0, 400), st.sampled_from(HOSTILE) | st.binary(max_size=40), max_size=8),
    st.lists(
        st.tuples(
            st.integers(0, 300),
            st.sampled_from(["attempt", "intent", "turn", "sample", "streamed", "kind", "thinking", "what"]),
            LABELS,
            st.sampled_from(list(State)),
        ),
        max_size=6,
    ),
)
@example({0: HOSTILE[12]}, [])
@example({5: HOSTILE[7], 6: HOSTILE[8]}, [(0, "intent", "²", State.OK), (20, "attempt", "9" * 5000, State.OK)])
def test_no_mutation_of_a_healthy_run_is_an_error(
    bodies: dict[int, bytes], labels: list[tuple[int, str, str, State]]
) -> None:
    made = RUNS[""]
    digests = [e.digest for e in made.evidence] + [r.response_digest for r in made.records]
    swapped = {digests[k % len(digests)]: raw for k, raw in bodies.items()}
    records = list(made.records)
    for k, label, value, state in labels:
        records[k] = replace(records[k], labels=records[k].labels | {label: value}, state=state)
    found = findings(replace(made, records=records, blob=lambda d: swapped[d] if d in swapped else made.blob(d)))
    assert to_json(found)
    assert [sentence(f) for f in found]

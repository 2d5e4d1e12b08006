"""Evidence of the prefix gate that is gone, torn or hostile: never a better verdict, and never an error."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prefix_world import World

from signoff.core.codec import to_json
from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.words import Outcome, State
from signoff.judge.catalogue import sentence
from signoff.judge.decide import decide
from signoff.judge.prefix import findings

PASS, FAIL, UNSURE = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
RANK = {"go": 2, "limited": 1}
NUMBERS = ("NaN", "+Inf", "-Inf", "1e308", "-1e308", "-5", "1e400", "9007199254740993", "0", "garbage", "")
SERIES = (
    b"vllm:prefix_cache_hits_total",
    b"vllm:prefix_cache_queries_total",
    b"vllm:prompt_tokens_cached_total",
    b"vllm:prompt_tokens_by_source_total",
    b"vllm:external_prefix_cache_hits_total",
    b"vllm:prompt_tokens_total",
    b"vllm:request_success_total",
    b"vllm:request_prefill_time_seconds_sum",
    b"vllm:request_queue_time_seconds_sum",
    b"vllm:num_requests_running",
    b"vllm:num_requests_waiting",
)


def lawful(arm: str, number: int) -> int:
    return 64 if arm in ("replay", "gateway") or arm.startswith("warm") else 0


def gateway_world() -> World:
    world = World()
    world.plan = replace(world.plan, service=replace(world.plan.service, gateway_url="http://127.0.0.1:8"))
    world.more_arms = ("gateway",)
    return world


def false_hit(world: World) -> None:
    world.hits = lambda arm, number: 80 if (arm, number) == ("warm_2", 4) else lawful(arm, number)


def inert(world: World) -> None:
    world.hits = lambda arm, number: 0


def one_short(world: World) -> None:
    world.hits = lambda arm, number: 16 if (arm, number) == ("warm_2", 3) else lawful(arm, number)


def wrong_answer(world: World) -> None:
    honest = world.said
    world.said = lambda arm, number: honest("cold", 1) if (arm, number) == ("replay", 2) else honest(arm, number)


def gateway_loses(world: World) -> None:
    world.hits = lambda arm, number: 0 if arm == "gateway" else lawful(arm, number)


def cannot_recall(world: World) -> None:
    world.said = lambda arm, number: "?"


def foreign(world: World) -> None:
    world.foreign = lambda arm, number: 500 if (arm, number) == ("warm_1", 2) else 0


def healthy(world: World) -> None:
    pass


WRONGS = (healthy, false_hit, inert, one_short, wrong_answer, gateway_loses, cannot_recall, foreign)


def whole_of(wrong: Callable[[World], None]) -> Dossier:
    world = gateway_world()
    wrong(world)
    return world.dossier()


WHOLE = {wrong.__name__: whole_of(wrong) for wrong in WRONGS}


def rank(dossier: Dossier) -> int:
    return RANK.get(str(decide(findings(dossier)).verdict), 0)


def by_code(dossier: Dossier) -> dict[tuple[str, str], Finding]:
    return {(f.code, f.subject): f for f in findings(dossier)}


def test_the_healthy_world_goes_and_the_wrong_ones_do_not() -> None:
    assert {name: rank(dossier) for name, dossier in WHOLE.items()} == {
        "healthy": 2,
        "false_hit": 0,
        "inert": 1,
        "one_short": 1,
        "wrong_answer": 0,
        "gateway_loses": 1,
        "cannot_recall": 0,
        "foreign": 0,
    }


@pytest.mark.parametrize("name", ["false_hit", "one_short", "wrong_answer", "gateway_loses", "foreign"])
def test_no_single_loss_makes_the_verdict_better(name: str) -> None:
    whole = WHOLE[name]
    before = rank(whole)
    losses: list[tuple[int | None, int | None]] = [(i, None) for i in range(9, 36)]  # rounds 2 to 4, where it is wrong
    losses += [(None, i) for i in range(28, 109, 4)]
    for record, card in losses:
        left = replace(
            whole,
            records=[r for k, r in enumerate(whole.records) if k != record],
            evidence=[e for k, e in enumerate(whole.evidence) if k != card],
        )
        assert rank(left) <= before, (record, card)
    for event in range(len(whole.events)):
        assert rank(replace(whole, events=[e for k, e in enumerate(whole.events) if k != event])) <= before


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(sorted(WHOLE)),
    st.sets(st.integers(0, 45), max_size=30),
    st.sets(st.integers(0, 135), max_size=40),
    st.sets(st.integers(0, 45), max_size=20),
)
def test_no_loss_makes_the_verdict_better(name: str, records: set[int], cards: set[int], bodies: set[int]) -> None:
    whole = WHOLE[name]
    gone = {r.response_digest for k, r in enumerate(whole.records) if k in bodies}

    def blob(digest: str) -> bytes:
        if digest in gone:
            raise KeyError(digest)
        return whole.blob(digest)

    left = replace(
        whole,
        records=[r for k, r in enumerate(whole.records) if k not in records],
        evidence=[e for k, e in enumerate(whole.evidence) if k not in cards],
        blob=blob,
    )
    assert rank(left) <= rank(whole)


def test_a_lost_record_makes_its_round_count_for_nothing() -> None:
    whole = WHOLE["healthy"]
    for lost in ("3-warm_2", "3-control_head", "3-replay", "3-cold", "3-control_tools", "3-gateway"):
        found = by_code(replace(whole, records=[r for r in whole.records if r.id != lost]))
        for code in ("prefix.hits.expected", "prefix.control.zero", "prefix.quiet", "prefix.output.same"):
            assert (found[code, ""].outcome, found[code, ""].required) == (UNSURE, True), (lost, code)
            assert sentence(found[code, ""])
        assert FAIL not in {f.outcome for f in found.values()}, lost


def test_a_record_that_came_twice_is_no_round_either() -> None:
    whole = WHOLE["healthy"]
    again = next(r for r in whole.records if r.id == "3-warm_2")
    found = by_code(replace(whole, records=[*whole.records, replace(again, id="again")]))
    assert found["prefix.output.same", ""].values["reason"] == "too_few_rounds"


def test_one_answer_that_is_gone_leaves_the_answers_open() -> None:
    world = World()
    for pick in ("2-replay", "2-cold", "4-warm_3"):
        dossier = world.dossier()
        lost = next(r for r in dossier.records if r.id == pick)
        left = [replace(r, response_digest="") if r is lost else r for r in dossier.records]
        found = by_code(replace(dossier, records=left))["prefix.output.same", ""]
        assert (found.outcome, found.required, found.values["reason"]) == (UNSURE, True, "answers_not_kept")
        left = [replace(r, labels=r.labels | {"needle": ""}) if r is lost else r for r in dossier.records]
        assert by_code(replace(dossier, records=left))["prefix.output.same", ""].outcome is UNSURE


@pytest.mark.parametrize("wrong", [false_hit, inert])
def test_the_answers_of_one_round_only_are_too_few(wrong: Callable[[World], None]) -> None:
    world = World()
    world.rounds = 1
    assert by_code(world.dossier())["prefix.output.same", ""].values["reason"] == "too_few_rounds"
    world.profile = replace(world.profile, floors=replace(world.profile.floors, prefix_rounds=1))
    assert by_code(world.dossier())["prefix.output.same", ""].outcome is PASS


def test_gateway_hits_that_nobody_saw_directly_are_open() -> None:
    world = gateway_world()
    gateway_loses(world)
    world.state = lambda arm, number: State.TIMEOUT if arm == "replay" else State.OK
    found = by_code(world.dossier())["prefix.gateway.hits", ""]
    assert (found.outcome, found.required, found.values["reason"]) == (UNSURE, True, "direct_hits_unknown")


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SERIES), st.sampled_from(NUMBERS), st.sets(st.integers(0, 17), min_size=1))
@example(b"vllm:prefix_cache_hits_total", "NaN", {5})
@example(b"vllm:prompt_tokens_cached_total", "+Inf", {5})
@example(b"vllm:external_prefix_cache_hits_total", "-Inf", {5})
@example(b"vllm:prefix_cache_hits_total", "1e400", set(range(18)))
def test_no_number_of_a_server_is_an_error_or_makes_it_better(name: bytes, number: str, chosen: set[int]) -> None:
    whole = WHOLE["one_short"]
    cards = [e for e in whole.evidence if e.kind == "scrape" and str(e.conditions.get("record", "")).startswith("3-")]
    garbled = {cards[k].digest for k in chosen}

    def blob(digest: str) -> bytes:
        raw = whole.blob(digest)
        return _with(raw, name, number.encode()) if digest in garbled else raw

    left = replace(whole, blob=blob)
    found = findings(left)
    assert to_json(found)
    assert [sentence(f) for f in found]
    assert rank(left) <= 1


def _with(raw: bytes, name: bytes, number: bytes) -> bytes:
    return b"\n".join(
        line.rpartition(b" ")[0] + b" " + number if line.startswith(name + b"{") else line for line in raw.split(b"\n")
    )


def test_a_count_that_is_no_count_is_named() -> None:
    whole = WHOLE["healthy"]
    digest = next(e.digest for e in whole.evidence if e.conditions.get("record") == "2-replay" and e.kind == "scrape")
    left = replace(
        whole,
        blob=lambda d: _with(whole.blob(d), b"vllm:prefix_cache_hits_total", b"NaN") if d == digest else whole.blob(d),
    )
    found = by_code(left)
    assert found["prefix.quiet", ""].outcome is UNSURE
    assert found["prefix.quiet", ""].values["garbled"]


@pytest.mark.parametrize("id_", [2**63, -(2**63) - 1, 10**400, -1, 2**63 - 1])
def test_token_ids_that_no_vocabulary_has(id_: int) -> None:
    world = World()
    honest = world.ids
    world.ids = lambda arm, number: [*(honest(arm, number) or []), id_] if arm == "cold" else honest(arm, number)
    found = findings(world.dossier())
    assert to_json(found)


LABELS = st.sampled_from(["²", "9" * 5000, "", "-1", "1", "2", "\U0001d7d9", "cold", "warm", "nan", "\ud800x"[1:]])
BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"[]",
            b"null",
            b'{"tail":[9223372036854775808],"base":"","shared":0}',
            b'{"tail":[1],"base":"1-cold","shared":-5}',
            b'{"tail":[],"base":"","shared":0}',
            b'{"prompt_token_ids":[1e999]}',
            b"[" * 100_000,
            b'vllm:cache_config_info{enable_prefix_caching="True",cache_hit_alignment_tokens="999999999999"} 1\n',
            b"vllm:prefix_cache_hits_total NaN\nprocess_start_time_seconds NaN\n",
            b'data: {"choices":[{"delta":{"content":"\xed\xa0\x80"}}]}\n\n',
        ]
    ),
)


@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.integers(0, 200), BODIES, max_size=8), st.data())
def test_no_mutation_of_a_healthy_run_is_an_error(bodies: dict[int, bytes], data: st.DataObject) -> None:
    whole = WHOLE["healthy"]
    digests = [e.digest for e in whole.evidence] + [r.response_digest for r in whole.records]
    swapped = {digests[k % len(digests)]: raw for k, raw in bodies.items()}
    records = list(whole.records)
    for _ in range(data.draw(st.integers(0, 4))):
        k = data.draw(st.integers(0, len(records) - 1))
        label = data.draw(st.sampled_from(["arm", "round", "needle", "control", "warm_index", "rank"]))
        records[k] = replace(
            records[k],
            labels=records[k].labels | {label: data.draw(LABELS)},
            cached_tokens=data.draw(st.sampled_from([None, 0, 64, 10**400, -3])),
            prompt_tokens=data.draw(st.sampled_from([None, 0, 72, 10**400])),
        )
    left = replace(whole, records=records, blob=lambda d: swapped[d] if d in swapped else whole.blob(d))
    found = findings(left)
    assert to_json(found)
    assert [sentence(f) for f in found]

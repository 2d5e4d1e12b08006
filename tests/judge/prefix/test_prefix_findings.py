"""Every check of the prefix gate: it catches the lie, stays quiet in a lawful world, and never passes without data."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from prefix_world import World

from signoff.core.finding import Finding
from signoff.core.plan import Load
from signoff.core.words import Bearing, Cause, Gate, Outcome, Severity, State
from signoff.judge.catalogue.entry import sentence
from signoff.judge.catalogue.prefix import ENTRIES
from signoff.judge.prefix import findings


@pytest.fixture
def world() -> World:
    return World()


CODES = {entry.code for entry in ENTRIES}
PASS, FAIL, UNSURE = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


def lawful(arm: str, number: int) -> int:
    """What a cache serves: 4 units to whatever shares the cold prompt, and nothing to the rest."""
    return 64 if arm in ("replay", "gateway") or arm.startswith("warm") else 0


def judged(world: World) -> dict[tuple[str, str], Finding]:
    return {(f.code, f.subject): f for f in findings(world.dossier())}


def one(world: World, code: str, subject: str = "") -> Finding:
    return judged(world)[code, subject]


def test_a_lawful_world_passes_everything(world: World) -> None:
    found = judged(world)
    assert {code for (code, _), f in found.items() if f.outcome is not PASS} == {"prefix.gateway.hits"}
    assert found["prefix.gateway.hits", ""].outcome is Outcome.NOT_APPLICABLE
    assert {code for code, _ in found} == CODES
    hits = found["prefix.hits.expected", ""]
    assert (hits.values["rounds"], hits.values["expected_tokens"], hits.values["hit_tokens"]) == (5, 1280, 1280)
    assert hits.values["share"] == 1.0
    assert found["prefix.arm.measured", "warm_3"].values["expected_tokens"] == 320


def test_every_sentence_can_be_said(world: World) -> None:
    said = {entry.code: entry for entry in ENTRIES}
    for finding in findings(world.dossier()):
        assert sentence(said[finding.code], finding)


def test_every_code_stands_once_when_nothing_ran(world: World) -> None:
    found = findings(world.dossier(started=False))
    assert {f.outcome for f in found} == {Outcome.NOT_RUN}
    assert {f.code for f in found} == {e.code for e in ENTRIES if e.always}
    world.plan = replace(world.plan, gates=(Gate.AGENT,))
    assert {f.outcome for f in findings(world.dossier())} == {Outcome.NOT_APPLICABLE}


def test_no_records_never_pass(world: World) -> None:
    world.rounds, world.stopped = 0, "not_idle"
    found = judged(world)
    assert PASS not in {f.outcome for (code, _), f in found.items() if code != "prefix.unit.known"}
    assert found["prefix.quiet", ""].values["reason"] == "not_idle"


# caching on ----------------------------------------------------------------------------------------------------------


def off(world: World) -> None:
    world.hits = lambda arm, number: 0
    world.looked_up = False


def test_caching_off_by_the_launch(world: World) -> None:
    off(world)
    world.config["enable_prefix_caching"] = "False"
    found = judged(world)
    assert found["prefix.caching.on", ""].outcome is FAIL
    assert found["prefix.caching.on", ""].bearing is Bearing.LAUNCH
    assert found["prefix.caching.on", ""].values["reason"] == "off_in_launch"
    assert found["prefix.hits.expected", ""].values["reason"] == "off_in_launch"


def test_caching_resolved_as_on_and_never_looked_up_is_silently_disabled(world: World) -> None:
    off(world)
    assert one(world, "prefix.caching.on").values["reason"] == "silently_disabled"
    assert one(world, "prefix.caching.on").outcome is FAIL


def test_caching_off_is_not_applicable_where_nobody_counts_on_it(world: World) -> None:
    off(world)
    world.profile = replace(world.profile, cache=replace(world.profile.cache, caching_required=False))
    assert {f.outcome for f in findings(world.dossier())} == {Outcome.NOT_APPLICABLE}
    world.plan = replace(world.plan, load=Load(reuse_share=0.5))
    assert one(world, "prefix.caching.on").outcome is FAIL


def test_caching_cannot_be_told_without_scrapes_and_counts(world: World) -> None:
    world.scraped = False
    world.cached = lambda arm, number: None
    found = judged(world)
    assert found["prefix.caching.on", ""].outcome is UNSURE
    assert found["prefix.hits.expected", ""].outcome is UNSURE
    assert found["prefix.control.zero", ""].outcome is UNSURE
    assert found["prefix.channels.agree", ""].outcome is UNSURE
    assert found["prefix.quiet", ""].values["reason"] == "not_scraped"


LOG = (
    b"(APIServer pid=1) INFO 12-01 03:00:00 [utils.py:233] non-default args: {'model': 'm'%s}\n"
    b"(EngineCore pid=2) INFO 12-01 03:00:05 [core.py:90] Initializing a V1 LLM engine (v0.32.0) with config: "
    b"model='m', max_seq_len=2048, tensor_parallel_size=1, enable_prefix_caching=%s, use_async=True\n"
)


@pytest.mark.parametrize(
    ("argument", "resolved", "severity", "reason"),
    [
        (b", 'enable_prefix_caching': True", b"True", Severity.FAIL, ""),
        (b"", b"True", Severity.WARN, ""),
        (b", 'enable_prefix_caching': False", b"False", Severity.FAIL, "off_in_launch"),
        (b", 'enable_prefix_caching': True", b"False", Severity.FAIL, "silently_disabled"),
        (b"", b"False", Severity.FAIL, "off_in_launch"),
    ],
)
def test_the_launch_log_is_a_source(
    world: World, argument: bytes, resolved: bytes, severity: Severity, reason: str
) -> None:
    world.launch_log = LOG % (argument, resolved)
    world.config = None
    world.profile = replace(world.profile, cache=replace(world.profile.cache, units=(16,), retention="dense"))
    if reason:
        off(world)
    found = one(world, "prefix.caching.on")
    assert found.outcome is (FAIL if reason else PASS)
    assert (found.severity, found.values["reason"]) == (severity, reason)


# unit ----------------------------------------------------------------------------------------------------------------


def test_an_unknown_unit_decides_nothing(world: World) -> None:
    world.config = None
    found = judged(world)
    assert found["prefix.unit.known", ""].outcome is UNSURE
    assert found["prefix.hits.expected", ""].values["reason"] == "unit_unknown"
    assert found["prefix.control.zero", ""].outcome is UNSURE


def test_a_unit_finer_than_believed_is_no_false_hit(world: World) -> None:
    world.config["cache_hit_alignment_tokens"] = "48"
    found = judged(world)
    assert found["prefix.hits.expected", ""].outcome is UNSURE
    assert found["prefix.hits.expected", ""].values["reason"] == "finer_unit"
    assert found["prefix.control.zero", ""].outcome is PASS


# hits ----------------------------------------------------------------------------------------------------------------


def only(**hits: int) -> Callable[[str, int], int]:
    """The lawful hits, but for these arms."""
    return lambda arm, number: hits.get(arm, lawful(arm, number))


@pytest.mark.parametrize(
    ("hits", "reason"),
    [
        (lambda arm, number: 0, "never_hits"),
        (only(warm_1=0, warm_2=0, warm_3=0), "retention"),
        (only(warm_1=48, warm_2=48, warm_3=48, replay=48), "boundary"),
        (lambda arm, number: 0 if number > 2 else lawful(arm, number), "evicted"),
        (only(warm_2=16, replay=32), "evicted"),
    ],
)
def test_a_shortfall_fails_with_its_reason(world: World, hits: Callable[[str, int], int], reason: str) -> None:
    world.hits = hits
    found = judged(world)
    assert found["prefix.hits.expected", ""].outcome is FAIL
    assert found["prefix.hits.expected", ""].bearing is Bearing.HITS
    assert found["prefix.hits.expected", ""].values["reason"] == reason
    assert not found["prefix.latency.effect", ""].required
    assert found["prefix.caching.on", ""].outcome is PASS


def test_the_rivals_of_never_hits_are_named(world: World) -> None:
    world.hits = lambda arm, number: 0
    assert one(world, "prefix.hits.expected").values["rivals"] == "silently_disabled, head_changed, evicted"
    world.held = 0
    assert one(world, "prefix.hits.expected").values["rivals"] == "silently_disabled, head_changed"
    world.held = 64
    assert one(world, "prefix.hits.expected").values["reason"] == "evicted"


def test_requests_scattered_over_engines_are_named(world: World) -> None:
    world.hits = lambda arm, number: 0
    world.engine = lambda arm, number: "0" if arm == "cold" else "1"
    assert one(world, "prefix.hits.expected").values["reason"] == "scattered"


def test_a_unit_the_profile_does_not_know_is_a_warning(world: World) -> None:
    assert one(world, "prefix.unit.known").severity is Severity.WARN
    world.profile = replace(world.profile, cache=replace(world.profile.cache, units=(16, 32)))
    assert one(world, "prefix.unit.known").severity is Severity.FAIL


def test_a_head_that_the_server_changed_is_named(world: World) -> None:
    world.hits = lambda arm, number: 0
    world.told_tokens = lambda arm, number: len(world.ids(arm, number)) + 6
    assert one(world, "prefix.hits.expected").values["reason"] == "head_changed"


def test_a_head_that_the_echo_shows_changed_is_named(world: World) -> None:
    world.hits = lambda arm, number: 0
    world.echo = [9, *world.ids("cold", 5)[1:]]
    assert one(world, "prefix.hits.expected").values["reason"] == "head_changed"
    assert one(world, "prefix.hits.expected").values["echo"] == "differs"


def test_prompts_that_the_template_makes_different_share_nothing(world: World) -> None:
    honest, world.hits = world.ids, lambda arm, number: 0
    world.ids = lambda arm, number: [100 + ord(arm[-1]), *honest(arm, number)]
    found = one(world, "prefix.hits.expected")
    assert (found.outcome, found.values["reason"]) == (FAIL, "head_changed")


def test_prompts_below_one_unit_never_hit(world: World) -> None:
    world.config["cache_hit_alignment_tokens"] = "1536"
    world.hits = lambda arm, number: 0
    found = one(world, "prefix.hits.expected")
    assert (found.outcome, found.values["reason"]) == (FAIL, "below_unit")


def test_sparse_retention_may_miss_first_and_must_hit_then(world: World) -> None:
    world.config |= {"mamba_cache_mode": "align", "prefix_cache_retention_interval": "0"}
    world.hits = only(warm_1=0)
    assert one(world, "prefix.hits.expected").outcome is PASS
    world.hits = only(warm_3=0)
    found = one(world, "prefix.hits.expected")
    assert (found.outcome, found.values["reason"], found.values["short"]) == (FAIL, "retention", 5)


@pytest.mark.parametrize("rounds", [1, 4])
def test_too_few_rounds_prove_nothing(world: World, rounds: int) -> None:
    world.rounds = rounds
    found = judged(world)
    assert found["prefix.hits.expected", ""].values["reason"] == "too_few_rounds"
    assert found["prefix.control.zero", ""].values["reason"] == "too_few_rounds"
    assert UNSURE is found["prefix.hits.expected", ""].outcome is found["prefix.control.zero", ""].outcome


def test_one_witness_is_not_enough(world: World) -> None:
    world.counted = world.by_source = lambda arm, number: None
    found = judged(world)
    assert (found["prefix.hits.expected", ""].outcome, found["prefix.hits.expected", ""].values["reason"]) == (
        UNSURE,
        "one_channel",
    )
    assert found["prefix.channels.agree", ""].outcome is UNSURE


def test_two_counters_are_witnesses_without_the_answers_count(world: World) -> None:
    world.cached = lambda arm, number: None
    assert one(world, "prefix.hits.expected").outcome is PASS


def test_failed_requests_decide_nothing(world: World) -> None:
    world.state = lambda arm, number: State.TIMEOUT if (arm, number) == ("warm_2", 3) else State.OK
    found = one(world, "prefix.hits.expected")
    assert (found.outcome, found.values["reason"]) == (UNSURE, "requests_failed")


def test_without_token_ids_nothing_is_expected(world: World) -> None:
    world.ids = lambda arm, number: None
    found = judged(world)
    assert found["prefix.hits.expected", ""].values["reason"] == "no_token_ids"
    assert found["prefix.control.valid", "head"].outcome is UNSURE
    assert found["prefix.control.zero", ""].outcome is UNSURE


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from(["warm_1", "warm_2", "warm_3", "replay"]),
    st.integers(1, 5),
    st.integers(0, 71).filter(lambda hit: hit != 64),
)
def test_one_request_that_is_not_as_expected_never_passes(arm: str, number: int, hit: int) -> None:
    world = World()
    world.hits = lambda a, n: hit if (a, n) == (arm, number) else lawful(a, n)
    found = one(world, "prefix.hits.expected")
    assert found.outcome is (FAIL if hit < 64 else UNSURE)


@settings(deadline=None, max_examples=40)
@given(st.sets(st.integers(0, 130), max_size=60), st.booleans())
def test_evidence_that_is_gone_never_makes_it_better(gone: set[int], inert: bool) -> None:
    world = World()
    if inert:
        world.hits = lambda arm, number: 0
    whole = world.dossier()
    left = replace(whole, evidence=[e for k, e in enumerate(whole.evidence) if k not in gone])
    before = {(f.code, f.subject): f.outcome for f in findings(whole)}
    for finding in findings(left):
        better = finding.outcome is PASS and before[finding.code, finding.subject] is not PASS
        assert not better, finding
    if not gone:
        assert {(f.code, f.subject): f.outcome for f in findings(left)} == before


# gateway ------------------------------------------------------------------------------------------------------------


def with_gateway(world: World, url: str | None = "http://127.0.0.1:8") -> None:
    world.plan = replace(world.plan, service=replace(world.plan.service, gateway_url=url))
    world.more_arms = ("gateway",) if url else ()


def test_hits_through_the_gateway(world: World) -> None:
    with_gateway(world)
    assert one(world, "prefix.gateway.hits").outcome is PASS


def test_a_gateway_that_is_not_said_is_not_run(world: World) -> None:
    with_gateway(world, None)
    assert one(world, "prefix.gateway.hits").outcome is Outcome.NOT_RUN


@pytest.mark.parametrize(("more", "reason"), [(0, "unexplained"), (9, "head_changed")])
def test_a_gateway_that_loses_hits_is_to_blame(world: World, more: int, reason: str) -> None:
    with_gateway(world)
    world.hits = only(gateway=0)
    world.told_tokens = lambda arm, number: len(world.ids(arm, number)) + (more if arm == "gateway" else 0)
    found = judged(world)
    assert (found["prefix.gateway.hits", ""].outcome, found["prefix.gateway.hits", ""].cause) == (FAIL, Cause.GATEWAY)
    assert found["prefix.gateway.hits", ""].values["reason"] == reason
    assert found["prefix.hits.expected", ""].outcome is PASS


def test_a_gateway_is_not_to_blame_for_a_cache_that_is_inert(world: World) -> None:
    with_gateway(world)
    world.hits = lambda arm, number: 0
    found = one(world, "prefix.gateway.hits")
    assert (found.outcome, found.required, found.values["reason"]) == (UNSURE, False, "no_hits_directly")


def test_a_gateway_that_refuses_proves_nothing(world: World) -> None:
    with_gateway(world)
    world.state = lambda arm, number: State.HTTP_ERROR if arm == "gateway" else State.OK
    assert one(world, "prefix.gateway.hits").values["reason"] == "requests_failed"
    assert one(world, "prefix.gateway.hits").outcome is UNSURE


# controls ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arm", ["control_head", "control_tools", "cold", "replay"])
def test_a_false_hit_in_two_witnesses_condemns_the_service(world: World, arm: str) -> None:
    world.hits = lambda a, number: 80 if (a, number) == (arm, 4) else lawful(a, number)
    found = one(world, "prefix.control.zero")
    assert (found.outcome, found.bearing, found.values["false_hits"]) == (FAIL, Bearing.SERVICE, 1)


def test_a_false_hit_in_one_witness_is_inconclusive(world: World) -> None:
    world.cached = lambda arm, number: 48 if arm == "control_head" else world.hits(arm, number)
    found = one(world, "prefix.control.zero")
    assert (found.outcome, found.values["reason"]) == (UNSURE, "one_channel")


def test_a_salt_that_is_ignored_does_not_condemn(world: World) -> None:
    world.hits = only(control_salt=64)
    found = judged(world)
    assert found["prefix.control.zero", ""].outcome is PASS
    assert found["prefix.control.zero", "salt"].values["reason"] == "salt_not_honoured"
    assert not found["prefix.control.zero", "salt"].required


def test_the_template_itself_may_hit(world: World) -> None:
    world.config["cache_hit_alignment_tokens"] = "2"
    world.hits = lambda arm, number: {"cold": 2, "control_head": 2, "control_tools": 2, "control_salt": 0}.get(
        arm, 66 if arm.startswith("warm") else 70
    )
    found = judged(world)
    assert found["prefix.control.zero", ""].outcome is PASS
    assert found["prefix.hits.expected", ""].outcome is PASS


@pytest.mark.parametrize(("kind", "required"), [("head", True), ("tools", False)])
def test_a_change_that_never_reached_the_prompt_is_void(world: World, kind: str, required: bool) -> None:
    honest = world.ids
    world.ids = lambda arm, number: honest("cold" if arm == f"control_{kind}" else arm, number)
    world.told_tokens = lambda arm, number: len(world.ids(arm, number))
    world.hits = only(**{f"control_{kind}": 64})
    found = judged(world)
    assert found["prefix.control.valid", kind].values["reason"] == "change_never_reached_the_prompt"
    assert found["prefix.control.valid", kind].outcome is UNSURE
    assert found["prefix.control.valid", kind].required is required
    assert found["prefix.control.zero", ""].outcome is PASS


# witnesses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dead", ["cached", "counters"])
def test_a_dead_channel_is_named(world: World, dead: str) -> None:
    if dead == "cached":
        world.cached = lambda arm, number: 0
    else:
        world.counted = world.by_source = lambda arm, number: 0
    found = judged(world)
    agree = found["prefix.channels.agree", ""]
    assert (agree.outcome, agree.values["reason"]) == (FAIL, "counter_not_wired")
    assert agree.values["dead"] == ("cached_tokens" if dead == "cached" else "hits, local_cache_hit, prompt_cached")
    hits = found["prefix.hits.expected", ""]
    assert (hits.outcome, hits.values["reason"]) == (UNSURE, "counter_not_wired")


def test_all_counters_at_zero_while_the_clock_shows_reuse(world: World) -> None:
    world.hits = lambda arm, number: 0
    world.ttft_ms = lambda arm, number: 800.0 if lawful(arm, number) else 5500.0
    found = one(world, "prefix.hits.expected")
    assert (found.outcome, found.values["reason"]) == (UNSURE, "counter_not_wired")


def test_hits_from_a_connector_are_hits(world: World) -> None:
    world.external = lambda arm, number: 32 if arm == "replay" else 0
    found = judged(world)
    assert found["prefix.channels.agree", ""].outcome is PASS
    assert found["prefix.hits.expected", ""].outcome is PASS


def test_channels_that_differ_a_little_are_named(world: World) -> None:
    world.by_source = lambda arm, number: 48 if (arm, number) == ("warm_1", 2) else world.hits(arm, number)
    found = judged(world)
    assert (found["prefix.channels.agree", ""].outcome, found["prefix.channels.agree", ""].values["reason"]) == (
        FAIL,
        "channels_disagree",
    )
    assert found["prefix.hits.expected", ""].outcome is PASS


def test_other_traffic_spoils_the_window(world: World) -> None:
    world.foreign = lambda arm, number: 500 if (arm, number) == ("warm_1", 2) else 0
    found = judged(world)
    assert (found["prefix.quiet", ""].outcome, found["prefix.quiet", ""].values["reason"]) == (UNSURE, "other_traffic")
    assert found["prefix.hits.expected", ""].outcome is UNSURE


def test_a_restart_spoils_the_window(world: World) -> None:
    world.restart_at = "3-warm_1"
    assert one(world, "prefix.quiet").values["restarts"] == 1
    assert one(world, "prefix.quiet").outcome is UNSURE


# latency -------------------------------------------------------------------------------------------------------------


def test_latency_effect_has_its_interval(world: World) -> None:
    found = one(world, "prefix.latency.effect")
    assert found.values["pairs"] == 20
    assert found.values["ttft_ms_saved"] == 60.0
    assert found.values["ttft_ms_saved_low"] == 60.0


def test_hits_without_an_effect_are_inconclusive(world: World) -> None:
    world.ttft_ms = lambda arm, number: 100.0 + number
    found = one(world, "prefix.latency.effect")
    assert (found.outcome, found.values["reason"]) == (UNSURE, "no_effect_seen")
    assert found.required


@pytest.mark.parametrize(("queue_ms", "bound_by"), [(1.0, "outside_engine"), (90.0, "queue")])
def test_a_named_bottleneck_elsewhere_is_a_reason(world: World, queue_ms: float, bound_by: str) -> None:
    world.ttft_ms = lambda arm, number: 100.0 + number
    world.prefill_ms = lambda arm, number: 5.0 if lawful(arm, number) else 50.0
    world.queue_ms = queue_ms
    found = one(world, "prefix.latency.effect")
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    assert (found.values["reason"], found.values["bound_by"]) == ("latency_bound_elsewhere", bound_by)


# answers -------------------------------------------------------------------------------------------------------------


def test_wrong_answers_out_of_the_cache_condemn_the_service(world: World) -> None:
    honest = world.said
    world.said = lambda arm, number: "nothing" if lawful(arm, number) else honest(arm, number)
    found = one(world, "prefix.output.same")
    assert (found.outcome, found.bearing, found.values["reason"]) == (FAIL, Bearing.SERVICE, "wrong_out_of_cache")


def test_another_prompts_value_condemns_the_service(world: World) -> None:
    honest = world.said
    world.said = lambda arm, number: honest("cold", number) if arm == "control_head" else honest(arm, number)
    found = one(world, "prefix.output.same")
    assert (found.outcome, found.values["reason"]) == (FAIL, "other_prompts_value")


@pytest.mark.parametrize(
    ("arm", "outcome", "severity"), [("replay", UNSURE, Severity.FAIL), ("warm_2", PASS, Severity.WARN)]
)
def test_one_wrong_answer_is_not_passed_over(world: World, arm: str, outcome: Outcome, severity: Severity) -> None:
    honest = world.said
    world.said = lambda a, number: "?" if (a, number) == (arm, 2) else honest(a, number)
    found = one(world, "prefix.output.same")
    assert (found.outcome, found.required, found.severity) == (outcome, True, severity)


def test_a_model_that_cannot_recall_is_an_open_question_outside_a_laboratory(world: World) -> None:
    world.said = lambda arm, number: "I do not know."
    found = one(world, "prefix.output.same")
    assert (found.outcome, found.required, found.values["reason"]) == (UNSURE, True, "model_cannot_recall")
    world.profile = replace(world.profile, scope="laboratory")
    found = one(world, "prefix.output.same")
    assert (found.outcome, found.required) == (UNSURE, False)

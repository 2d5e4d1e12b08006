"""Every check of the capacity gate: catches what is wrong, stays quiet on a healthy run, never passes without data."""

import msgspec
import pytest
from capacity_dossier import BEGIN, LIMITS, READY_LOG, Run, S, plan, profile
from msgspec.structs import replace

from signoff.core.plan import Limits
from signoff.core.record import Record
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity, State
from signoff.judge import capacity
from signoff.judge.capacity import next_step
from signoff.judge.capacity.level import unspoiled
from signoff.judge.capacity.sizes import sizes
from signoff.judge.capacity.stages import see
from signoff.judge.catalogue import CATALOGUE, sentence
from signoff.judge.catalogue import next_step as advice
from signoff.judge.decide import row_of

PASS, FAIL, OPEN, NOT_RUN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN
OOM_LOG = READY_LOG + (
    b"(EngineCore pid=2) ERROR 12-01 03:31:00 [core.py:9] torch.OutOfMemoryError: CUDA out of memory. Tried to "
    b"allocate 2.00 GiB. GPU 0 has a total capacity of 139.00 GiB\n"
    b"(EngineCore pid=2) ERROR 12-01 03:31:00 [core.py:9] EngineCore encountered a fatal error.\n"
)
ILLEGAL_LOG = READY_LOG + (
    b"(EngineCore pid=2) ERROR 12-01 03:31:00 [core.py:9] torch.AcceleratorError: CUDA error: an illegal memory access "
    b"was encountered\n"
    b"(EngineCore pid=2) ERROR 12-01 03:31:00 [core.py:9] EngineCore encountered a fatal error.\n"
)


@pytest.fixture(scope="module")
def healthy():
    return Run().healthy_until("end").findings()


def test_a_healthy_run_passes_every_check(healthy):
    assert {code: f.outcome for code, f in healthy.items() if f.outcome is not PASS} == {}
    assert [f.code for f in healthy.values() if row_of(f) < 8] == []


def test_every_code_stands_once_and_is_in_the_catalogue(healthy):
    found = [f.code for f in capacity.findings(Run().healthy_until("end").dossier())]
    assert len(found) == len(set(found))
    assert set(found) == {code for code in CATALOGUE if code.startswith("capacity.")}


def test_an_empty_dossier_passes_nothing_that_was_to_be_measured():
    found = Run(log=b"").findings()
    assert {code for code, f in found.items() if f.outcome is PASS} == {"capacity.limits.said"}
    assert {f.outcome for code, f in found.items() if code != "capacity.limits.said"} == {NOT_RUN}


@pytest.mark.parametrize("part", ["load", "long_input", "climb", "soak", "idle"])
def test_a_run_that_ends_early_leaves_open_what_it_did_not_measure(part):
    whole, cut = Run().healthy_until("end").findings(), Run().healthy_until(part).findings()
    gone = {"load": "capacity.load.ready", "long_input": "capacity.long_input.window"}
    gone |= {"climb": "capacity.concurrency.floor", "soak": "capacity.soak.errors", "idle": "capacity.soak.kv_idle"}
    assert cut[gone[part]].outcome is NOT_RUN
    assert whole.keys() == cut.keys()


def test_every_outcome_has_its_words(healthy):
    for code, finding in healthy.items():
        for outcome in Outcome:
            said = sentence(replace(finding, outcome=outcome))
            assert said
            assert "{" not in said
            assert "{" not in advice(replace(finding, outcome=outcome)), code


# --- load


def test_load_says_what_the_log_says(healthy):
    values = healthy["capacity.load.state"].values
    assert (values["weights_gib"], values["kv_tokens"], values["ready"]) == (12.5, 100_000, True)


def test_no_launch_log_leaves_the_load_open():
    found = Run(log=b"").healthy_until("long_input").findings()["capacity.load.state"]
    assert (found.outcome, found.bearing) == (OPEN, Bearing.EVIDENCE)


def test_an_out_of_memory_at_load_is_located_there():
    log = READY_LOG.split(b"(Worker")[0] + (
        b"(Worker pid=3) ERROR 12-01 03:27:30 [w.py:1] torch.OutOfMemoryError: CUDA out of memory. Tried to "
        b"allocate 2.00 GiB. GPU 0 has a total capacity of 139.00 GiB\n"
    )
    run = Run(log=log)
    run.load(state=State.REFUSED)
    found = run.findings()
    assert found["capacity.load.state"].outcome is FAIL
    assert found["capacity.load.state"].cause in (Cause.TOPOLOGY, Cause.ENVIRONMENT)
    assert found["capacity.load.ready"].outcome is FAIL


def test_a_load_time_longer_than_its_whole_is_no_evidence():
    log = READY_LOG.replace(b"took 12.5 GiB memory and 6.2 seconds", b"took 12.5 GiB memory and 1.2 seconds")
    log = log.replace(
        b"(Worker", b"(Worker pid=3) INFO 12-01 03:27:29 [l.py:1] Loading weights took 9.00 seconds\n(Worker", 1
    )
    assert Run(log=log).healthy_until("end").findings()["capacity.load.state"].outcome is OPEN


# --- long input


def long_run(**bad):
    run = Run().healthy_until("long_input")
    run.rung(512)
    run.rung(1024)
    run.rung(2048, **bad.pop("at_floor", {}))
    run.rung(4096, **bad)
    return run.findings()


def test_a_length_above_the_floor_that_fails_bears_on_the_target_alone():
    found = long_run(state=State.INBAND_ERROR)
    window, floor = found["capacity.long_input.window"], found["capacity.long_input.floor"]
    assert (window.outcome, window.cause, window.bearing) == (FAIL, Cause.LONG_INPUT, Bearing.TARGET)
    assert (window.values["held"], window.values["failed_at"]) == (2048, 4096)
    assert floor.outcome is PASS


def test_a_length_at_the_floor_that_fails_bears_on_the_floor():
    run = Run().healthy_until("long_input")
    run.rung(512)
    run.rung(2048, state=State.RESET)
    found = run.findings()
    assert found["capacity.long_input.floor"].outcome is FAIL
    assert found["capacity.long_input.window"].outcome is FAIL


def test_one_stray_failure_of_three_does_not_end_the_ladder():
    run = Run().healthy_until("long_input")
    for tokens in (512, 1024, 2048):
        run.rung(tokens)
    run.rung(4096, tries=3)
    run.records[-1] = msgspec.structs.replace(run.records[-1], state=State.RESET)
    found = run.findings()["capacity.long_input.window"]
    assert (found.outcome, found.values["failures"]) == (PASS, 1)


def test_a_smaller_declared_window_is_a_launch_value():
    run = Run()
    run.begin("capacity.load", window_tokens=1024)
    run.record("capacity.load", run.now)
    run.finish("capacity.load")
    run.rung(512)
    run.rung(1024)
    floor = run.findings()["capacity.long_input.floor"]
    assert (floor.outcome, floor.cause, row_of(floor)) == (FAIL, Cause.TOPOLOGY, 3)
    assert floor.values["reason"] == "window_declared_smaller"


def test_a_prompt_refused_as_too_long_inside_the_declared_window_fails():
    refusal = "This model's maximum context length is 3000 tokens. However, your prompt contains 4080 input tokens"
    found = long_run(state=State.HTTP_ERROR, status=400, error=refusal)["capacity.long_input.window"]
    assert (found.outcome, found.values["reason"]) == (FAIL, "refused_as_too_long")


def test_a_prompt_that_was_not_as_long_as_its_rung_proves_no_length():
    found = long_run(prompt_tokens=900)
    assert found["capacity.long_input.window"].outcome is OPEN
    assert long_run(prompt_tokens=None)["capacity.long_input.window"].outcome is OPEN


def test_an_answer_cut_by_the_window_is_not_a_wrong_one():
    assert (
        long_run(right=False, completion_tokens=3, prompt_tokens=8189)["capacity.long_input.recall"].outcome is not FAIL
    )


def test_an_interrupted_ladder_is_open():
    run = Run().healthy_until("long_input")
    run.rung(512)
    run.rung(1024, stopped="interrupted", state=State.ABORTED)
    found = run.findings()
    assert found["capacity.long_input.window"].outcome is OPEN
    assert found["capacity.long_input.floor"].outcome is OPEN


def test_wrong_answers_on_long_prompts_are_the_services_fault():
    found = long_run(right=False)["capacity.long_input.recall"]
    assert (found.outcome, found.bearing, found.values["wrong_from_tokens"]) == (FAIL, Bearing.SERVICE, 4096)
    assert row_of(found) == 2


def test_a_model_that_recalls_nothing_short_is_not_judged_on_long():
    def found(scope):
        run = Run(profile_=profile(scope=scope)).healthy_until("long_input")
        for tokens in (512, 1024, 2048, 4096):
            run.rung(tokens, right=False)
        return run.findings()["capacity.long_input.recall"]

    assert (found("production").outcome, found("production").required) == (OPEN, True)
    assert (found("laboratory").outcome, found("laboratory").required) == (OPEN, False)


# --- concurrency


def climbed(*levels, **more):
    run = Run(**more).healthy_until("climb")
    for streams, changes in levels:
        run.level(streams, **changes)
    return run.findings()


LATE = {"ttft_ms": 900}


def test_a_floor_that_is_late_with_full_cache_is_saturated():
    found = climbed((2, {}), (4, LATE | {"kv": 1.0, "waiting": 3}))
    floor, target = found["capacity.concurrency.floor"], found["capacity.concurrency.target"]
    assert (floor.outcome, floor.cause, floor.resource) == (FAIL, Cause.CONCURRENCY, "kv")
    assert (floor.values["held"], row_of(floor)) == (2, 5)
    assert (target.outcome, target.values["held"], target.values["target"], target.values["floor"]) == (FAIL, 2, 8, 4)


def test_high_cache_use_alone_is_no_saturation():
    found = climbed((4, {"kv": 1.0}), (8, {"kv": 1.0, "waiting": 1}))
    assert found["capacity.concurrency.target"].outcome is PASS


def test_late_without_any_resource_at_its_bound_names_none():
    floor = climbed((4, LATE))["capacity.concurrency.floor"]
    assert (floor.outcome, floor.resource, row_of(floor)) == (FAIL, "", 6)


def test_a_plateau_of_running_requests_with_others_waiting_is_the_slots():
    floor = climbed((4, LATE | {"running": 2, "waiting": 2}), log=READY_LOG.replace(b"'max_num_seqs': 256", b""))
    assert floor["capacity.concurrency.floor"].resource == "slots"


def test_too_few_slots_by_launch_with_cache_free_are_no_case_for_more_gpus():
    few = READY_LOG.replace(b"256}", b"2}")
    free = climbed((4, LATE | {"running": 2, "waiting": 2}), log=few)["capacity.concurrency.floor"]
    assert (free.resource, free.scope, row_of(free), free.cause) == ("", Scope.LAUNCH, 3, Cause.CONCURRENCY)
    full = climbed((4, LATE | {"running": 2, "waiting": 2, "kv": 0.9}), log=few)["capacity.concurrency.floor"]
    assert (full.resource, row_of(full)) == ("slots", 5)


def test_the_idle_server_that_is_slower_after_all_load_degrades():
    def found(after_ms):
        run = Run()
        run.begin("capacity.load")
        for pace_ms in (*[4.0] * 5,):
            run.record("capacity.load", run.now, labels={"arm": "rest"}, tokens=32, gap_ms=pace_ms)
            run.now = run.records[-1].end_ns
        run.finish("capacity.load")
        run.soak()
        run.begin("capacity.idle")
        for _ in range(5):
            run.record("capacity.idle", run.now, labels={"arm": "rest"}, tokens=32, gap_ms=after_ms)
            run.now = run.records[-1].end_ns
        run.finish("capacity.idle", idle_s=2.0)
        return run.findings()["capacity.soak.drift"]

    assert (found(9.0).outcome, found(9.0).values["drifted"]) == (FAIL, "rest_token_ms")
    assert found(4.2).outcome is PASS


def test_preemptions_above_the_plans_share_are_the_caches():
    floor = climbed((4, {"preemptions": 9}))["capacity.concurrency.floor"]
    assert (floor.outcome, floor.resource, floor.values["missed"]) == (FAIL, "kv", "preempted_share")
    assert climbed((4, {"preemptions": 1}))["capacity.concurrency.floor"].outcome is PASS


def test_the_servers_own_queue_time_counts():
    found = climbed((4, {"queue_ms": 900, "ttft_ms": 390}))["capacity.concurrency.floor"]
    assert (found.outcome, found.values["missed"]) == (FAIL, "queue_ms_p99")


def test_failures_stay_in_the_latency():
    found = climbed((4, {"bad": 4}))["capacity.concurrency.floor"]
    assert found.outcome is FAIL
    assert "error_rate" in found.values["missed"]
    assert "ttft_ms_p99" in found.values["missed"]


def test_one_failure_of_few_proves_neither():
    found = climbed((4, {"bad": 1}))["capacity.concurrency.floor"]
    assert (found.outcome, found.values["open"]) == (OPEN, "error_rate_open")


def test_too_few_requests_are_no_pass():
    found = climbed((4, {"rounds": 2}))["capacity.concurrency.floor"]
    assert found.outcome is OPEN


@pytest.mark.parametrize("limit", ["ttft_ms_p99", "itl_ms_p99", "queue_ms_p99", "error_rate", "preempted_share"])
def test_a_limit_that_is_not_said_is_never_a_pass(limit):
    objective = replace(plan().objective, limits=replace(LIMITS, **{limit: None}))
    found = climbed((4, {}), (8, {}), plan_=plan(objective=objective))
    assert found["capacity.limits.said"].outcome is OPEN
    assert limit in found["capacity.limits.said"].values["missing"]
    for code in ("capacity.concurrency.floor", "capacity.concurrency.target"):
        assert (found[code].outcome, found[code].values["held"]) == (OPEN, None)


def test_no_limits_at_all_still_prove_nothing():
    objective = replace(plan().objective, limits=Limits())
    found = Run(plan_=plan(objective=objective)).healthy_until("end").findings()
    assert {
        found[c].outcome for c in ("capacity.concurrency.floor", "capacity.limits.said", "capacity.soak.errors")
    } == {OPEN}


def test_loads_without_metrics_are_open():
    run = Run()
    run.scraping = False
    found = run.healthy_until("end").findings()
    assert found["capacity.concurrency.floor"].outcome is OPEN
    assert found["capacity.metrics.seen"].outcome is OPEN
    assert found["capacity.soak.kv_idle"].outcome is OPEN


def test_callers_faults_are_left_out_and_spoil_the_level():
    run = Run().healthy_until("climb")
    run.level(4, rounds=9)
    run.records = [
        msgspec.structs.replace(r, state=State.HTTP_ERROR, status=400, end_ns=r.sent_ns + 1)
        if r.labels.get("wave") == "ramp"
        else r
        for r in run.records
    ]
    found = run.findings()["capacity.concurrency.floor"]
    assert (found.outcome, found.values["open"], found.values["failed"]) == (OPEN, "caller_faults", 0)


def test_a_refusal_of_what_worked_before_is_the_servers_own():
    found = climbed((4, {"bad": 9, "bad_status": 404}))
    assert (found["capacity.concurrency.floor"].outcome, found["capacity.concurrency.floor"].values["failed"]) == (
        FAIL,
        9,
    )
    assert row_of(found["capacity.errors.server"]) == 2


def test_a_late_client_proves_no_lateness_of_the_server():
    found = climbed((4, LATE | {"disqualified": "busy"}))["capacity.concurrency.floor"]
    assert (found.outcome, found.values["open"]) == (OPEN, "client_disqualified")


def test_limits_kept_with_all_the_clients_lateness_are_kept():
    assert climbed((4, {"disqualified": "busy"}))["capacity.concurrency.floor"].outcome is PASS


def test_what_the_server_counted_stands_whatever_the_client_was():
    found = climbed((4, {"disqualified": "busy", "preemptions": 9}))["capacity.concurrency.floor"]
    assert (found.outcome, found.resource) == (FAIL, "kv")


def test_an_attempt_that_the_client_spoiled_is_left_out_where_a_clean_one_followed():
    def found(first, second):
        run = Run().healthy_until("climb")
        run.level(4, **first)
        before = len(run.records)
        run.level(4, **second)
        run.events = run.events[:-2]
        for index, record in enumerate(run.records):
            if record.stage == "capacity.concurrency.4":
                labels = record.labels | {"attempt": "1" if index < before else "2"}
                run.records[index] = msgspec.structs.replace(record, labels=labels)
        return run.findings()["capacity.concurrency.floor"]

    busy = {"disqualified": "busy"} | LATE
    assert found(busy, {}).outcome is PASS
    assert found(LATE, {}).outcome is FAIL  # a clean attempt counts, whatever followed it
    assert found(busy, busy).outcome is OPEN


def test_failures_of_a_spoiled_attempt_that_are_not_the_clients_stay():
    from_server = [
        Record(
            id=str(n),
            gate=Gate.CAPACITY,
            stage="s",
            state=State.HTTP_ERROR if n == 0 else State.OK,
            labels={"attempt": "1" if n < 4 else "2"},
            disqualified="busy" if 0 < n < 4 else "",
            planned_ns=0,
            sent_ns=0,
            end_ns=1,
        )
        for n in range(8)
    ]
    assert [r.id for r in unspoiled(from_server)] == ["0", "4", "5", "6", "7"]


def test_a_load_that_was_not_delivered_is_not_that_load():
    run = Run().healthy_until("climb")
    run.level(4)
    for index, record in enumerate(run.records):
        if record.stage == "capacity.concurrency.4" and index % 4:
            gone = record.sent_ns + 3 * S * (index % 4)
            run.records[index] = msgspec.structs.replace(record, sent_ns=gone, written_ns=gone)
    found = run.findings()["capacity.concurrency.floor"]
    assert found.outcome is OPEN


def test_a_floor_lost_to_hits_is_the_caches_and_no_case_for_more_gpus():
    sized = replace(plan().load, reuse_share=0.5, concurrency=replace(plan().load.concurrency, input_tokens=512))
    units = profile(cache=replace(profile().cache, units=(64,)))
    found = climbed((4, LATE), plan_=plan(load=sized), profile_=units)["capacity.concurrency.floor"]
    assert (found.cause, found.resource, row_of(found)) == (Cause.PREFIX_CACHE, "", 3)
    kept = climbed((4, LATE | {"hits": 256}), plan_=plan(load=sized), profile_=units)["capacity.concurrency.floor"]
    assert kept.cause is Cause.CONCURRENCY


def test_more_reuse_than_planned_makes_the_load_too_easy():
    assert climbed((4, {"hits": 400}))["capacity.concurrency.reuse"].outcome is OPEN


def test_less_reuse_than_planned_is_a_warning():
    found = climbed((4, {}), plan_=plan(load=replace(plan().load, reuse_share=0.5)))["capacity.concurrency.reuse"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)


def test_wrong_answers_under_load_are_the_services_fault():
    found = climbed((1, {}), (4, {}), (8, {"wrong": 20}))["capacity.concurrency.answers"]
    assert (found.outcome, found.bearing, found.values["wrong_from"]) == (FAIL, Bearing.SERVICE, 8)


def test_wrong_answers_everywhere_say_nothing_about_load():
    found = climbed((1, {"wrong": 99}), (4, {"wrong": 99}))["capacity.concurrency.answers"]
    assert found.outcome in (OPEN, FAIL)
    assert found.outcome is not PASS


# --- cap


def capped(*holds, **more):
    run = Run(**more).healthy_until("climb")
    run.level(2)
    run.level(4)
    run.level(8, kv=1.0, waiting=4, **LATE)
    for number, changes in enumerate(holds, 1):
        run.level(4, stage=f"capacity.cap.4.{number}", **changes)
    return run.findings()


def test_a_cap_that_holds_three_times_is_what_limited_may_carry():
    found = capped({}, {}, {})
    cap, floor, target = (
        found[c] for c in ("capacity.cap.returns", "capacity.concurrency.floor", "capacity.concurrency.target")
    )
    assert (cap.outcome, cap.values["cap"], floor.outcome) == (PASS, 4, PASS)
    assert (target.outcome, target.values["held"], row_of(target)) == (FAIL, 4, 7)


def test_a_bottleneck_that_returns_at_the_cap_is_a_case_for_scaling():
    found = capped({}, LATE | {"kv": 1.0, "waiting": 2}, {})
    cap = found["capacity.cap.returns"]
    assert (cap.outcome, cap.bearing, cap.resource, row_of(cap)) == (FAIL, Bearing.CAP, "kv", 5)
    assert cap.values["same_bottleneck"] is True
    assert found["capacity.concurrency.floor"].outcome is FAIL


def test_too_few_holds_at_the_cap_are_open():
    assert capped({}, {})["capacity.cap.returns"].outcome is OPEN
    assert capped()["capacity.cap.returns"].outcome is NOT_RUN


# --- soak


def soaked(idle=True, **changes):
    run = Run().healthy_until("soak")
    run.soak(**changes)
    if idle:
        run.idle()
    return run.findings()


def test_a_soak_that_grows_slower_degrades():
    found = soaked(slower=2.0)["capacity.soak.drift"]
    assert (found.outcome, found.cause, found.phase) == (FAIL, Cause.SUSTAINED, Phase.SOAK)
    assert row_of(found) == 2


def test_a_growth_that_troubles_nobody_yet_is_a_warning():
    found = soaked(slower=2.0, gap_ms=4.0, ttft_ms=20.0)["capacity.soak.drift"]
    assert found.outcome is PASS
    grown = soaked(slower=1.6)["capacity.soak.drift"]
    assert (grown.outcome, grown.severity, grown.values["drifted_slightly"]) == (
        PASS,
        Severity.WARN,
        "ttft_ms, token_ms",
    )


def test_a_few_requests_show_no_drift_and_exclude_none():
    assert soaked(seconds=1.2)["capacity.soak.drift"].outcome is OPEN


def test_errors_of_the_soak_are_the_services_unless_something_was_full():
    free, full = soaked(bad=20)["capacity.soak.errors"], soaked(bad=20, kv=1.0)["capacity.soak.errors"]
    assert (free.outcome, free.bearing, row_of(free)) == (FAIL, Bearing.SERVICE, 2)
    assert (full.outcome, full.bearing, full.resource) == (FAIL, Bearing.FLOOR, "kv")


def test_a_short_soak_excludes_nothing():
    assert soaked(seconds=6)["capacity.soak.length"].outcome is OPEN


def test_cache_that_is_kept_after_all_requests_ended_is_a_leak():
    run = Run().healthy_until("soak")
    run.soak(leak=0.1)
    run.gauges["kv"] = 0.1
    run.idle()
    found = run.findings()["capacity.soak.kv_idle"]
    assert (found.outcome, found.bearing, found.values["kv_after"]) == (FAIL, Bearing.SERVICE, 0.1)


def test_somebody_elses_requests_in_the_idle_phase_are_no_leak():
    def found(foreign, running, kv=0.1):
        run = Run().healthy_until("soak")
        run.soak()
        run.gauges |= {"kv": kv, "running": running}
        run.idle(foreign=foreign)
        return run.findings()["capacity.soak.kv_idle"].outcome

    assert found(500.0, 1.0) is OPEN
    assert found(500.0, 0.0) is OPEN
    assert found(0.0, 1.0) is FAIL  # nobody sends, and still something runs
    assert found(0.0, 0.0, 0.0) is PASS


def test_memory_that_grows_all_through_the_soak_fails_and_absent_memory_does_not_pass():
    assert soaked(grow=1.5)["capacity.soak.memory"].outcome is FAIL
    run = Run()
    run.gauges["memory"] = -1.0
    found = run.healthy_until("end").findings()
    for code in ("capacity.soak.memory", "capacity.memory.curves"):
        assert (found[code].outcome, found[code].required) == (OPEN, True)
    assert found["capacity.memory.curves"].values["missing"] == "process_resident_memory_bytes"


def test_prefixes_that_are_evicted_at_the_load_that_should_hold():
    found = soaked(evict=True)["capacity.soak.sentinels"]
    assert (found.outcome, found.bearing) == (FAIL, Bearing.HITS)


# --- the service as a whole


def died(log=b"", *, kv=0.3, stage="climb", state=State.RESET):
    run = Run().healthy_until(stage)
    if stage == "climb":
        run.level(2)
        run.level(4, kv=kv, bad=99, bad_state=state, bad_status=None, stopped="service_lost")
    if stage == "long_input":
        run.rung(512)
        run.gauges["kv"] = kv
        run.rung(4096, state=state, status=None, stopped="service_lost")
    if log:
        run.log(log, "after")
    return run.findings()


def test_a_death_with_resources_to_spare_is_the_softwares():
    alive = died(ILLEGAL_LOG)["capacity.service.alive"]
    assert (alive.outcome, alive.bearing, row_of(alive)) == (FAIL, Bearing.SERVICE, 2)
    assert alive.values["log_says"]


def test_a_death_that_nothing_explains_stays_open():
    alive = died()["capacity.service.alive"]
    assert (alive.outcome, alive.bearing, alive.values["kind"]) == (OPEN, Bearing.EVIDENCE, "died")


def test_an_out_of_memory_is_located_by_its_stage():
    at_floor = died(OOM_LOG)["capacity.service.alive"]
    assert (at_floor.outcome, at_floor.cause, at_floor.resource) == (FAIL, Cause.CONCURRENCY, "gpu_memory")
    assert at_floor.bearing is Bearing.FLOOR
    long_ = died(OOM_LOG, stage="long_input")["capacity.service.alive"]
    assert (long_.outcome, long_.cause, long_.bearing) == (FAIL, Cause.LONG_INPUT, Bearing.TARGET)


def test_loads_that_found_the_service_gone_say_nothing_about_themselves():
    run = Run().healthy_until("climb")
    run.level(2)
    run.level(4)
    run.level(8, bad=99, bad_state=State.RESET, bad_status=None, stopped="service_lost")
    for number in (1, 2, 3):
        run.begin(f"capacity.cap.4.{number}", streams=4)
        run.record(f"capacity.cap.4.{number}", run.now, state=State.REFUSED, status=None, labels={"arm": "probe"})
        run.finish(f"capacity.cap.4.{number}", "service_lost")
    found = run.findings()
    assert (found["capacity.concurrency.floor"].outcome, found["capacity.concurrency.floor"].values["held"]) == (
        PASS,
        4,
    )
    assert found["capacity.cap.returns"].outcome is NOT_RUN


def test_a_hang_at_low_cache_use_is_not_capacity():
    run = Run().healthy_until("long_input")
    run.rung(512)
    run.rung(2048, state=State.STALLED, status=None, stopped="service_stalled")
    alive = run.findings()["capacity.service.alive"]
    assert (alive.outcome, alive.bearing, alive.values["kind"], row_of(alive)) == (FAIL, Bearing.SERVICE, "hung", 2)


def test_a_restart_is_seen_by_its_start_time():
    run = Run().healthy_until("soak")
    run.gauges["started"] = 2000.0
    run.soak()
    run.idle()
    alive = run.findings()["capacity.service.alive"]
    assert (alive.values["kind"], alive.outcome) == ("restarted", OPEN)


def test_a_service_that_is_silent_after_the_idle_phase_is_not_alive():
    run = Run().healthy_until("idle")
    run.idle(state=State.STALLED, status=None)
    assert run.findings()["capacity.service.alive"].outcome is not PASS


def test_errors_inside_answers_of_200_are_seen():
    found = soaked(bad=40)["capacity.errors.inband"]
    assert (found.outcome, found.bearing) == (FAIL, Bearing.SERVICE)
    few = soaked(bad=1)["capacity.errors.inband"]
    assert (few.outcome, few.severity) == (PASS, Severity.WARN)


def test_server_errors_up_to_the_floor_are_the_softwares():
    found = climbed((4, {"bad": 9}))["capacity.errors.server"]
    assert (found.outcome, found.bearing, row_of(found)) == (FAIL, Bearing.SERVICE, 2)
    above = climbed((4, {}), (8, {"bad": 30}))["capacity.errors.server"]
    assert above.outcome is PASS


# --- what is tried next


def test_the_ladder_climbs_then_cuts_to_the_highest_that_held():
    run = Run().healthy_until("climb")

    size, tried = sizes(run.plan, run.profile, 8192), []
    bad = {8: LATE}
    floor = run.plan.objective.concurrency.floor
    while (wanted := next_step.next_try(see(run.dossier()).levels, size, run.plan, run.profile)) is not None:
        tried.append(wanted.stage)
        run.level(wanted.streams, stage=wanted.stage, **bad.get(wanted.streams, {}))
    assert tried == [f"capacity.concurrency.{n}" for n in (4, 8)] + [f"capacity.cap.4.{k}" for k in (1, 2, 3)]
    assert next_step.soak_streams(see(run.dossier()).levels, size, floor) == 4


def test_a_cap_under_the_floor_is_neither_held_nor_soaked():
    run = Run().healthy_until("climb")
    size, tried = sizes(run.plan, run.profile, 8192), []
    floor = run.plan.objective.concurrency.floor
    while (wanted := next_step.next_try(see(run.dossier()).levels, size, run.plan, run.profile)) is not None:
        tried.append(wanted.stage)
        run.level(wanted.streams, stage=wanted.stage, **(LATE if wanted.streams >= floor else {}))
    assert tried[-1] == f"capacity.concurrency.{floor}"
    assert next_step.soak_streams(see(run.dossier()).levels, size, floor) is None


def test_judging_twice_gives_the_same_findings():
    run = Run().healthy_until("end")
    once, again = capacity.findings(run.dossier()), capacity.findings(run.dossier())
    assert msgspec.json.encode(once) == msgspec.json.encode(again)
    assert BEGIN > 0

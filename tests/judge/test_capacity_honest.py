"""What a friendly reading would let pass: caught, quiet on a healthy run, open where evidence is gone."""

import msgspec
import pytest
from capacity_dossier import LIMITS, READY_LOG, Run, S, plan, profile

from signoff.core.record import Record
from signoff.core.words import Bearing, Outcome, Severity, State
from signoff.judge import summaries
from signoff.judge.capacity import next_step
from signoff.judge.capacity.memory import leaks
from signoff.judge.capacity.stages import argument, see, whole
from signoff.judge.decide import row_of
from signoff.read.launch_log import read_launch_log

PASS, FAIL, OPEN, NOT_RUN = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN
PLAIN = msgspec.structs.replace


@pytest.fixture
def run() -> Run:
    return Run().healthy_until("end")


def changed(run: Run, stage: str, change, *, of=lambda index: True) -> Run:
    """The run with `change` made to the records of a stage and its steps."""
    own = [i for i, r in enumerate(run.records) if r.stage.startswith(stage)]
    for number, index in enumerate(own):
        if of(number):
            run.records[index] = change(run.records[index])
    return run


def refused(record: Record) -> Record:
    return PLAIN(record, state=State.HTTP_ERROR, status=404, first_content_ns=None, chunk_ns=[], completion_tokens=None)


def emptied(record: Record) -> Record:
    return PLAIN(record, first_content_ns=None, chunk_ns=[], completion_tokens=0)


def without(run: Run, kind: str, stage: str) -> Run:
    run.events = [e for e in run.events if not (type(e).__name__ == kind and e.stage == stage)]
    return run


# --- refusals


def test_a_soak_that_is_refused_after_it_worked_is_the_servers_failure(run):
    found = changed(run, "capacity.soak", refused, of=lambda i: i > 60).findings()["capacity.soak.errors"]
    assert (found.outcome, row_of(found)) == (FAIL, 2)


def test_a_soak_that_was_never_taken_is_open():
    found = changed(Run().healthy_until("end"), "capacity.soak", refused).findings()["capacity.soak.errors"]
    assert found.outcome is FAIL  # the loads before it were of the same shape
    run = Run()
    run.soak(state=State.HTTP_ERROR, status=404)
    found = run.findings()["capacity.soak.errors"]
    assert (found.outcome, found.values["caller_faults"] > 0) == (OPEN, True)


@pytest.mark.parametrize("state", [State.HTTP_ERROR, State.INBAND_ERROR, State.MALFORMED, State.ABORTED])
def test_an_idle_request_without_an_answer_lets_nobody_live(run, state):
    found = changed(run, "capacity.idle", lambda r: PLAIN(r, state=state, status=404)).findings()
    assert found["capacity.service.alive"].outcome is not PASS
    assert found["capacity.soak.kv_idle"].outcome is OPEN


def test_idle_records_that_are_gone_leave_the_end_open(run):
    run.records = [r for r in run.records if r.stage != "capacity.idle"]
    assert run.findings()["capacity.service.alive"].outcome is OPEN
    assert run.findings()["capacity.soak.kv_idle"].outcome is OPEN


# --- answers


def test_wrong_answers_in_the_soak_fail_and_missing_ones_are_open(run):
    wrong = Run().healthy_until("soak")
    wrong.soak(wrong=99)
    assert wrong.findings()["capacity.soak.answers"].outcome is FAIL
    assert row_of(wrong.findings()["capacity.soak.answers"]) == 2
    assert run.findings()["capacity.soak.answers"].outcome is PASS
    gone = changed(run, "capacity.soak", lambda r: PLAIN(r, response_digest="0" * 64 if r.response_digest else ""))
    assert (gone.findings()["capacity.soak.answers"].outcome, row_of(gone.findings()["capacity.soak.answers"])) == (
        OPEN,
        6,
    )


def test_no_answer_of_the_soak_that_asked_for_anything_is_open(run):
    changed(run, "capacity.soak", lambda r: PLAIN(r, labels={k: v for k, v in r.labels.items() if k != "expect"}))
    assert run.findings()["capacity.soak.answers"].outcome is OPEN


def test_missing_answers_are_missing_in_a_laboratory_too():
    run = Run(profile_=profile(scope="laboratory")).healthy_until("end")
    changed(run, "capacity.soak", lambda r: PLAIN(r, response_digest="0" * 64 if r.response_digest else ""))
    found = run.findings()["capacity.soak.answers"]
    assert (found.outcome, found.required) == (OPEN, True)


def test_a_laboratory_model_that_recalls_badly_is_still_judged():
    run = Run(profile_=profile(scope="laboratory")).healthy_until("load")
    run.load()
    for tokens in (512, 1024, 2048, 4096):
        run.rung(tokens, right=False)
    for streams in (4, 8):
        run.level(streams, wrong=999)
    run.soak(wrong=999)
    run.idle()
    found = run.findings()
    codes = ("capacity.concurrency.answers", "capacity.soak.answers", "capacity.long_input.recall")
    assert {(found[c].outcome, found[c].required) for c in codes} == {(OPEN, False)}


def test_a_few_wrong_answers_that_chance_explains_fail_nothing():
    run = Run().healthy_until("climb")
    run.level(4, rounds=12)
    run.level(8, rounds=12, wrong=1)
    found = run.findings()["capacity.concurrency.answers"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    run = Run().healthy_until("climb")
    run.level(4, wrong=2)
    assert run.findings()["capacity.concurrency.answers"].outcome is OPEN


def test_two_wrong_of_fourteen_long_answers_are_no_proof():
    run = Run().healthy_until("long_input")
    run.rung(512)
    for tokens, right in ((1024, True), (2048, False), (4096, True)):
        run.rung(tokens, tries=1, right=right)
    assert run.findings()["capacity.long_input.recall"].outcome is OPEN


def test_the_exact_chance():
    assert summaries.chance_of_so_many(3, 54, 0, 5) == pytest.approx(0.7630, abs=1e-3)
    assert summaries.chance_of_so_many(54, 54, 0, 5) < 1e-6
    assert (summaries.chance_of_so_many(0, 9, 3, 9), summaries.chance_of_so_many(1, 1, 0, 0)) == (1.0, 1.0)
    with pytest.raises(ValueError, match="2 of 1"):
        summaries.chance_of_so_many(2, 1, 0, 1)


# --- empty and short answers


@pytest.mark.parametrize(
    "change",
    [emptied, lambda r: PLAIN(r, first_content_ns=None), lambda r: PLAIN(r, completion_tokens=3)],
    ids=["empty", "no_first_token", "short"],
)
def test_answers_without_what_was_asked_for_are_failures(run, change):
    found = changed(run, "capacity.concurrency", change, of=lambda i: i % 2).findings()
    assert found["capacity.concurrency.floor"].outcome is FAIL
    assert (found["capacity.errors.inband"].outcome, row_of(found["capacity.errors.inband"])) == (FAIL, 2)
    assert found["capacity.concurrency.answers"].outcome is not PASS


def test_a_load_of_prompts_far_too_short_is_not_that_load(run):
    found = changed(run, "capacity.concurrency", lambda r: PLAIN(r, prompt_tokens=64)).findings()
    floor = found["capacity.concurrency.floor"]
    assert (floor.outcome, floor.values["open"]) == (OPEN, "prompts_too_short")


# --- the plan's ladders


@pytest.mark.parametrize("tokens", [512, 1024, 2048])
@pytest.mark.parametrize("kind", ["StageStarted", "StageFinished"])
def test_a_length_without_its_event_is_never_skipped(run, tokens, kind):
    stage = f"capacity.long_input.{tokens}"
    assert without(run, kind, stage).findings()["capacity.long_input.floor"].outcome is OPEN
    changed(run, stage, lambda r: PLAIN(r, state=State.HTTP_ERROR, status=500))
    assert run.findings()["capacity.long_input.floor"].outcome is FAIL
    run.records = [r for r in run.records if r.stage != stage]
    assert run.findings()["capacity.long_input.floor"].outcome is OPEN


@pytest.mark.parametrize("kind", ["StageStarted", "StageFinished"])
def test_a_load_without_its_event_is_never_skipped(run, kind):
    stage = "capacity.concurrency.4"
    found = without(run, kind, stage).findings()
    assert found["capacity.concurrency.floor"].outcome is OPEN
    changed(run, stage, lambda r: PLAIN(r, state=State.HTTP_ERROR, status=500), of=lambda i: i % 3 == 0)
    assert run.findings()["capacity.concurrency.floor"].outcome is FAIL
    run.records = [r for r in run.records if r.stage != stage]
    assert run.findings()["capacity.concurrency.floor"].outcome is OPEN


def test_a_load_that_failed_under_the_floor_leaves_no_cap_above_it():
    run = Run(plan_=plan(load=PLAIN(plan().load, concurrency=PLAIN(plan().load.concurrency, steps=(1, 2)))))
    run.healthy_until("climb")
    run.level(1)
    run.level(2, ttft_ms=900)
    run.level(4)
    levels, found = see(run.dossier()).levels, run.findings()["capacity.concurrency.floor"]
    assert (next_step.candidate(levels), next_step.held(levels)) == (1, 1)
    assert (found.outcome, found.values["held"], found.values["open"]) == (OPEN, 1, "a_lower_load_failed")


# --- how long it lasted


def test_spans_are_those_of_the_requests_whatever_the_loop_says(run):
    soak = [r for r in run.records if r.stage == "capacity.soak"]
    cut = {r.id for r in soak if r.sent_ns > soak[0].sent_ns + 5 * S}
    late = max(r.sent_ns for r in run.records if r.stage == "capacity.concurrency.8") - S // 2
    run.records = [r for r in run.records if r.id not in cut]
    assert run.findings()["capacity.soak.length"].outcome is OPEN
    run.records = [r for r in run.records if r.stage != "capacity.concurrency.8" or r.sent_ns < late]
    found = run.findings()["capacity.concurrency.target"]
    assert (found.outcome, found.values["held"]) == (OPEN, 4)


def test_a_soak_with_a_hole_is_not_that_load(run):
    soak = [r for r in run.records if r.stage == "capacity.soak"]
    hole = {r.id for r in soak if 2 * S < r.sent_ns - soak[0].sent_ns < 8 * S}
    run.records = [r for r in run.records if r.id not in hole]
    assert run.findings()["capacity.soak.length"].outcome is OPEN


# --- cache, memory, sentinels


def test_cache_in_use_before_all_load_is_no_pass():
    run = Run()
    run.gauges["kv"] = 0.6
    run.load()
    run.soak(leak=0.6)
    run.gauges["kv"] = 0.6
    run.idle()
    found = run.findings()["capacity.soak.kv_idle"]
    assert (found.outcome, found.bearing) == (FAIL, Bearing.SERVICE)
    run = Run()
    run.gauges["kv"] = 0.6
    run.load()
    run.gauges["kv"] = 0.0
    run.soak()
    run.idle()
    assert run.findings()["capacity.soak.kv_idle"].outcome is OPEN


def test_cache_that_nobody_looked_at_before_is_open(run):
    assert without(run, "StageStarted", "capacity.load").findings()["capacity.soak.kv_idle"].outcome is OPEN


def test_memory_leaks_only_where_it_rises_and_goes_on():
    numpy = pytest.importorskip("numpy")
    line = numpy.linspace(5e9, 6e9, 24)
    step = numpy.where(numpy.arange(24) < 12, 5e9, 5.6e9)
    late = numpy.where(numpy.arange(24) < 21, 5e9, 5.6e9)
    warm = 6e9 - 1e9 * numpy.exp(-numpy.arange(24) / 3)
    assert [leaks(curve) for curve in (line, step, late, warm, numpy.full(24, 5e9))] == [True, *[False] * 4]


def test_hits_of_sentinels_are_counted_where_answers_say_none():
    def found(hits, offered):
        run = Run()
        run.healthy_until("soak")
        run.soak(hits=hits)
        run.records = [PLAIN(r, cached_tokens=None) for r in run.records]
        if offered:
            run.records[0] = PLAIN(run.records[0], cached_tokens=0)
        return run.findings()["capacity.soak.sentinels"]

    assert (found(0, False).outcome, found(0, False).required) == (OPEN, True)
    assert found(480, False).outcome is PASS
    assert found(480, True).outcome is OPEN


def test_reuse_that_nobody_counted_is_open(run):
    run.rows = [(t, {k: v for k, v in row.items() if "prefix_cache_hits" not in k}) for t, row in run.rows]
    found = run.findings()["capacity.concurrency.reuse"]
    assert (found.outcome, found.required) == (OPEN, True)


# --- numbers in logs


def test_only_ascii_digits_are_a_number():
    assert [whole(text) for text in ("12", " 7 ", "²", "٣", "-1", "9" * 5000, "")] == [
        12,
        7,
        None,
        None,
        None,
        None,
        None,
    ]
    log = READY_LOG.replace(b"'max_num_seqs': 256", "'max_num_seqs': '²'".encode())
    assert argument(read_launch_log(log), "max_num_seqs") is None
    assert Run(log=log).healthy_until("end").findings()["capacity.concurrency.floor"].outcome is PASS
    assert LIMITS.error_rate == 0.02

"""Findings about the run as a whole: each caught, each quiet, each open when the evidence is missing."""

import numpy as np
import pytest
from msgspec.structs import replace

from signoff.core.dossier import Dossier
from signoff.core.events import RunStopped
from signoff.core.evidence import Evidence
from signoff.core.metrics import MetricTable
from signoff.core.plan_text import parse_plan
from signoff.core.profile import Cache, Floors, Profile
from signoff.core.record import Record
from signoff.core.words import Bearing, Gate, Outcome, State
from signoff.judge.overall import findings

PLAN = parse_plan("""schema: signoff/plan/1
name: t
profile: p
service: {base_url: "http://s"}
objective:
  concurrency: {target: 2, floor: 1}
  input_tokens: {target: 64, floor: 32}
review: {items: {all: somebody}}
triggers: {throttle: a, scale: b, rollback: c}
rollback: {to: x, how: y}
""")
PROFILE = Profile(
    schema="signoff/profile/1",
    name="p",
    title="P",
    status="stable",
    scope="laboratory",
    checked_on="2026-12-01",
    architectures=("*",),
    platforms=("cpu",),
    sources=(),
    chain=(),
    cache=Cache(),
    floors=Floors(soak_s=1, soak_idle_s=1, hold_s=1),
)
URL = "http://s/metrics"
CHECK = b'{"streams": 2, "requests": 2, "ok": 2, "ttft_error_ms": {"p50": 0.1, "p99": 2.0}}'
SUCCESS, PROMPT, START = "vllm:request_success_total", "vllm:prompt_tokens_total", "process_start_time_seconds"


def record(number, state=State.OK, tokens: int | None = 10, **more):
    return Record(
        id=f"r{number}",
        gate=Gate.CAPACITY,
        stage="capacity.load",
        state=state,
        planned_ns=number,
        sent_ns=number,
        written_ns=number,
        end_ns=number + 1,
        prompt_tokens=tokens if state is State.OK else None,
        **more,
    )


def table(requests=(0, 4), tokens=(0, 40), starts=(100, 100)):
    series = {f'{SUCCESS}{{finished_reason="stop"}}': requests, f'{PROMPT}{{engine="0"}}': tokens, START: starts}
    return MetricTable(
        server="http://s/metrics",
        t_ns=np.array(range(2), dtype=np.int64),
        columns={name: np.array(column, dtype=float) for name, column in series.items() if column is not None},
        failed=np.array([], dtype=np.int64),
    )


def dossier(**changed):
    parts = {
        "plan": PLAN,
        "profile": PROFILE,
        "evidence": [Evidence(kind="client_self", source="x", where="client", taken_ns=1, digest="d" * 64)],
        "records": [record(n) for n in range(4)],
        "metrics": {URL: table()},
        "events": [RunStopped(why="finished", at_ns=9)],
        "blob": lambda name: CHECK,
    }
    return Dossier(**parts | changed)


def outcome(code, **changed):
    return next(f for f in findings(dossier(**changed)) if f.code == code)


def test_a_healthy_run_is_quiet():
    assert {f.outcome for f in findings(dossier())} == {Outcome.PASS}


@pytest.mark.parametrize(
    ("code", "changed", "wanted"),
    [
        ("run.whole.finished", {"events": []}, Outcome.NOT_RUN),
        ("run.whole.finished", {"events": [RunStopped(why="interrupted", at_ns=9)]}, Outcome.NOT_RUN),
        ("run.gates.planned", {"plan": replace(PLAN, gates=(Gate.AGENT,))}, Outcome.NOT_RUN),
        ("run.gates.planned", {"plan": replace(PLAN, gates=(Gate.ENVIRONMENT,))}, Outcome.NOT_APPLICABLE),
        ("run.traffic.exclusive", {"metrics": {URL: table(requests=(0, 5), tokens=(0, 60))}}, Outcome.INCONCLUSIVE),
        ("run.traffic.exclusive", {"metrics": {URL: table(tokens=(0, 60))}}, Outcome.INCONCLUSIVE),
        ("run.traffic.exclusive", {"metrics": {URL: table(tokens=(0, 30))}}, Outcome.INCONCLUSIVE),
        ("run.traffic.exclusive", {"metrics": {URL: table(requests=None)}}, Outcome.INCONCLUSIVE),
        ("run.traffic.exclusive", {"metrics": {}}, Outcome.INCONCLUSIVE),
        ("run.traffic.exclusive", {"records": []}, Outcome.NOT_RUN),
        (
            "run.traffic.exclusive",
            {"plan": replace(PLAN, service=replace(PLAN.service, exclusive=False))},
            Outcome.INCONCLUSIVE,
        ),
        ("run.service.same_process", {"metrics": {URL: table(starts=(100, 160))}}, Outcome.FAIL),
        ("run.service.same_process", {"metrics": {URL: table(requests=(9, 4))}}, Outcome.FAIL),
        ("run.service.same_process", {"metrics": {}}, Outcome.INCONCLUSIVE),
        ("run.client.fit", {"evidence": []}, Outcome.INCONCLUSIVE),
        ("run.client.fit", {"blob": lambda name: b"junk"}, Outcome.INCONCLUSIVE),
        ("run.client.fit", {"blob": lambda name: CHECK.replace(b'"ok": 2', b'"ok": 0')}, Outcome.INCONCLUSIVE),
        ("run.client.fit", {"blob": lambda name: CHECK.replace(b"2.0", b"9000.0")}, Outcome.INCONCLUSIVE),
        ("run.client.fit", {"records": [record(n, disqualified="late") for n in range(4)]}, Outcome.INCONCLUSIVE),
        (
            "run.review.named",
            {"plan": replace(PLAN, review=replace(PLAN.review, items={"1": "a"}))},
            Outcome.INCONCLUSIVE,
        ),
        (
            "run.operations.planned",
            {"plan": replace(PLAN, rollback=replace(PLAN.rollback, to=None))},
            Outcome.INCONCLUSIVE,
        ),
    ],
)
def test_each_is_caught_or_left_open(code, changed, wanted):
    assert outcome(code, **changed).outcome is wanted


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"metrics": {URL: table(requests=(0, 5), tokens=(0, 60))}}, "other_traffic"),
        ({"metrics": {URL: table(tokens=(0, 60))}}, "other_traffic"),
        ({"metrics": {URL: table(requests=(0, 2), tokens=(0, 20))}}, "the_server_counted_less"),
        ({"metrics": {"http://other/metrics": table()}}, "a_server_was_not_scraped"),
        ({"metrics": {URL: table(requests=None)}}, "counters_not_seen"),
        ({"metrics": {URL: table(requests=(0, np.inf))}}, "the_server_counted_less"),
        ({"metrics": {URL: table(requests=(-1.7e308, 1.7e308))}}, "counters_not_seen"),
        ({"metrics": {URL: table(requests=(np.nan, 9), tokens=(np.nan, 90))}}, "other_traffic"),
    ],
)
def test_conservation_says_what_does_not_agree(changed, reason):
    assert outcome("run.traffic.exclusive", **changed).values["reason"] == reason


def test_a_failed_request_of_ours_hides_nothing():
    mixed = [*(record(n) for n in range(4)), record(4, State.TIMEOUT)]
    for requests, tokens in (((0, 6), (0, 40)), ((0, 1), (0, 10)), ((0, 4), (0, 400))):
        tables = {URL: table(requests=requests, tokens=tokens)}
        assert outcome("run.traffic.exclusive", records=mixed, metrics=tables).outcome is Outcome.INCONCLUSIVE


def test_two_processes_behind_one_address_are_no_restart():
    found = outcome("run.service.same_process", metrics={URL: table((0, 4), (0, 40), (160, 100))})
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.values["several_behind_one_address"] is True


def test_requests_that_failed_may_or_may_not_have_been_counted():
    mixed = [*(record(n) for n in range(4)), record(4, State.TIMEOUT)]
    assert outcome("run.traffic.exclusive", records=mixed).outcome is Outcome.PASS


def test_a_restart_is_a_failure_of_the_service():
    assert outcome("run.service.same_process", metrics={URL: table(starts=(100, 160))}).bearing is Bearing.SERVICE


def test_a_plan_of_the_environment_alone_needs_no_requests():
    alone = {"plan": replace(PLAN, gates=(Gate.ENVIRONMENT,)), "records": [], "metrics": {}}
    for code in ("run.traffic.exclusive", "run.service.same_process", "run.client.fit"):
        assert outcome(code, **alone).outcome is Outcome.NOT_APPLICABLE

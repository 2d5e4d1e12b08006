"""The whole capacity loop against the simulated service: healthy, and with faults that it must see. Several at once,
since most of the time is waiting."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from signoff.bundle.folder import Folder
from signoff.bundle.metrics import close_metrics
from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.collect.scrape import Scraper
from signoff.core.events import RecordTaken, RunStopped, StageFinished, StageStarted
from signoff.core.plan_text import parse_plan
from signoff.core.words import Bearing, Cause, Outcome, State
from signoff.judge import capacity
from signoff.run.again import read_dossier
from signoff.run.capacity import run_capacity
from signoff.run.capacity_plan import planned
from signoff.run.profiles import load_profile
from signoff.run.session import Session
from signoff.sim.process import start

WINDOW = 1_048_576
PLAN = """schema: signoff/plan/1
name: short
profile: kimi-k3-simulated
service: {{base_url: "{base_url}", model: kimi-k3, simulated: true}}
objective:
  concurrency: {{target: 8, floor: 4, hold_s: 1.0}}
  input_tokens: {{target: 16384, floor: 4096}}
  limits: {{ttft_ms_p99: 700, itl_ms_p99: 300, queue_ms_p99: 600, error_rate: 0.02, preempted_share: 0.05}}
load:
  reuse_share: 0.0
  long_input: {{output_tokens: 12, steps: [4096, 16384]}}
  concurrency: {{input_tokens: 2048, output_tokens: 64, steps: [1, 4, 8]}}
  soak: {{concurrency: 8}}
{more}
"""


def short_profile():
    profile = load_profile("kimi-k3-simulated")
    floors = replace(
        profile.floors, soak_s=2.5, soak_idle_s=1.0, hold_s=1.0, concurrency_requests=8, holds_after_overload=2
    )
    return replace(profile, floors=floors)


async def run_gate(folder, base_url, log, *, more="", profile=None, stop_at=None):
    """The gate alone, into a bundle; returns its dossier and the events."""
    text = PLAN.format(base_url=base_url, more=more)
    plan, profile = parse_plan(text), profile or short_profile()
    store, clock, stop = Folder.create(folder, text.encode(), profile), SystemClock(), asyncio.Event()
    events = []

    def keep_log(when):
        about = {"kind": "launch_log", "source": "file", "where": "node-1", "taken_ns": clock.now_ns()}
        store.keep(log.read_bytes(), **about, conditions={"when": when})

    keep_log("before")
    scraper = Scraper(plan.metrics_urls(), folder / "metrics", clock=clock)
    await scraper.start()
    async with HttpClient(plan.service, clock) as client:
        session = Session(
            plan=plan,
            profile=profile,
            model="kimi-k3",
            max_model_len=WINDOW,
            client=client,
            store=store,
            clock=clock,
            stop=stop,
            run_id="test",
        )
        async for event in run_capacity(session):
            events.append(event)
            if isinstance(event, StageStarted) and event.stage == stop_at:
                asyncio.get_running_loop().call_later(0.3, stop.set)
    await scraper.stop()
    keep_log("after")
    store.note(RunStopped(why="finished", at_ns=clock.now_ns()))
    store.close()
    close_metrics(folder / "metrics")
    return read_dossier(folder), events


class Outcomes:
    def __init__(self, dossier, events):
        self.dossier, self.events = dossier, events
        self.found = {f.code: f for f in capacity.findings(dossier)}

    def stages(self):
        return [e.stage for e in self.events if isinstance(e, StageStarted)]

    @property
    def measured(self):
        """Whether the client itself was fit to measure; on a busy machine it may not be, and then loads stay open."""
        records = self.dossier.records
        return sum(bool(r.disqualified) for r in records) <= 0.01 * len(records)


CASES = {
    "healthy": (),
    "small_cache": ("conc-kv-small=2",),
    "death": ("soak-engine-death=6",),
}
DEEP_CASES = {
    "wrong": ("long-wrong=8000",),
    "leak": ("soak-leak-kv=0.3",),
    "hang": ("soak-hang=6",),
    "inband": ("soak-inband-error=0.2",),
    "errors": ("conc-errors=3",),
    "slow": ("soak-degrade=0.05",),
}


def run_all(root: Path, cases):
    """Every case at the same time."""
    services = {name: start(faults, root=root / name / "host") for name, faults in cases.items()}

    async def every():
        made = await asyncio.gather(
            *(run_gate(root / name / "bundle", s.base_url, s.log) for name, s in services.items())
        )
        return dict(zip(services, made, strict=True))

    try:
        return {name: Outcomes(*made) for name, made in asyncio.run(every()).items()}
    finally:
        for service in services.values():
            service.stop()


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return run_all(tmp_path_factory.mktemp("capacity"), CASES)


@pytest.fixture(scope="module")
def deep_runs(tmp_path_factory):
    return run_all(tmp_path_factory.mktemp("capacity-deep"), DEEP_CASES)


def test_a_healthy_service_passes_every_check(runs):
    found = runs["healthy"].found
    bad = {code: (f.outcome, f.values) for code, f in found.items() if f.required and f.outcome is not Outcome.PASS}
    assert {outcome for outcome, _ in bad.values()} <= {Outcome.INCONCLUSIVE, Outcome.NOT_RUN}
    if runs["healthy"].measured:
        assert bad == {}
        assert found["capacity.concurrency.target"].values["held"] == 8
    assert found["capacity.long_input.window"].values["held"] == 16384


def test_every_stage_is_begun_and_finished_in_order(runs):
    for name, run in runs.items():
        begun = run.stages()
        ended = [e.stage for e in run.events if isinstance(e, StageFinished)]
        assert begun == ended, name
        assert begun[0] == "capacity.load"
    assert runs["healthy"].stages() == [
        "capacity.load",
        *(f"capacity.long_input.{tokens}" for tokens in (512, 4096, 16384)),
        *(f"capacity.concurrency.{streams}" for streams in (1, 4, 8)),
        "capacity.soak",
        "capacity.idle",
    ]


def test_records_are_in_the_bundle_before_they_are_seen(runs):
    run = runs["healthy"]
    yielded = {e.exchange.record.id for e in run.events if isinstance(e, RecordTaken)}
    stored = {r.id for r in run.dossier.records}
    assert yielded == stored
    assert len(stored) > 50


def test_long_prompts_have_exactly_the_tokens_asked_for(runs):
    for record in runs["healthy"].dossier.of_stage("capacity.long_input"):
        wanted = int(record.stage.rsplit(".", 1)[1])
        assert wanted - 8 <= record.prompt_tokens <= wanted, record.stage
        assert record.completion_tokens == 12


def test_no_prompt_shares_its_beginning_with_another(runs):
    bodies = []
    dossier = runs["healthy"].dossier
    for record in dossier.of_stage("capacity.long_input"):
        bodies.append(msgspec.json.decode(dossier.blob(record.request_digest))["messages"][0]["content"][:16])
    assert len(bodies) == len(set(bodies)) > 4


def test_a_small_cache_fails_the_load_by_name_and_is_cut_to_a_cap(runs):
    run = runs["small_cache"]
    target, cap = run.found["capacity.concurrency.target"], run.found["capacity.cap.returns"]
    assert target.outcome is not Outcome.PASS
    if run.measured:
        assert (target.outcome, target.cause, target.resource) == (Outcome.FAIL, Cause.CONCURRENCY, "kv")
        assert target.values["held"] in (1, 4)
        assert cap.values["cap"] == target.values["held"] or cap.outcome is not Outcome.PASS
        assert [s for s in run.stages() if s.startswith("capacity.cap.")]


def test_a_service_that_dies_is_evidence_and_ends_nothing_else(runs):
    run = runs["death"]
    alive = run.found["capacity.service.alive"]
    assert (alive.outcome, alive.bearing, alive.values["kind"]) == (Outcome.FAIL, Bearing.SERVICE, "died")
    assert alive.values["log_says"] == "illegal_access"
    assert any(e.stopped == "service_lost" for e in run.events if isinstance(e, StageFinished))
    assert {r.state for r in run.dossier.records} & {State.REFUSED, State.RESET, State.INBAND_ERROR}
    for code in ("capacity.soak.drift", "capacity.soak.kv_idle"):  # by then it is gone, however fast the climb was
        assert run.found[code].outcome is not Outcome.PASS, code


@pytest.mark.deep
@pytest.mark.parametrize(
    ("case", "code"),
    [
        ("wrong", "capacity.long_input.recall"),
        ("leak", "capacity.soak.kv_idle"),
        ("hang", "capacity.service.alive"),
        ("inband", "capacity.errors.inband"),
        ("errors", "capacity.errors.server"),
        ("slow", "capacity.soak.drift"),
    ],
)
def test_each_fault_of_the_service_is_caught_by_its_check(deep_runs, case, code):
    found = deep_runs[case].found[code]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.SERVICE)
    assert found.evidence or code == "capacity.service.alive"


@pytest.mark.deep
def test_fluent_nonsense_on_long_prompts_is_located(deep_runs):
    found = deep_runs["wrong"].found
    assert found["capacity.long_input.recall"].values["wrong_from_tokens"] == 16384
    assert found["capacity.long_input.window"].outcome is Outcome.PASS


async def test_an_interrupt_ends_the_gate_within_two_seconds(tmp_path):
    with start((), root=tmp_path / "host") as service:
        dossier, events = await run_gate(
            tmp_path / "bundle", service.base_url, service.log, stop_at="capacity.concurrency.8"
        )
    begun = next(e.at_ns for e in events if isinstance(e, StageStarted) and e.stage == "capacity.concurrency.8")
    ended = [e for e in events if isinstance(e, StageFinished)]
    assert ended[-1].stopped == "interrupted"
    assert (ended[-1].at_ns - begun) / 1e9 < 2.3
    found = {f.code: f for f in capacity.findings(dossier)}
    assert found["capacity.soak.errors"].outcome is Outcome.NOT_RUN
    assert found["capacity.concurrency.target"].outcome in (Outcome.NOT_RUN, Outcome.INCONCLUSIVE)


async def test_a_guard_rail_of_the_plan_is_kept(tmp_path):
    with start((), root=tmp_path / "host") as service:
        dossier, events = await run_gate(
            tmp_path / "bundle", service.base_url, service.log, more="caps: {requests: 20}"
        )
    assert len(dossier.records) <= 20 + 8
    assert [e.stopped for e in events if isinstance(e, StageFinished)][-1] == "guard_rail"
    assert {f.code: f for f in capacity.findings(dossier)}["capacity.concurrency.target"].outcome is not Outcome.PASS


def test_what_is_planned_is_at_least_what_a_healthy_run_sends(runs):
    plan = runs["healthy"].dossier.plan
    said = planned(plan, short_profile(), WINDOW)
    assert said.concurrency == 8
    assert said.requests > 30
    assert said.tokens > 2 * (4096 + 16384)
    assert said.seconds > 5
    capped = planned(replace(plan, caps=replace(plan.caps, requests=10)), short_profile(), WINDOW)
    assert capped.requests == 10

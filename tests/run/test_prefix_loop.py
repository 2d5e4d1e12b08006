"""The prefix gate's whole loop against the simulated service: healthy, each fault, a stop, a busy server."""

import asyncio
import secrets
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from msgspec.structs import replace

from signoff.bundle.folder import Folder
from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.core.dossier import Dossier
from signoff.core.events import Event, StageFinished, StageStarted
from signoff.core.finding import Finding
from signoff.core.plan_text import parse_plan
from signoff.core.profile import Profile
from signoff.core.words import Bearing, Outcome, State
from signoff.judge.prefix import findings
from signoff.run.again import read_dossier
from signoff.run.prefix import run_prefix
from signoff.run.profiles import load_profile
from signoff.run.session import Session
from signoff.sim.process import Simulated, start

PLAN = """schema: signoff/plan/1
name: prefix-loop
profile: kimi-k3-simulated
service: {{base_url: "{url}", gateway_url: {gateway}, model: kimi-k3, simulated: true, metrics: [{metrics}]}}
gates: [prefix]
objective: {{concurrency: {{target: 4, floor: 2}}, input_tokens: {{target: 4096, floor: 1024}}}}
"""
ROUNDS = 2
SLOW = "conc-slow-prefill=20000"
"""Prompts that take a quarter of a second, so that the saving shows on a busy machine too; nothing else is wrong."""
AT_ONCE = 4
BUSY = {"prefix.latency.effect"}
"""What a machine so busy that the client disqualifies its own records cannot tell."""
FAULTS = (
    "healthy",
    "prefix-off",
    "prefix-silent-off",
    "prefix-nonce",
    "prefix-sparse",
    "prefix-dead-counter",
    "prefix-false-hit",
    "prefix-evict",
    "soak-foreign-traffic",
)


def short_profile() -> Profile:
    profile = load_profile("kimi-k3-simulated")
    return replace(profile, floors=replace(profile.floors, prefix_rounds=ROUNDS))


async def run(
    service: Simulated,
    root: Path,
    *,
    profile: Profile,
    metrics: str = "",
    caps: str = "",
    watch: Callable[[Event, asyncio.Event], None] | None = None,
) -> tuple[list[Event], Dossier]:
    text = PLAN.format(url=service.base_url, gateway=service.gateway_url or "none", metrics=metrics)
    text += f"caps: {{{caps}}}\n" if caps else ""
    stop, clock = asyncio.Event(), SystemClock()
    plan = parse_plan(text)
    folder = Folder.create(root, text.encode(), profile)
    events: list[Event] = []
    async with HttpClient(plan.service, clock) as client:
        session = Session(
            plan=plan,
            profile=profile,
            model="kimi-k3",
            max_model_len=1_048_576,
            client=client,
            store=folder,
            clock=clock,
            stop=stop,
            run_id=secrets.token_hex(8),
        )
        async for event in run_prefix(session):
            events.append(event)
            if watch is not None:
                watch(event, stop)
    folder.close()
    return events, read_dossier(root)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[tuple[str, str], Finding]]:
    """Every fault's run, some at once: the simulated services mostly wait."""
    root = tmp_path_factory.mktemp("prefix")

    async def one(name: str, slots: asyncio.Semaphore) -> Dossier:
        faults = {"healthy": [SLOW], "prefix-sparse": [name, SLOW]}.get(name, [name])
        async with slots:
            with await asyncio.to_thread(start, faults, root=root / name / "host") as service:
                return (await run(service, root / name / "bundle", profile=short_profile()))[1]

    async def every() -> list[Dossier]:
        slots = asyncio.Semaphore(AT_ONCE)
        return await asyncio.gather(*(one(name, slots) for name in FAULTS))

    dossiers = asyncio.run(every())
    return {
        name: {(f.code, f.subject): f for f in findings(dossier)}
        for name, dossier in zip(FAULTS, dossiers, strict=True)
    }


Judged = dict[str, dict[tuple[str, str], Finding]]


def bad(found: dict[tuple[str, str], Finding]) -> set[str]:
    """Codes that fail, and those that are required and open."""
    return {
        f.code for f in found.values() if f.outcome is Outcome.FAIL or (f.required and f.outcome is not Outcome.PASS)
    }


def test_healthy_passes_all(judged: Judged) -> None:
    found = judged["healthy"]
    assert {f.code for f in found.values() if f.outcome is not Outcome.PASS} <= BUSY
    hits = found["prefix.hits.expected", ""]
    assert hits.values["hit_tokens"] == hits.values["expected_tokens"] == ROUNDS * 4 * 4608
    assert hits.values["echo"] == "same"
    assert hits.values["rendered_otherwise"] == 0


def test_the_saving_shows_on_the_clock(judged: Judged) -> None:
    found = judged["healthy"]["prefix.latency.effect", ""]
    assert found.outcome is Outcome.PASS or found.values["reason"] == "too_few_pairs"
    assert float(found.values["ttft_ms_saved"] or 0) > 0


def test_sparse_retention_is_lawful(judged: Judged) -> None:
    assert bad(judged["prefix-sparse"]) <= BUSY
    assert judged["prefix-sparse"]["prefix.unit.known", ""].values["retention"] == "sparse"


def test_off_is_a_launch_to_rework(judged: Judged) -> None:
    found = judged["prefix-off"]["prefix.caching.on", ""]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.LAUNCH)
    assert found.values["reason"] == "off_in_launch"


def test_inert_though_on_loses_the_hits(judged: Judged) -> None:
    found = judged["prefix-silent-off"]["prefix.hits.expected", ""]
    assert found.outcome is Outcome.FAIL
    assert found.values["rivals"] == "silently_disabled, head_changed"
    assert bad(judged["prefix-silent-off"]) == {"prefix.hits.expected"}


def test_a_changed_head_loses_the_hits_and_nothing_else(judged: Judged) -> None:
    found = judged["prefix-nonce"]
    assert bad(found) == {"prefix.hits.expected"}
    assert found["prefix.hits.expected", ""].values["reason"] == "head_changed"


def test_a_dead_counter_is_named(judged: Judged) -> None:
    found = judged["prefix-dead-counter"]
    assert found["prefix.channels.agree", ""].outcome is Outcome.FAIL
    assert found["prefix.channels.agree", ""].values["reason"] == "counter_not_wired"
    assert found["prefix.hits.expected", ""].outcome is Outcome.INCONCLUSIVE


def test_false_hits_condemn_the_service(judged: Judged) -> None:
    found = judged["prefix-false-hit"]["prefix.control.zero", ""]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.SERVICE)


def test_eviction_loses_the_hits(judged: Judged) -> None:
    found = judged["prefix-evict"]["prefix.hits.expected", ""]
    assert found.outcome is Outcome.FAIL
    assert found.values["reason"] == "evicted"
    assert bad(judged["prefix-evict"]) == {"prefix.hits.expected"}


def test_other_traffic_spoils_the_windows_and_condemns_nothing(judged: Judged) -> None:
    found = judged["soak-foreign-traffic"]
    assert found["prefix.quiet", ""].outcome is Outcome.INCONCLUSIVE
    assert found["prefix.quiet", ""].values["reason"] in ("other_traffic", "not_idle")
    assert found["prefix.hits.expected", ""].outcome is Outcome.INCONCLUSIVE
    assert Outcome.FAIL not in {f.outcome for f in found.values()}


async def test_the_unit_is_measured_when_the_server_does_not_say(tmp_path: Path) -> None:
    """A metrics page without `cache_config_info`, as some frontends have it."""

    async def stripped(request: web.Request) -> web.Response:
        async with ClientSession() as client, client.get(service.base_url + "/metrics") as answer:
            lines = (await answer.read()).splitlines(keepends=True)
        return web.Response(body=b"".join(line for line in lines if b"cache_config_info" not in line))

    app = web.Application()
    app.router.add_get("/metrics", stripped)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/metrics"
    try:
        with start(root=tmp_path / "host") as service:
            _, dossier = await run(service, tmp_path / "bundle", profile=short_profile(), metrics=url)
    finally:
        await runner.cleanup()
    found = {(f.code, f.subject): f for f in findings(dossier)}
    unit = found["prefix.unit.known", ""]
    assert (unit.outcome, unit.values["unit_tokens"], unit.values["source"]) == (Outcome.PASS, 1536, "measured")
    assert found["prefix.hits.expected", ""].outcome is Outcome.PASS


async def test_a_stop_ends_it_within_two_seconds(tmp_path: Path) -> None:
    since: list[float] = []

    def watch(event: Event, stop: asyncio.Event) -> None:
        if isinstance(event, StageStarted):
            asyncio.get_running_loop().call_later(1.0, lambda: (stop.set(), since.append(time.monotonic())))

    with start(root=tmp_path / "host") as service:
        events, dossier = await run(service, tmp_path / "bundle", profile=short_profile(), watch=watch)
    assert time.monotonic() - since[0] < 2.0
    last = events[-1]
    assert isinstance(last, StageFinished)
    assert last.stopped == "interrupted"
    assert all(r.state in (State.OK, State.ABORTED) for r in dossier.records)
    assert {f.outcome for f in findings(dossier) if f.code == "prefix.hits.expected"} == {Outcome.INCONCLUSIVE}


async def test_a_guard_rail_of_the_plan_ends_it_and_leaves_too_few_rounds(tmp_path: Path) -> None:
    with start(root=tmp_path / "host") as service:
        events, dossier = await run(service, tmp_path / "bundle", profile=short_profile(), caps="requests: 12")
    last = events[-1]
    assert isinstance(last, StageFinished)
    assert last.stopped == "guard_rail"
    assert len(dossier.records) == 12
    found = {(f.code, f.subject): f for f in findings(dossier)}
    for code in ("prefix.hits.expected", "prefix.control.zero", "prefix.output.same"):
        assert (found[code, ""].outcome, found[code, ""].required) == (Outcome.INCONCLUSIVE, True)


async def test_a_server_that_is_gone_is_not_judged_well(tmp_path: Path) -> None:
    service = start(root=tmp_path / "host")
    service.stop()
    events, dossier = await run(service, tmp_path / "bundle", profile=short_profile())
    assert isinstance(events[-1], StageFinished)
    assert Outcome.PASS not in {f.outcome for f in findings(dossier)}

"""The order of a run, on one screen. Loops yield events; the caller shows them; the bundle already has them.

environment  ->  (stop when a link is proved wrong)  ->  capacity  ->  prefix  ->  agent  ->  logs again  ->  seal
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

from signoff.bundle.folder import Folder
from signoff.bundle.metrics import close_metrics
from signoff.collect.client import HttpClient
from signoff.collect.clock import SystemClock
from signoff.collect.control import Control, key_of
from signoff.collect.scrape import Scraper
from signoff.collect.self_check import self_check
from signoff.core.events import Event, Progress, RecordTaken, RunStopped
from signoff.core.plan import Service
from signoff.core.words import Gate, Outcome
from signoff.judge import environment
from signoff.judge.decide import row_of
from signoff.judge.judgement import Judgement
from signoff.report.files import render_all
from signoff.run.again import judge_folder, read_dossier, write_results
from signoff.run.agent import run_agent
from signoff.run.capacity import run_capacity
from signoff.run.environment import collect_logs, run_environment
from signoff.run.prefix import run_prefix
from signoff.run.prepare import Setup
from signoff.run.session import Events, Session

COUNTED_NS = 200_000_000
"""A server's counters may be this much behind its answers: the last scrape is asked for later than that."""

HEALTH_TRIES_S = (1.0, 5.0)

LOOPS: dict[Gate, Callable[[Session], Events]] = {
    Gate.ENVIRONMENT: run_environment,
    Gate.CAPACITY: run_capacity,
    Gate.PREFIX: run_prefix,
    Gate.AGENT: run_agent,
}


async def run_plan(setup: Setup, path: Path, stop: asyncio.Event) -> AsyncIterator[Event]:
    """Run the plan into a new bundle at `path`. When `stop` is set, load ends within 2 s and what there is is kept."""
    folder = Folder.create(path, setup.plan_text, setup.profile, key_of(setup.plan.service))
    clock = SystemClock()
    why = "finished"
    async with AsyncExitStack() as stack:
        scraper = Scraper(setup.plan.metrics_urls(), path / "metrics", service=setup.plan.service, clock=clock)
        await scraper.start()
        stack.push_async_callback(scraper.stop)
        client = await stack.enter_async_context(HttpClient(setup.plan.service, clock))
        session = Session(
            plan=setup.plan,
            profile=setup.profile,
            model=setup.model,
            max_model_len=setup.max_model_len,
            client=client,
            store=folder,
            clock=clock,
            stop=stop,
            run_id=secrets.token_hex(8),
        )
        await scraper.seen_all(clock)  # counters as they stood before the first request
        for gate, loop in LOOPS.items():
            if gate not in setup.gates or stop.is_set():
                continue
            async for event in loop(session):
                yield event
                if live := _live(event, scraper):
                    yield live
            if gate is Gate.ENVIRONMENT and not setup.all_gates and chain_failed(path):
                why = "chain_failed"
                break
            if not await answers(setup.plan.service):
                why = "service_lost"
                break
            if gate is Gate.ENVIRONMENT:
                await self_check(session)
        await collect_logs(session, when="after")
        await clock.sleep_until(clock.now_ns() + COUNTED_NS)  # then the scraper's last look, as it stops
    stopped = RunStopped(why="interrupted" if stop.is_set() else why, at_ns=clock.now_ns())
    folder.note(stopped)
    folder.close()
    close_metrics(path / "metrics")
    yield stopped


async def answers(service: Service) -> bool:
    """Whether anything listens where the service did: what another gate would measure on a closed port is not it."""
    async with Control(service) as control:
        for wait_s in HEALTH_TRIES_S:
            if (await control.get("/health", wait_s)).status is not None:
                return True
            await asyncio.sleep(wait_s)
    return False


def _live(event: Event, scraper: Scraper) -> Progress | None:
    """The newest numbers of all servers, beside a record that was just taken."""
    if not isinstance(event, RecordTaken):
        return None
    lines = [line for line in scraper.live.values() if line.ok]
    running, waiting = (
        [x.running for x in lines if x.running is not None],
        [x.waiting for x in lines if x.waiting is not None],
    )
    usage = [x.kv_usage for x in lines if x.kv_usage is not None]
    return Progress(
        stage=event.exchange.record.stage,
        done=0,
        planned=0,
        running=sum(running) if running else None,
        waiting=sum(waiting) if waiting else None,
        kv_usage=max(usage, default=None),
    )


def chain_failed(path: Path) -> bool:
    """Whether the environment as collected so far is proved wrong (row 1 of the verdict table)."""
    return any(f.outcome is Outcome.FAIL and row_of(f) == 1 for f in environment.findings(read_dossier(path)))


def conclude(path: Path) -> Judgement:
    """Judge what lies in the bundle, write verdict, findings and reports, and seal."""
    dossier, judgement = judge_folder(path)
    write_results(path, judgement, render_all(dossier, judgement))
    return judgement

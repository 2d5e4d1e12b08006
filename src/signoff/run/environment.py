"""The environment gate's loop: every node probed, the server asked who it is, the launch logs read. No load."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from signoff.collect.control import Answer, Control, key_of
from signoff.collect.environment.transports import Taken, probe_node, read_logs
from signoff.core.events import EvidenceTaken, Progress, StageFinished, StageStarted
from signoff.core.evidence import Evidence, Value
from signoff.core.plan import Node, Service
from signoff.core.words import Gate
from signoff.run.session import Events, Session

STAGE = "environment.probe"
SECRET_BYTES_MIN = 6
RESOLVE_S = 5.0
T = TypeVar("T")


async def run_environment(session: Session) -> Events:
    """Stage `environment.probe`: all that the environment gate judges, as evidence."""
    conditions: dict[str, Value] = {"nodes": len(session.plan.nodes)}
    started = StageStarted(stage=STAGE, gate=Gate.ENVIRONMENT, at_ns=session.clock.now_ns(), conditions=conditions)
    session.store.note(started)
    yield started
    stopped = ""
    steps = _steps(session)
    for done, step in enumerate(steps, start=1):
        taken = await _unless_stopped(session, step())
        if taken is None:
            stopped = "interrupted"
            break
        for item in taken:
            yield EvidenceTaken(evidence=_store(session, item, STAGE))
        yield Progress(stage=STAGE, done=done, planned=len(steps))
    finished = StageFinished(stage=STAGE, gate=Gate.ENVIRONMENT, at_ns=session.clock.now_ns(), stopped=stopped)
    session.store.note(finished)
    yield finished


async def collect_logs(session: Session, when: str) -> list[Evidence]:
    """The launch logs and a second look at each node's processes, after the load: restarts and new warnings show."""
    cards = []
    for node in session.plan.nodes:
        for read in (read_logs, probe_node):
            cards += [_store(session, _when(item, when), "") for item in await read(node)]
    return cards


Step = Callable[[], Coroutine[Any, Any, list[Taken]]]


def _steps(session: Session) -> list[Step]:
    """What is to be observed, in order."""
    steps: list[Step] = []
    if not session.plan.nodes:
        missing = Taken(kind="probe", source="nodes", where="", missing="the plan names no node")
        steps.append(lambda: _given([missing, replace(missing, kind="launch_log")]))
    for node in session.plan.nodes:
        steps += [_node_step(node, probe_node), _node_step(node, _logs_before)]
    steps.append(lambda: ask_server(session.plan.service, session.plan.metrics_urls()))
    return steps


def _node_step(node: Node, read: Callable[[Node], Coroutine[Any, Any, list[Taken]]]) -> Step:
    return lambda: read(node)


async def _given(taken: list[Taken]) -> list[Taken]:
    return taken


async def _logs_before(node: Node) -> list[Taken]:
    return [_when(item, "before") for item in await read_logs(node)]


def _when(item: Taken, when: str) -> Taken:
    return replace(item, conditions={**item.conditions, "when": when})


async def _unless_stopped(session: Session, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`, or `None` when the run is stopped first; the work is then cancelled."""
    task, stop = asyncio.ensure_future(work), asyncio.ensure_future(session.stop.wait())
    try:
        await asyncio.wait((task, stop), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        await _cancel(task)
        await _cancel(stop)


async def _cancel(task: Awaitable[Any]) -> None:
    if isinstance(task, asyncio.Future) and not task.done():
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def ask_server(service: Service, metrics: tuple[str, ...]) -> list[Taken]:
    """Version, models, routes, one scrape and the host's addresses; and whether models are told without a key."""
    where = service.base_url.rstrip("/")
    paths = {"version": "/version", "models": "/v1/models", "routes": "/openapi.json"}
    async with Control(service) as control:
        taken = [_answer(kind, f"GET {path}", where, await control.get(path)) for kind, path in paths.items()]
        for url in metrics:
            taken.append(_answer("scrape", f"GET {url}", url, await control.get(url)))
    taken.append(await _resolved(where))
    async with Control(replace(service, api_key_env=None)) as stranger:
        answer = await stranger.get("/v1/models")
    source = "GET /v1/models without a key"
    if answer.status is None:
        return [*taken, Taken(kind="stranger", source=source, where=where, missing=answer.error)]
    told = json.dumps({"path": "/v1/models", "status": answer.status}).encode()
    return [*taken, Taken(kind="stranger", source=source, where=where, raw=told, media_type="application/json")]


async def _resolved(where: str) -> Taken:
    """The addresses that the URL's host has here: they tell on which of the plan's nodes it leads."""
    try:
        host = urlsplit(where).hostname or ""
        async with asyncio.timeout(RESOLVE_S):
            rows = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError) as error:
        return Taken(kind="resolved", source="getaddrinfo", where=where, missing=f"not resolved: {error}"[:300])
    told = json.dumps({"host": host, "addresses": sorted({str(row[4][0]) for row in rows})}).encode()
    return Taken(kind="resolved", source="getaddrinfo", where=where, raw=told, media_type="application/json")


def _answer(kind: str, source: str, where: str, answer: Answer) -> Taken:
    """The body of a successful answer; anything else is missing evidence with the reason."""
    if not answer.ok:
        why = answer.error or f"HTTP {answer.status}"
        return Taken(kind=kind, source=source, where=where, missing=why)
    conditions: dict[str, Value] = {
        name.replace("-", "_"): answer.headers[name] for name in ("content-type", "server") if name in answer.headers
    }
    media_type = answer.headers.get("content-type", "application/octet-stream").split(";")[0]
    return Taken(kind=kind, source=source, where=where, raw=answer.body, media_type=media_type, conditions=conditions)


def _store(session: Session, item: Taken, stage: str) -> Evidence:
    """Append one observation; the run's own API key never enters a bundle, whoever logged it."""
    now_ns = session.clock.now_ns()
    if item.raw is None:
        return session.store.miss(
            item.missing,
            kind=item.kind,
            source=item.source,
            where=item.where,
            taken_ns=now_ns,
            stage=stage,
            conditions=item.conditions,
        )
    key = key_of(session.plan.service)
    raw = item.raw
    if key and len(key) >= SECRET_BYTES_MIN:
        raw = raw.replace(key.encode(), b"[removed]")
    return session.store.keep(
        raw,
        kind=item.kind,
        source=item.source,
        where=item.where,
        taken_ns=now_ns,
        stage=stage,
        conditions=item.conditions,
        media_type=item.media_type,
    )

"""The environment gate's loop: what it appends, that it stops at once, that no key enters a bundle."""

import asyncio
import time
from pathlib import Path

import pytest
from answering_server import answering

from signoff.bundle.folder import Folder
from signoff.collect.clock import SystemClock
from signoff.core.events import Event, EvidenceTaken, StageFinished, StageStarted
from signoff.core.plan_text import parse_plan
from signoff.run.again import read_dossier
from signoff.run.environment import collect_logs, run_environment
from signoff.run.profiles import load_profile
from signoff.run.session import Session
from signoff.sim.host import HEALTHY, write_root

PLAN = """schema: signoff/plan/1
name: test
profile: kimi-k3-simulated
service: {{base_url: "{base_url}", model: served, simulated: true, api_key_env: {key}}}
nodes: {nodes}
objective: {{concurrency: {{target: 2, floor: 1}}, input_tokens: {{target: 1000, floor: 10}}}}
"""


def session_of(tmp_path: Path, base_url: str, nodes: str = "[]", key: str = "null") -> Session:
    text = PLAN.format(base_url=base_url, nodes=nodes, key=key)
    plan, profile = parse_plan(text), load_profile("kimi-k3-simulated")
    return Session(
        plan=plan,
        profile=profile,
        model="served",
        max_model_len=None,
        client=None,  # type: ignore[arg-type]
        store=Folder.create(tmp_path / "bundle", text.encode(), profile),
        clock=SystemClock(),
        stop=asyncio.Event(),
        run_id="r",
    )


async def events_of(session: Session) -> list[Event]:
    return [event async for event in run_environment(session)]


def cards(events: list[Event]) -> list[tuple[str, bool]]:
    return [(e.evidence.kind, bool(e.evidence.digest)) for e in events if isinstance(e, EvidenceTaken)]


async def test_nodes_logs_and_server_are_appended(tmp_path: Path) -> None:
    root = tmp_path / "root"
    write_root(root, HEALTHY, pid=4711, port=8000)
    (root / "launch.log").write_text("INFO one\n")
    nodes = f'[{{name: a, via: local, address: "{root}", logs: [launch.log]}}, {{name: b, via: ssh, address: b}}]'
    async with answering() as base_url:
        session = session_of(tmp_path, base_url, nodes)
        events = await events_of(session)
        await collect_logs(session, when="after")
    assert isinstance(events[0], StageStarted)
    assert isinstance(events[-1], StageFinished)
    assert events[-1].stopped == ""
    assert cards(events) == [
        ("probe", True),
        ("launch_log", True),
        ("probe", False),
        ("launch_log", False),
        ("version", True),
        ("models", True),
        ("routes", False),
        ("scrape", True),
        ("resolved", True),
        ("stranger", True),
    ]
    dossier = read_dossier(tmp_path / "bundle")
    assert dossier.started("environment.probe") is not None
    assert [e.conditions["when"] for e in dossier.of_kind("launch_log", "a")] == ["before", "after"]
    assert [e.conditions.get("when") for e in dossier.of_kind("probe", "a")] == [None, "after"]


async def test_a_plan_without_nodes_leaves_reasons(tmp_path: Path) -> None:
    async with answering() as base_url:
        events = await events_of(session_of(tmp_path, base_url))
    assert cards(events)[:2] == [("probe", False), ("launch_log", False)]


async def test_a_server_that_is_gone_is_missing_evidence(tmp_path: Path) -> None:
    events = await events_of(session_of(tmp_path, "http://127.0.0.1:9"))
    asked = ("probe", "launch_log", "version", "models", "routes", "scrape", "stranger")
    assert dict(cards(events)) == dict.fromkeys(asked, False) | {"resolved": True}


async def test_a_host_that_has_no_address_is_missing_evidence(tmp_path: Path) -> None:
    session = session_of(tmp_path, "http://no-such-host.invalid:9")
    assert dict(cards(await events_of(session)))["resolved"] is False


async def test_a_stop_ends_a_slow_probe_within_two_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr("signoff.collect.environment.transports.PROBE_SOURCE", slow)
    session = session_of(tmp_path, "http://127.0.0.1:9", "[{name: a, via: local}]")
    asyncio.get_running_loop().call_later(0.3, session.stop.set)
    began = time.monotonic()
    events = await events_of(session)
    assert time.monotonic() - began < 2
    assert isinstance(events[-1], StageFinished)
    assert events[-1].stopped == "interrupted"


async def test_the_api_key_never_enters_the_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", "the-key-of-this-run")
    (tmp_path / "l.log").write_text("non-default args: {'api_key': ['the-key-of-this-run']}\n")
    nodes = f'[{{name: a, via: file, address: "{tmp_path}"}}]'
    async with answering(key="the-key-of-this-run") as base_url:
        events = await events_of(session_of(tmp_path, base_url, nodes, "TEST_KEY"))
    assert ("models", True) in cards(events)
    dossier = read_dossier(tmp_path / "bundle")
    (stranger,) = dossier.of_kind("stranger")
    assert b"401" in dossier.blob(stranger.digest)
    for path in (tmp_path / "bundle").rglob("*"):
        assert not path.is_file() or b"the-key-of-this-run" not in path.read_bytes()

"""The agent gate, whole: from the simulated service to the finding."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from agent_session import AgentRun, run_gate

from signoff.core.events import RecordTaken, StageFinished, StageStarted
from signoff.core.words import Bearing, Cause, Outcome, State
from signoff.run.agent import budget
from signoff.run.profiles import load_profile
from signoff.sim.process import start


class _Html(BaseHTTPRequestHandler):
    """Answers everything with a page, HTTP 200."""

    def do_GET(self) -> None:
        self._page()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._page()

    def _page(self) -> None:
        page = b"<html>Welcome</html>"
        self.send_response(200)
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, AgentRun]:
    """Five runs side by side: they wait for their services, not for the processor."""
    root = tmp_path_factory.mktemp("agent")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Html)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    html = f"http://127.0.0.1:{server.server_port}"

    async def all_of_them() -> dict[str, AgentRun]:
        with (
            start(root=root / "host-a") as good,
            start(["args-string", "gateway-duplicate"], root=root / "host-b") as bad,
            start(["load-no-tool-parser"], root=root / "host-c") as parserless,
        ):
            made = await asyncio.gather(
                run_gate(root / "healthy", good.base_url, gateway=str(good.gateway_url), attempts=3),
                run_gate(root / "broken", bad.base_url, gateway=str(bad.gateway_url), attempts=3),
                run_gate(root / "parserless", parserless.base_url, attempts=3, attempts_max=6),
                run_gate(root / "html", html, gateway=html, attempts=3, attempts_max=6),
            )
            stopped = await run_gate(root / "stopped", good.base_url, stop_after=5)
            capped = await run_gate(root / "capped", good.base_url, caps="requests: 20")
            used = await run_gate(root / "used", good.base_url, caps="tokens: 1")
        names = ("healthy", "broken", "parserless", "html", "stopped", "capped", "used")
        return dict(zip(names, (*made, stopped, capped, used), strict=True))

    try:
        return asyncio.run(all_of_them())
    finally:
        server.shutdown()
        server.server_close()


def test_a_healthy_service_behind_a_healthy_gateway_passes(runs: dict[str, AgentRun]) -> None:
    run = runs["healthy"]
    assert {code: f.outcome for code, f in run.findings.items() if f.outcome is not Outcome.PASS} == {}
    assert run.findings["agent.one_tool.rate"].values["attempts"] == 6
    assert run.findings["agent.gateway.once"].values["sent"] == 20
    stages = [e.stage for e in run.events if isinstance(e, StageStarted)]
    assert stages == [
        "agent.template",
        "agent.one_tool",
        "agent.choose_tool",
        "agent.second_turn",
        "agent.structured",
        "agent.fallback",
        "agent.gateway",
        "agent.effects",
    ]
    assert [e.stage for e in run.events if isinstance(e, StageFinished)] == stages
    records = [e.exchange.record for e in run.events if isinstance(e, RecordTaken)]
    assert all(r.request_digest and r.response_digest for r in records)
    assert {r.labels["load"] for r in records if r.stage == "agent.one_tool"} == {"alone", "together"}


def test_double_encoded_arguments_and_a_gateway_that_sends_twice(runs: dict[str, AgentRun]) -> None:
    run = runs["broken"]
    found = run.findings["agent.one_tool.rate"]
    assert (found.outcome, found.bearing, found.cause) == (Outcome.FAIL, Bearing.CALLS, Cause.MODEL_PARSER)
    assert found.values["worst"] == "double_encoded"
    assert str(found.values["example"]).startswith('"{')
    assert run.findings["agent.structured.rate"].outcome is Outcome.PASS
    assert run.findings["agent.gateway.intact"].outcome is Outcome.INCONCLUSIVE
    once = run.findings["agent.gateway.once"]
    assert (once.outcome, once.bearing, once.cause) == (Outcome.FAIL, Bearing.EFFECT, Cause.GATEWAY)
    assert once.values["arrived"] == 40


def test_a_launch_without_parser_is_said_at_once(runs: dict[str, AgentRun]) -> None:
    run = runs["parserless"]
    found = run.findings["agent.launch.tools"]
    assert (found.outcome, found.bearing) == (Outcome.FAIL, Bearing.LAUNCH)
    choices = {r.labels.get("choice") for r in run.dossier.of_stage("agent.one_tool")}
    assert choices == {"required"}


def test_a_stop_ends_the_gate_within_two_seconds_and_proves_nothing(runs: dict[str, AgentRun]) -> None:
    run = runs["stopped"]
    assert run.seconds < 2
    assert Outcome.PASS not in {f.outcome for code, f in run.findings.items() if code.endswith(".rate")}
    started = [e.stage for e in run.events if isinstance(e, StageStarted)]
    assert [e.stage for e in run.events if isinstance(e, StageFinished)] == started
    assert all(e.stopped for e in run.events if isinstance(e, StageFinished) and e.stage != "agent.template")


@pytest.mark.parametrize(("name", "most"), [("capped", 20), ("used", 1)])
def test_a_guard_rail_of_the_plan_ends_the_gate_and_what_it_left_out_is_open(
    runs: dict[str, AgentRun], name: str, most: int
) -> None:
    run = runs[name]
    counted = [r for r in run.dossier.records if r.state is not State.ABORTED]
    assert len(counted) < most + 8  # what was in flight may end
    ended = [e for e in run.events if isinstance(e, StageFinished)]
    assert ended[-1].stopped == "guard_rail"
    assert [e.stage for e in run.events if isinstance(e, StageStarted)] == [e.stage for e in ended]
    for code in ("agent.fallback.rate", "agent.effects.once"):
        found = run.findings[code]
        assert (found.outcome, found.required) == (Outcome.NOT_RUN, True)


def test_a_server_that_is_no_service_passes_nothing(runs: dict[str, AgentRun]) -> None:
    run = runs["html"]
    passed = {code for code, f in run.findings.items() if f.outcome is Outcome.PASS}
    assert passed == {"agent.gateway.said"}
    assert run.findings["agent.one_tool.rate"].cause is Cause.NONE
    assert run.findings["agent.template.tools"].outcome is Outcome.INCONCLUSIVE
    assert {r.state for r in run.dossier.records} == {State.MALFORMED}


FAULTS = {
    "tool-markup-leak": ("agent.one_tool.rate", "markup_leak"),
    "tool-empty": ("agent.one_tool.rate", "empty_calls"),
    "tool-in-reasoning": ("agent.one_tool.rate", "in_reasoning"),
    "tool-wrong-name": ("agent.one_tool.rate", "invented_tool"),
    "tool-none": ("agent.one_tool.rate", "no_call"),
    "args-string": ("agent.one_tool.rate", "double_encoded"),
    "args-missing": ("agent.one_tool.rate", "missing_argument"),
    "args-wrong-type": ("agent.one_tool.rate", "wrong_type"),
    "args-broken-json": ("agent.one_tool.rate", "not_json"),
    "args-schema-broken": ("agent.structured.rate", "schema_broken"),
    "reasoning-leak": ("agent.reasoning.separate", None),
    "reasoning-lost": ("agent.reasoning.separate", None),
    "gateway-drop-reasoning": ("agent.gateway.intact", None),
    "gateway-drop-ids": ("agent.gateway.intact", "nameless"),
    "gateway-reencode": ("agent.gateway.intact", "double_encoded"),
    "gateway-cut": ("agent.gateway.intact", "transport"),
    "gateway-duplicate": ("agent.gateway.once", None),
    "retry-duplicate-effect": ("agent.gateway.once", None),
}


def test_the_budget_leaves_room_for_thoughts_where_there_are_any() -> None:
    assert budget(load_profile("kimi-k3"), thinks=False) == 2048
    assert budget(load_profile("generic-vllm"), thinks=True) == 2048
    assert budget(load_profile("generic-vllm"), thinks=False) == 256
    assert budget(load_profile("vllm-cpu"), thinks=False) == 128


@pytest.mark.deep
@pytest.mark.parametrize("fault", FAULTS)
async def test_every_fault_of_the_agent_gate_is_caught_and_blamed_on_its_side(tmp_path: Path, fault: str) -> None:
    code, worst = FAULTS[fault]
    with start([fault], root=tmp_path / "host") as sim:
        gateway = str(sim.gateway_url) if fault.startswith(("gateway", "retry")) else "none"
        run = await run_gate(
            tmp_path / "bundle", sim.base_url, gateway=gateway, limit=0.1, attempts=20, attempts_max=160
        )
    found = run.findings[code]
    assert found.outcome is Outcome.FAIL
    assert found.bearing in (Bearing.CALLS, Bearing.EFFECT)
    assert found.cause is (Cause.GATEWAY if gateway != "none" else Cause.MODEL_PARSER)
    if worst is not None:
        assert found.values["worst"] == worst
    if gateway != "none":
        assert all(f.outcome is Outcome.PASS for c, f in run.findings.items() if c.endswith(".rate"))


@pytest.mark.deep
async def test_a_share_at_the_limit_is_looked_at_again_and_a_large_one_is_not_missed(tmp_path: Path) -> None:
    with start(["args-broken-json=0.3"], root=tmp_path / "host") as sim:
        run = await run_gate(tmp_path / "bundle", sim.base_url, limit=0.1, attempts=20, attempts_max=160)
    assert run.findings["agent.one_tool.rate"].outcome is Outcome.FAIL

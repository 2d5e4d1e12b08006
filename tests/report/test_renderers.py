"""Every renderer on the crafted sample: golden texts, validity by the formats' own parsers, foreign text escaped."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import msgspec
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from report_sample import HOSTILE, dossier, judgement

from signoff.core.verdict import Verdict
from signoff.core.words import VerdictName
from signoff.report.files import BUNDLE_FILES, FORMATS, render, render_all
from signoff.report.text import summary

GOLDEN = Path(__file__).parent / "golden"
NAMES = [str(name) for name in VerdictName]


def rendered(form: str, name: str = "rework", hostile: bool = False) -> str:
    return render(dossier(hostile), judgement(name, hostile), form).decode()


@pytest.mark.parametrize("form", ["md", "json", "junit", "openmetrics"])
@pytest.mark.parametrize("name", ["rework", "limited"])
def test_golden(form: str, name: str) -> None:
    """`python tests/report/write_pages.py` writes them anew; look at what changed."""
    assert rendered(form, name) == (GOLDEN / f"{name}.{form}").read_text()


@pytest.mark.parametrize("form", FORMATS)
def test_the_same_judgement_gives_the_same_bytes(form: str) -> None:
    assert rendered(form) == rendered(form)


def test_a_bundle_gets_its_three_reports() -> None:
    files = render_all(dossier(), judgement())
    assert set(files) == set(BUNDLE_FILES) == {"report.html", "report.md", "junit.xml"}
    assert all(files.values())


def test_junit_counts_nothing_but_a_pass_as_passed() -> None:
    tree = ElementTree.fromstring(rendered("junit"))
    cases = {(s.get("name"), c.get("name")): {child.tag for child in c} for s in tree for c in s.iter("testcase")}
    assert "failure" in cases["environment", "environment.chain.cuda_runtime"]
    assert "error" in cases["environment", "environment.chain.process"], "required and inconclusive is no pass"
    assert "error" in cases["capacity", "capacity.soak.drift"], "required and not run is no pass"
    assert "skipped" in cases["agent", "agent.gateway.fields"]
    assert "skipped" in cases["agent", "agent.tool.arguments[structured, streamed]"]
    assert not {"failure", "error", "skipped"} & cases["environment", "environment.chain.driver"]
    assert [s.get("name") for s in tree][:4] == ["environment", "capacity", "prefix", "agent"]


@pytest.mark.parametrize("name", NAMES)
def test_junit_is_red_for_every_verdict_but_go(name: str) -> None:
    tree = ElementTree.fromstring(rendered("junit", name))
    verdict = next(s for s in tree if s.get("name") == "verdict")
    red = int(verdict.get("failures", 0)) + int(verdict.get("errors", 0))
    assert red == (0 if name == "go" else 1)


def test_a_gate_without_findings_is_no_green_suite() -> None:
    told = judgement()
    gates = msgspec.structs.replace(told.verdict.gates, capacity="not_run")
    bare = msgspec.structs.replace(
        told,
        findings=tuple(f for f in told.findings if f.gate != "capacity"),
        verdict=msgspec.structs.replace(told.verdict, gates=gates),
    )
    tree = ElementTree.fromstring(render(dossier(), bare, "junit"))
    suite = next(s for s in tree if s.get("name") == "capacity")
    assert suite.get("errors") == "1"


def test_openmetrics_is_read_by_the_reference_parser_and_names_one_verdict() -> None:
    families = {f.name: f for f in text_string_to_metric_families(rendered("openmetrics"))}
    told = {s.labels["signoff_verdict"]: s.value for s in families["signoff_verdict"].samples}
    assert {name for name, value in told.items() if value} == {"rework"}
    measured = {(s.labels["subject"], s.labels["name"]): s.value for s in families["signoff_measured"].samples}
    assert measured["32 streams", "ttft_ms_p99"] == 1804.9


def test_json_holds_the_verdict_file_and_the_sentences() -> None:
    told = json.loads(rendered("json"))
    sealed = msgspec.to_builtins(judgement().verdict)
    assert {key: told[key] for key in sealed} == json.loads(msgspec.json.encode(sealed))
    msgspec.convert({key: told[key] for key in sealed}, Verdict)
    assert all(finding["sentence"] for finding in told["findings"])


def test_foreign_markup_reaches_no_page_as_markup() -> None:
    page = rendered("html", hostile=True)
    assert HOSTILE not in page
    assert "&lt;script&gt;alert" in page, "it is shown, as text"
    opened = re.findall(r"<script[^>]*>", page)
    assert len(opened) == 3, "the data, the charts' script and the one that draws"


def test_foreign_markup_means_itself_in_markdown_and_xml_and_metrics() -> None:
    assert "<script" not in rendered("md", hostile=True).replace("\\<script", "")
    ElementTree.fromstring(rendered("junit", hostile=True))
    list(text_string_to_metric_families(rendered("openmetrics", hostile=True)))


def test_the_policy_of_the_page_allows_its_own_scripts_only() -> None:
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', rendered("html"))
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe-eval" not in policy[1]
    assert policy[1].count("sha256-") == 2
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]


def test_a_page_without_an_axis_holds_no_script() -> None:
    bare = msgspec.structs.replace(dossier(), records=[], metrics={})
    page = render(bare, judgement(), "html").decode()
    assert "<script" not in page
    assert "script-src &#39;none&#39;" in page
    assert len(page) < 200_000


def test_the_page_needs_no_network_and_stays_small() -> None:
    page = rendered("html")
    head = page.split('id="timeline-data"')[0]
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", head)
    assert "@import" not in head
    assert "url(" not in head
    assert len(page) < 6_000_000


def test_every_id_that_the_page_links_to_is_on_it_once() -> None:
    head = rendered("html").split('id="timeline-data"')[0]
    ids = re.findall(r'\bid="([^"]+)"', head)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', head)) <= set(ids)


@pytest.mark.parametrize("name", NAMES)
def test_the_terminal_summary(name: str) -> None:
    text = summary(judgement(name))
    lines = text.splitlines()
    assert "Simulated service" in lines[0]
    assert lines[1].startswith(name.upper())
    assert lines[-1].startswith("Next step: ")


def test_the_terminal_is_not_steered_by_what_a_server_said() -> None:
    told = judgement()
    subject = msgspec.structs.replace(told.verdict.subject, model="kimi\x1b[2J\x07k3\r\n")
    text = summary(msgspec.structs.replace(told, verdict=msgspec.structs.replace(told.verdict, subject=subject)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\r" not in text

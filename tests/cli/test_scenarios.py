"""Whole acceptances against the simulated service: every verdict, its exit code, its deciding row and code."""

import json
import shutil
import subprocess
import sys

import pytest

from signoff.bundle.columns import read_records

SIGNOFF = [sys.executable, "-m", "signoff"]


def demo(folder, *words):
    done = subprocess.run([*SIGNOFF, "demo", "-o", folder, *words], capture_output=True, text=True, timeout=150)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def results(folder):
    return json.loads((folder / "verdict.json").read_bytes()), json.loads((folder / "findings.json").read_bytes())


@pytest.fixture(scope="module")
def go(tmp_path_factory):
    folder = tmp_path_factory.mktemp("go") / "bundle"
    done = demo(folder)
    return folder, done


def test_go_ends_with_exit_0_and_says_simulated_everywhere(go):
    folder, done = go
    verdict, findings = results(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["scope"], findings["row"]) == ("go", None, 8)
    assert verdict["subject"]["simulated"] is True
    assert verdict["accepted"]["held"] == verdict["accepted"]["target"] == 32
    assert verdict["accepted"]["window"] == 131072
    assert set(verdict["gates"].values()) == {"pass"}
    assert [item["item"] for item in verdict["checklist"]] == list(range(1, 14))
    assert {item["outcome"] for item in verdict["checklist"]} == {"pass"}
    for name in ("report.html", "report.md", "junit.xml"):
        assert "imulated" in (folder / name).read_text()
    assert "imulated" in done.stdout


@pytest.mark.parametrize(
    ("scenario", "exit_code", "scope", "row", "code"),
    [
        ("limited", 10, None, 7, "prefix.hits.expected"),
        ("rework", 11, "environment", 1, "environment.chain.driver"),
        ("scale", 12, None, 5, "capacity.concurrency.floor"),
        ("incomplete", 13, None, 4, "environment.chain.driver"),
    ],
)
def test_each_other_verdict(tmp_path, scenario, exit_code, scope, row, code):
    done = demo(tmp_path / "bundle", "--scenario", scenario)
    verdict, findings = results(tmp_path / "bundle")
    assert done.returncode == exit_code, done.stdout + done.stderr
    assert (verdict["verdict"], verdict["scope"], findings["row"]) == (scenario, scope, row)
    assert verdict["reasons"][0]["code"] == code


def test_judged_again_without_results_gives_the_same_bytes(go, tmp_path):
    folder, _ = go
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    for name in ("verdict.json", "findings.json", "manifest.json", "report.html", "report.md", "junit.xml"):
        (copy / name).unlink()
    done = subprocess.run([*SIGNOFF, "judge", copy, "--json"], capture_output=True, timeout=60)
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "go"
    for name in ("verdict.json", "findings.json", "manifest.json", "report.html", "report.md", "junit.xml"):
        assert (copy / name).read_bytes() == (folder / name).read_bytes(), name


def test_a_changed_record_changes_the_result(go, tmp_path):
    folder, _ = go
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    stage = copy / "records" / "capacity.concurrency.32.parquet"
    records = read_records(stage)
    stage.unlink()
    lines = stage.with_suffix(".jsonl")
    import msgspec

    broken = msgspec.structs.replace(records[0], state="inband_error", error="planted")
    lines.write_bytes(b"".join(msgspec.json.encode(r) + b"\n" for r in [broken, *records[1:]]))
    done = subprocess.run([*SIGNOFF, "judge", copy], capture_output=True, text=True, timeout=60)
    assert done.returncode == 3
    assert "differ" in done.stderr


def test_every_format_renders_and_says_the_verdict(go):
    folder, _ = go
    for form, word in (
        ("md", "go"),
        ("json", "go"),
        ("junit", "<testsuites"),
        ("openmetrics", "# EOF"),
        ("html", "<html"),
    ):
        done = subprocess.run(
            [*SIGNOFF, "report", folder, "--format", form], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        assert word in done.stdout

"""What a server calls itself reaches neither the terminal as a command nor the reader turned around."""

import io
import json
import unicodedata

import pytest
from rich.console import Console
from test_wrong_usage import PLAN, serve, signoff  # noqa: F401

from signoff.core.events import EvidenceTaken, RunStopped, StageFinished, StageStarted
from signoff.core.evidence import Evidence
from signoff.core.words import Gate
from signoff.run.announce import announcement, unused
from signoff.run.prepare import Setup, read_plan
from signoff.run.profiles import load_profile
from signoff.terminal import Terminal

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202egnorw\u2066\r\nmodel"


def harmless(text: str) -> bool:
    return all(c == "\n" or unicodedata.category(c)[0] != "C" for c in text)


def listing(*names: str) -> bytes:
    return json.dumps({"data": [{"id": name} for name in names]}).encode()


@pytest.mark.parametrize("names", [(HOSTILE,), (HOSTILE, HOSTILE + "2"), ()])
def test_no_command_repeats_it_raw(tmp_path, serve, names):  # noqa: F811
    url, _ = serve(200, listing(*names))
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN.format(url=url, model="wrong"))
    load = ["load", "--base-url", url, "--streams", 1, "--requests", 1, "--output-tokens", 1, "--model", "wrong"]
    for words in (["run", plan], load):
        done = signoff(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert "does not serve `wrong`" in done.stderr
        assert harmless(done.stderr), repr(done.stderr)
    shown = signoff("init", "--base-url", url, cwd=tmp_path).stdout
    assert harmless(shown), repr(shown)


def test_what_the_person_gave_is_not_repeated_raw_either(tmp_path):
    for words in (["explain", HOSTILE], ["run", tmp_path / "x\x1b[2J.yaml"], ["diagnose", "y\u202e.log"]):
        done = signoff(*words, cwd=tmp_path)
        assert done.returncode == 2
        assert harmless(done.stderr), repr(done.stderr)


def setup(tmp_path, more: str = "") -> Setup:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.format(url="http://127.0.0.1:9", model="m") + more)
    plan, raw = read_plan(path)
    profile = load_profile(plan.profile)
    return Setup(plan=plan, plan_text=raw, profile=profile, model=HOSTILE, max_model_len=None, gates=plan.gates)


def test_the_announcement_is_harmless_and_says_how_long_and_how_to_stop(tmp_path):
    text = announcement(setup(tmp_path))
    assert harmless(text)
    assert "Ctrl-C stops" in text
    assert "the soak alone takes 45 s" in text
    assert "not used yet" not in text


def test_the_announcement_names_what_the_plan_sets_and_nothing_reads(tmp_path):
    made = setup(tmp_path, "rollback: {to: before, minutes: 15}\nstart: {command: [serve]}\nload: {mix: chat}\n")
    assert unused(made.plan) == ("start", "load.mix", "rollback.minutes")
    assert "said in the plan, not used yet: start, load.mix, rollback.minutes" in announcement(made)


def unseen(source: str = HOSTILE, why: str = f"[bold]{HOSTILE}[/]") -> EvidenceTaken:
    return EvidenceTaken(evidence=Evidence(kind="scrape", source=source, where=HOSTILE, taken_ns=1, missing=why))


def finished(stage: str) -> StageFinished:
    return StageFinished(stage=stage, gate=Gate.CAPACITY, at_ns=2, stopped=HOSTILE)


def test_the_display_says_a_reason_once_and_counts_the_rest():
    out = io.StringIO()
    with Terminal(Console(file=out, width=400)) as terminal:
        terminal.show(StageStarted(stage=HOSTILE, gate=Gate.CAPACITY, at_ns=1))
        for _ in range(21):
            terminal.show(unseen())
        terminal.show(unseen(why="another reason"))
        terminal.show(finished(HOSTILE))
        terminal.show(unseen())
        terminal.show(RunStopped(why=HOSTILE, at_ns=3))
    text = out.getvalue()
    assert harmless(text), repr(text)
    assert text.count("not observed scrape") == 2
    assert "not observed again, for the reasons above: scrape 20 times" in text
    assert "scrape 1 times" in text
    assert "[bold]" in text  # shown, not obeyed

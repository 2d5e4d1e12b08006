"""The rule table itself: names unique, patterns sound, whys sentences; and no bytes that break the reader."""

from pathlib import Path

import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.core.words import Cause
from signoff.read.case_file import read_case_file
from signoff.read.launch_log import read_launch_log
from signoff.read.launch_log_notes import RULES
from signoff.read.launch_log_scan import spaced

SAMPLES = [path.read_bytes() for path in sorted((Path(__file__).parent / "samples").glob("*.log"))]
PIECES = [line for sample in SAMPLES for line in sample.split(b"\n")[:60]] + [
    b"(", b"\x1b[", b"\x1b[0m", b"\r", b"\n", b"\x00", b"\xff\xfe", b"Error: ", b"ERROR 09-14 06:00:00 [x.py:1] ",
    b"Traceback (most recent call last):", b'  File "x", line 1, in y', b'{"log":"', b"data: ", b"| NVIDIA-SMI ", b"{",
    b"GPU0 X NV18", b"# TYPE a counter", b"vllm serve ", b"'\"\\", b"apiVersion: v1", b"<nvidia_smi_log>",
]  # fmt: skip


def test_rules_are_well_formed() -> None:
    kinds = [rule.kind for rule in RULES]
    assert len(kinds) == len(set(kinds))
    for rule in RULES:
        assert not re2.compile(spaced(rule.pattern)).search(""), f"{rule.kind} matches nothing at all"
        assert rule.why.endswith("."), rule.kind
        assert rule.family != "noise" or rule.cause is Cause.NONE, rule.kind


def test_no_rule_of_failure_matches_a_healthy_real_log() -> None:
    log = read_launch_log(SAMPLES[0])
    assert [note.kind for note in log.notes if note.family == "failure"] == []


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(raw: bytes) -> None:
    log = read_launch_log(raw)
    assert all(1 <= note.line <= log.lines for note in log.notes)
    read_case_file("x", raw)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.sampled_from([b"", b"\n"]))
def test_mutated_samples(raw: bytes, between: bytes) -> None:
    read_launch_log(raw + between + raw)
    read_case_file("x", raw)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 20_000), st.integers(0, 20_000))
def test_cut_samples(start: int, length: int) -> None:
    for sample in SAMPLES:
        log = read_launch_log(sample[start : start + length])
        assert log.lines <= sample.count(b"\n") + 1


def test_long_lines_and_many_notes_stay_bounded() -> None:
    log = read_launch_log(b"ERROR " + b"x" * 3_000_000 + b" CUDA out of memory " + b"y" * 3_000_000)
    assert max((len(note.text) for note in log.notes), default=0) <= 500
    many = read_launch_log(b"ERROR 09-14 06:00:00 [x.py:1] nobody knows\n" * 3000)
    assert len(many.notes) == 2000
    assert many.notes_dropped == 1000

"""`diagnose`: folders and files, packed or broken, and the shape of what comes out."""

import gzip
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.core.words import Cause, Severity, VerdictName
from signoff.errors import SignoffError
from signoff.judge.lean import judge_files
from signoff.read.case_file import read_case_file
from signoff.run.diagnose import diagnose, read_bounded, render_text

LOG = b"(EngineCore pid=4) ERROR 09-14 06:05:01 [core.py:1] ValueError: No available memory for the cache blocks.\n"


def test_folders_and_packed_files(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "vllm.log.gz").write_bytes(gzip.compress(LOG))
    (tmp_path / "a" / ".hidden").write_bytes(b"CUDA Error 803: x")
    found = diagnose([tmp_path])
    assert found.cause is Cause.TOPOLOGY
    assert found.findings[0].file == "a/vllm.log.gz"
    assert found.findings[0].line == 1
    assert found.findings[0].severity is Severity.FAIL


def test_a_cut_archive_still_gives_its_start(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(gzip.compress(LOG * 2000, compresslevel=0)[:90_000])
    assert diagnose([path]).cause is Cause.TOPOLOGY


def test_archives_packed_one_behind_the_other(tmp_path: Path) -> None:
    path = tmp_path / "vllm.log.gz"
    path.write_bytes(gzip.compress(b"INFO 09-14 06:00:00 [x.py:1] fine\n" * 9000) + gzip.compress(LOG))
    found = diagnose([path])
    assert (found.cause, found.findings[0].line) == (Cause.TOPOLOGY, 9001)


def test_large_files_keep_start_and_end(tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    path.write_bytes(b"first\n" + b"x" * 5000 + b"\nlast")
    raw = read_bounded(path, 1000)
    assert raw.startswith(b"first")
    assert raw.endswith(b"last")
    assert len(raw) <= 1001


def test_nothing_to_read_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(SignoffError, match="does not exist"):
        diagnose([tmp_path / "nowhere"])
    with pytest.raises(SignoffError, match="nothing to diagnose"):
        diagnose([tmp_path])


def test_an_empty_file_proves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.log").write_bytes(b"")
    found = diagnose([tmp_path])
    assert (found.cause, found.verdict) == (Cause.NONE, VerdictName.INCOMPLETE)


def test_json_has_the_fixed_keys(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_bytes(LOG)
    tree = msgspec.json.decode(msgspec.json.encode(diagnose([tmp_path])))
    assert list(tree) == ["cause", "phase", "verdict", "summary", "remedy", "findings"]
    assert set(tree["findings"][0]) == {"file", "line", "text", "severity", "cause", "why"}


def test_text_leads_with_the_verdict_and_prints_no_control_characters(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_bytes(b"ERROR 09-14 06:05:01 [x.py:1] MoonError: \x07\x1b]0;t\x9b2J full\n" + LOG)
    text = render_text(diagnose([tmp_path]))
    assert text.startswith("Verdict: rework")
    assert "vllm.log:2" in text
    assert not [c for c in text if not c.isprintable() and c != "\n"]


def test_rivals_are_named(tmp_path: Path) -> None:
    (tmp_path / "kernel.txt").write_bytes(b"NVRM: Xid (PCI:0000:3b:00): 94, pid=3011, Contained: memory error\n")
    (tmp_path / "vllm.log").write_bytes(
        b"(EngineCore pid=3) ERROR 09-05 15:17:40 [core.py:1] TimeoutError: RPC call to sample_tokens timed out.\n"
    )
    found = diagnose([tmp_path])
    assert found.cause is Cause.HARDWARE
    assert "sustained (vllm.log line 1" in found.summary


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["upstream.json", "gateway.sse", "client.txt", "a.jsonl"]), st.binary(max_size=200))
)
def test_any_bytes_are_judged(files: dict[str, bytes]) -> None:
    judge_files([read_case_file(name, raw) for name, raw in files.items()])

import json
import os

import pytest
from msgspec.structs import replace

from signoff.bundle.columns import read_records
from signoff.bundle.folder import Folder
from signoff.bundle.metrics import read_metrics
from signoff.bundle.reading import blobs, read_all_records, read_events, read_evidence
from signoff.bundle.seal import evidence_digest, seal
from signoff.core.codec import digest
from signoff.core.events import StageFinished, StageStarted
from signoff.core.profile import Cache, Floors, Profile
from signoff.core.record import Exchange, Record
from signoff.core.words import Gate, State
from signoff.errors import SignoffError

PROFILE = Profile(
    schema="signoff/profile/1",
    name="p",
    title="P",
    status="stable",
    scope="laboratory",
    checked_on="2026-12-01",
    architectures=("*",),
    platforms=("cpu",),
    sources=(),
    chain=(),
    cache=Cache(),
    floors=Floors(soak_s=1, soak_idle_s=1, hold_s=1),
)


def exchange(number, state=State.OK, stage="capacity.concurrency.2"):
    record = Record(
        id=f"r{number}",
        gate=Gate.CAPACITY,
        stage=stage,
        state=state,
        labels={"round": str(number)},
        planned_ns=number,
        sent_ns=number,
        written_ns=number + 1,
        first_content_ns=number + 5,
        chunk_ns=[number + 5, number + 7],
        end_ns=number + 9,
        prompt_tokens=3,
    )
    return Exchange(record=record, request=b"ask %d" % number, response=b"answer %d" % number)


@pytest.fixture
def folder(tmp_path):
    return Folder.create(tmp_path / "b", b"name: x\n", PROFILE)


def test_records_survive_closing_to_columns(folder):
    taken = [folder.take(exchange(n), keep=n % 2 == 0) for n in range(5)]
    lines = folder.path / "records" / "capacity.concurrency.2.jsonl"
    assert len(lines.read_bytes().splitlines()) == 5
    folder.note(StageFinished(stage="capacity.concurrency.2", gate=Gate.CAPACITY, at_ns=9))
    assert not lines.exists()
    assert read_records(lines.with_suffix(".parquet")) == taken
    assert read_all_records(folder.path) == taken


def test_bytes_are_kept_when_asked_for_and_always_on_failure(folder):
    assert folder.take(exchange(1), keep=False).response_digest == ""
    failed = folder.take(exchange(2, State.INBAND_ERROR), keep=False)
    assert blobs(folder.path)(failed.response_digest) == b"answer 2"
    assert blobs(folder.path)(failed.request_digest) == b"ask 2"


def test_a_half_written_last_line_is_left_out(folder):
    folder.take(exchange(1), keep=False)
    folder.take(exchange(2), keep=False)
    lines = folder.path / "records" / "capacity.concurrency.2.jsonl"
    os.truncate(lines, lines.stat().st_size - 7)
    assert [r.id for r in read_all_records(folder.path)] == ["r1"]


def test_cards_say_what_was_seen_and_what_was_not(folder):
    folder.keep(b"log", kind="launch_log", source="vllm.log", where="n1", taken_ns=5)
    folder.miss("404", kind="version", source="GET /version", where="s", taken_ns=6)
    folder.note(StageStarted(stage="s", gate=Gate.AGENT, at_ns=1))
    seen, missed = read_evidence(folder.path)
    assert (folder.path / "logs" / seen.digest).read_bytes() == b"log"
    assert missed.missing == "404"
    assert not missed.digest
    assert read_events(folder.path)[0].stage == "s"


def test_bytes_that_were_changed_are_not_there(folder):
    card = folder.keep(b"truth", kind="version", source="x", where="s", taken_ns=5)
    (folder.path / "evidence" / card.digest).write_bytes(b"lies!")
    with pytest.raises(KeyError):
        blobs(folder.path)(card.digest)


def test_the_manifest_covers_every_file_but_itself_and_signatures(folder):
    folder.take(exchange(1), keep=True)
    folder.close()
    before = evidence_digest(folder.path)
    (folder.path / "verdict.json").write_text("{}")
    (folder.path / "signoffs.intoto.jsonl").write_text("{}")
    assert evidence_digest(folder.path) == before
    sealed = seal(folder.path)
    manifest = json.loads((folder.path / "manifest.json").read_bytes())
    assert sealed == digest((folder.path / "manifest.json").read_bytes())
    paths = {file["path"] for file in manifest["files"]}
    assert {"plan.yaml", "profile.json", "verdict.json", "records/capacity.concurrency.2.parquet"} <= paths
    assert not paths & {"manifest.json", "signoffs.intoto.jsonl"}


def test_a_bundle_is_never_written_over(folder):
    with pytest.raises(SignoffError, match="not empty"):
        Folder.create(folder.path, b"", PROFILE)


def test_the_api_key_never_reaches_the_bundle(tmp_path):
    key = "sk-very-secret-0815"
    folder = Folder.create(tmp_path / "b", b"name: x\n", PROFILE, key)
    told = exchange(1, State.HTTP_ERROR)
    told = Exchange(
        record=replace(told.record, error=f"bad key {key}"),
        request=told.request,
        response=f'{{"error": "no such key {key}"}}'.encode(),
    )
    assert key not in folder.take(told, keep=True).error
    folder.keep(f"log {key}".encode(), kind="launch_log", source="s", where="n", taken_ns=1)
    assert key not in folder.miss(f"401: {key}", kind="version", source="s", where="n", taken_ns=1).missing
    folder.close()
    assert not [path for path in folder.path.rglob("*") if path.is_file() and key.encode() in path.read_bytes()]


def test_a_card_holds_exactly_one_of_bytes_and_a_reason(folder):
    folder.miss("404", kind="version", source="GET /version", where="s", taken_ns=6)
    index = folder.path / "evidence" / "index.jsonl"
    index.write_bytes(index.read_bytes().replace(b'"missing":"404"', b'"missing":""'))
    with pytest.raises(SignoffError, match="both or neither"):
        read_evidence(folder.path)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"junk" * 50])
def test_damaged_metrics_are_the_bundles_fault_not_ours(tmp_path, raw):
    (tmp_path / "000-s.parquet").write_bytes(raw)
    with pytest.raises(SignoffError, match="not readable") as caught:
        read_metrics(tmp_path)
    assert caught.value.exit_code == 2

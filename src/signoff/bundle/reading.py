"""Reading a bundle folder back: cards, events, records, blobs. Nothing here has an opinion."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import msgspec

from signoff.bundle.columns import read_records
from signoff.core.codec import digest, from_json
from signoff.core.events import StoredEvent
from signoff.core.evidence import Evidence
from signoff.core.profile import Profile
from signoff.core.record import Record
from signoff.errors import SignoffError

T = TypeVar("T")
DAMAGED = "The bundle was changed or damaged."


def _lines(path: Path, kind: type[T]) -> list[T]:
    """One noun a line; a half-written last line is left out, a broken one in the middle is an error."""
    if not path.exists():
        return []
    raw = path.read_bytes()
    found = []
    for number, line in enumerate(raw[: raw.rfind(b"\n") + 1].splitlines(), start=1):
        if line:
            try:
                found.append(from_json(line, kind))
            except msgspec.DecodeError as error:
                raise SignoffError(f"{path}:{number}: not readable: {error}", DAMAGED) from None
    return found


def read_evidence(folder: Path) -> list[Evidence]:
    cards = _lines(folder / "evidence" / "index.jsonl", Evidence)
    for number, card in enumerate(cards, start=1):
        if bool(card.digest) == bool(card.missing):
            raise SignoffError(
                f"{folder / 'evidence' / 'index.jsonl'}: card {number} holds both or neither of digest and missing",
                DAMAGED,
            )
    return cards


def read_events(folder: Path) -> list[StoredEvent]:
    return _lines(folder / "evidence" / "events.jsonl", StoredEvent)  # type: ignore[arg-type]


def read_all_records(folder: Path) -> list[Record]:
    """Every record, in the order in which requests were sent."""
    found: list[Record] = []
    for path in sorted((folder / "records").glob("*")):
        if path.suffix in (".jsonl", ".parquet"):
            try:
                found += read_records(path)
            except (msgspec.DecodeError, OSError, ValueError, KeyError) as error:
                raise SignoffError(f"{path}: not readable: {error}", DAMAGED) from None
    return sorted(found, key=lambda record: (record.sent_ns, record.id))


def read_profile(folder: Path) -> Profile:
    path = folder / "profile.json"
    try:
        return from_json(path.read_bytes(), Profile)
    except (OSError, msgspec.DecodeError) as error:
        raise SignoffError(f"{path}: not readable: {error}", "Give the folder that a run left.") from None


def blobs(folder: Path) -> Callable[[str], bytes]:
    """A reader of raw bytes by digest; bytes that do not have the digest are as good as none."""

    def blob(name: str) -> bytes:
        for place in ("evidence", "logs"):
            path = folder / place / name
            if len(name) == 64 and path.is_file():
                raw = path.read_bytes()
                if digest(raw) == name:
                    return raw
        raise KeyError(name)

    return blob

"""Folder: the bundle while a run writes it. Append-only, and whole after a kill at any instant.

plan.yaml  profile.json                 as the run began
evidence/index.jsonl                    one card a line        evidence/<sha256>   raw bytes
evidence/events.jsonl                   stages begun and ended
records/<stage>.jsonl                   one request a line     (closed to records/<stage>.parquet)
logs/<sha256>                           raw launch logs
metrics/                                written by the scraper
"""

import os
import re
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import replace

from signoff.bundle.columns import close_records
from signoff.core.codec import digest, to_json, to_pretty_json
from signoff.core.events import StageFinished, StoredEvent
from signoff.core.evidence import Evidence, Value
from signoff.core.profile import Profile
from signoff.core.record import Exchange, Record
from signoff.core.words import State
from signoff.errors import SignoffError

LOG_KINDS = ("launch_log",)
REDACTED = "[api key removed]"
SECRET_CHARACTERS_MIN = 4
"""A key shorter than this would take half of every text with it."""


class Folder:
    """An open bundle; implements `core.protocols.Store`."""

    def __init__(self, path: Path, secret: str | None = None) -> None:
        self.path = path
        self._secret = secret if secret and len(secret) >= SECRET_CHARACTERS_MIN else None
        self._files: dict[str, BinaryIO] = {}

    @classmethod
    def create(cls, path: Path, plan_text: bytes, profile: Profile, secret: str | None = None) -> "Folder":
        """A new bundle at `path`, which must not exist or be empty. `secret` is the API key: a server that sends it
        back does not bring it in here."""
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise SignoffError(
                f"{path}: is there already and not empty",
                "Give another folder with -o; a bundle is never written over.",
            )
        try:
            for name in ("evidence", "records", "metrics", "logs"):
                (path / name).mkdir(parents=True, exist_ok=True)
            (path / "plan.yaml").write_bytes(plan_text)
            (path / "profile.json").write_bytes(to_pretty_json(profile))
        except OSError as error:
            raise SignoffError(
                f"{path}: cannot write: {error.strerror}", "Give a folder that can be written."
            ) from None
        return cls(path, secret)

    def keep(
        self,
        raw: bytes,
        *,
        kind: str,
        source: str,
        where: str,
        taken_ns: int,
        stage: str = "",
        conditions: dict[str, Value] | None = None,
        media_type: str = "application/octet-stream",
    ) -> Evidence:
        card = Evidence(
            kind=kind,
            source=source,
            where=where,
            taken_ns=taken_ns,
            stage=stage,
            conditions=conditions or {},
            digest=self._blob(raw, "logs" if kind in LOG_KINDS else "evidence"),
            bytes=len(raw),
            media_type=media_type,
        )
        self._append("evidence/index.jsonl", to_json(card))
        return card

    def miss(
        self,
        why: str,
        *,
        kind: str,
        source: str,
        where: str,
        taken_ns: int,
        stage: str = "",
        conditions: dict[str, Value] | None = None,
    ) -> Evidence:
        card = Evidence(
            kind=kind,
            source=source,
            where=where,
            taken_ns=taken_ns,
            stage=stage,
            conditions=conditions or {},
            missing=self._without_secret(why) or "no reason was given",
        )
        self._append("evidence/index.jsonl", to_json(card))
        return card

    def take(self, exchange: Exchange, keep: bool) -> Record:
        record = exchange.record
        if self._secret is not None and self._secret in record.error:
            record = replace(record, error=self._without_secret(record.error))
        if keep or record.state not in (State.OK, State.ABORTED):
            record = replace(
                record,
                request_digest=self._blob(exchange.request, "evidence"),
                response_digest=self._blob(exchange.response, "evidence") if exchange.response else "",
            )
        self._append(f"records/{stage_file(record.stage)}.jsonl", to_json(record))
        return record

    def note(self, event: StoredEvent) -> None:
        self._append("evidence/events.jsonl", to_json(event))
        if isinstance(event, StageFinished):
            self._close_stage(event.stage)

    def close(self) -> None:
        """Close every stage that is still open, and every file."""
        for name in sorted(self._files):
            self._files[name].close()
        self._files.clear()
        for path in sorted((self.path / "records").glob("*.jsonl")):
            close_records(path)

    def _close_stage(self, stage: str) -> None:
        name = f"records/{stage_file(stage)}.jsonl"
        file = self._files.pop(name, None)
        if file is not None:
            file.close()
            close_records(self.path / name)

    def _append(self, name: str, line: bytes) -> None:
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = (self.path / name).open("ab", buffering=0)
        file.write(line + b"\n")

    def _without_secret(self, text: str) -> str:
        return text if self._secret is None else text.replace(self._secret, REDACTED)

    def _blob(self, raw: bytes, folder: str) -> str:
        if self._secret is not None:
            raw = raw.replace(self._secret.encode(), REDACTED.encode())
        name = digest(raw)
        path = self.path / folder / name
        if not path.exists():
            part = path.with_name(f".{name}.part")
            part.write_bytes(raw)
            os.replace(part, path)
        return name


def stage_file(stage: str) -> str:
    """The file name of a stage's records: the stage's name, anything odd replaced."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", stage)[:120] or "unnamed"

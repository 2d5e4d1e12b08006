"""Records as columns: an append-only JSONL closed to zstd Parquet once its stage has ended, content checked first."""

import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from signoff.core.codec import from_json, to_json
from signoff.core.record import Record

_NUMBERS = (
    "planned_ns",
    "sent_ns",
    "connected_ns",
    "written_ns",
    "first_byte_ns",
    "first_event_ns",
    "first_reasoning_ns",
    "first_content_ns",
    "first_tool_ns",
    "end_ns",
    "status",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "reasoning_tokens",
)
_WORDS = (
    "id",
    "gate",
    "stage",
    "state",
    "error",
    "finish_reason",
    "request_digest",
    "response_digest",
    "disqualified",
)
SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in _WORDS]
    + [pa.field(name, pa.int64()) for name in _NUMBERS]
    + [
        pa.field("stream", pa.bool_()),
        pa.field("labels", pa.string()),
        pa.field("chunk_ns", pa.list_(pa.int64())),
    ]
)


def read_records(path: Path) -> list[Record]:
    """The records of one stage file, JSONL or Parquet; a half-written last line is left out."""
    if path.suffix == ".parquet":
        return [_from_row(row) for row in pq.read_table(path).to_pylist()]
    raw = path.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    return [from_json(line, Record) for line in whole.splitlines() if line]


def close_records(path: Path) -> None:
    """Turn `<stage>.jsonl` into `<stage>.parquet`; the lines go only after the columns were read back equal."""
    records = read_records(path)
    target = path.with_suffix(".parquet")
    if target.exists():
        records = read_records(target) + records
    if not records:
        path.unlink()
        return
    part = path.with_suffix(".parquet.part")
    table = pa.Table.from_pylist([_to_row(record) for record in records], schema=SCHEMA)
    pq.write_table(table, part, compression="zstd")
    if [_from_row(row) for row in pq.read_table(part).to_pylist()] != records:
        part.unlink()
        raise RuntimeError(f"{path.name}: the columns differ from the lines; the lines stay")
    os.replace(part, target)
    path.unlink()


def _to_row(record: Record) -> dict[str, Any]:
    row = {name: getattr(record, name) for name in record.__struct_fields__}
    return row | {
        "gate": str(record.gate),
        "state": str(record.state),
        "labels": to_json(record.labels).decode(),
    }


def _from_row(row: dict[str, Any]) -> Record:
    return msgspec.convert(row | {"labels": msgspec.json.decode(row["labels"])}, Record)

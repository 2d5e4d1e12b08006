"""The only serialiser of our nouns: canonical JSON bytes, and back with types checked.

Canonical means: object keys in struct order (mappings sorted), no blanks, UTF-8, floats rounded by `core.rounding`
before they get here. Two equal nouns give equal bytes on any machine.
"""

import hashlib
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder(order="deterministic")


def to_json(noun: Any) -> bytes:
    """`noun` as canonical JSON, no newline at the end."""
    return _ENCODER.encode(noun)


def to_pretty_json(noun: Any) -> bytes:
    """`noun` as canonical JSON indented by two, newline at the end: for files that people open."""
    return msgspec.json.format(_ENCODER.encode(noun), indent=2) + b"\n"


def from_json(raw: bytes | str, kind: type[T]) -> T:
    """The noun of type `kind` in `raw`; `msgspec.ValidationError` or `DecodeError` when it is not one."""
    return msgspec.json.decode(raw, type=kind)


def digest(raw: bytes) -> str:
    """SHA-256 of `raw` as 64 hex digits."""
    return hashlib.sha256(raw).hexdigest()

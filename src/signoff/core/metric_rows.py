"""Lines of the scraper's append-only column files: what it writes and the bundle reads, one JSON array a line.

A file begins with a `MetricHead`. A scrape is a `MetricRow` that holds only what changed since the one before; a
series is named once, when it first appears, and is its place in that order from then on.
"""

from typing import TypeAlias

import msgspec
from msgspec import Struct

ROWS_SUFFIX = ".rows.jsonl"
RAW_SUFFIX = ".scrapes.zst"


class MetricHead(Struct, frozen=True, array_like=True, tag="server"):
    server: str
    """The metrics URL."""
    period_s: float


class MetricRow(Struct, frozen=True, array_like=True, tag="row"):
    t_ns: int
    """When the scrape was asked for, on the run's axis."""
    new: list[str]
    """Keys of series that appear for the first time."""
    at: list[int]
    """Places of the series whose value changed or came back."""
    values: list[float | str]
    """Their values; what JSON cannot say is `"NaN"`, `"inf"`, `"-inf"`."""
    gone: list[int]
    """Places of the series that the one before held and this one does not."""


class MetricMiss(Struct, frozen=True, array_like=True, tag="miss"):
    """A scrape that got no answer."""

    t_ns: int
    why: str


MetricLine: TypeAlias = MetricHead | MetricRow | MetricMiss
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(MetricLine)


def encode_line(line: MetricLine) -> bytes:
    """One line, its newline included."""
    return _encoder.encode(line) + b"\n"


def decode_line(raw: bytes) -> MetricLine | None:
    """`None` for anything that is no whole line, such as the last one of a killed process."""
    try:
        return _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

"""One `/metrics` body: bytes in, series out. Prometheus text format and OpenMetrics; bounded, never raises.

Keys are canonical: the exposition name and its labels sorted by name, values escaped as exposed, so that two servers
that order labels differently give equal keys: `vllm:num_requests_running{engine="0",model_name="m"}`.
"""

import functools
import re

from msgspec import Struct

SERIES_MAX = 100_000
LINE_CHARS_MAX = 65_536
_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL = r'[ \t]*([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\.)*)"[ \t]*'
_HEAD = re.compile(rf"({_NAME})(?:[ \t]*\{{((?:{_LABEL},)*(?:{_LABEL})?)[ \t]*\}})?")
_ONE_LABEL = re.compile(_LABEL)


class Scrape(Struct, frozen=True, kw_only=True):
    """What one body says. A value may be NaN or infinite where the server said so."""

    series: dict[str, float]
    types: dict[str, str] = {}
    """Family name as in its `# TYPE` line to type: `counter`, `gauge`, `histogram`, `summary`, `info`, ..."""
    created: dict[str, float] = {}
    """Unix seconds of the `_created` samples, under the key they speak of without that suffix; not in `series`."""
    ended: bool = False
    """OpenMetrics `# EOF` was seen."""
    faults: int = 0
    """Lines that are no exposition, repeated series and what is beyond the bounds."""

    def total(self, name: str) -> float | None:
        """The sum of all series of `name`; `None` when the body holds none."""
        found = [value for key, value in self.series.items() if key.partition("{")[0] == name]
        return sum(found) if found else None

    def highest(self, name: str) -> float | None:
        found = [value for key, value in self.series.items() if key.partition("{")[0] == name]
        return max(found) if found else None


def read_scrape(raw: bytes) -> Scrape:
    """The series of a body, in its order; the first of a repeated series counts."""
    series: dict[str, float] = {}
    types: dict[str, str] = {}
    created: dict[str, float] = {}
    faults, ended = 0, False
    for line in raw.decode("utf-8", "replace").split("\n"):
        if not line or line == "\r":
            continue
        if line[0] == "#":
            if line.startswith("# TYPE "):
                parts = line.split()
                if len(parts) == 4:
                    types[parts[2]] = parts[3]
            ended = ended or line.rstrip() == "# EOF"
            continue
        read = _sample(line) if len(line) <= LINE_CHARS_MAX else None
        if read is None:
            faults += bool(line.strip())
            continue
        key, value = read
        name, brace, labels = key.partition("{")
        kept = series
        if name.endswith("_created"):
            kept, key = created, name[: -len("_created")] + brace + labels
        if key in kept or len(series) >= SERIES_MAX:
            faults += 1
        else:
            kept[key] = value
    return Scrape(series=series, types=types, created=created, ended=ended, faults=faults)


def _sample(line: str) -> tuple[str, float] | None:
    """The short road: `name{labels} value`, and nothing after it."""
    head, blank, rest = line.rpartition(" ")
    if blank and (value := _number(rest)) is not None and (key := _key(head)) is not None:
        return key, value
    return _odd_sample(line)


def _odd_sample(line: str) -> tuple[str, float] | None:
    """Timestamps, exemplars, blanks and tabs in unusual places."""
    line = line.strip(" \t\r")
    match = _HEAD.match(line)
    if match is None:
        return None
    rest = line[match.end() :].partition(" # ")[0].split()
    if not 1 <= len(rest) <= 2 or (len(rest) == 2 and _number(rest[1]) is None):
        return None
    value, key = _number(rest[0]), _key(match.group())
    return None if value is None or key is None else (key, value)


def _number(text: str) -> float | None:
    """A Go float as exposed; Python's digit groups are none."""
    if "_" in text:
        return None
    try:
        return float(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=32_768)
def _key(head: str) -> str | None:
    """The canonical key of `name{labels}`; the same few thousand heads come every second, so they are remembered."""
    match = _HEAD.fullmatch(head)
    if match is None:
        return None
    labels = _ONE_LABEL.findall(match.group(2) or "")
    if not labels:
        return match.group(1)
    names = [name for name, _ in labels]
    if len(set(names)) != len(names):
        return None
    inside = ",".join(f'{name}="{value}"' for name, value in sorted(labels))
    return f"{match.group(1)}{{{inside}}}"

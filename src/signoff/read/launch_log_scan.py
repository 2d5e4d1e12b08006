"""From bytes to the few lines of a launch log that say something: cleaned, numbered, with their prefix read."""

import re
from bisect import bisect_right
from collections.abc import Iterator

import re2
from msgspec import Struct

LINE_CHARS_MAX = 4000
_PASTED_LINES_MAX = 60  # so short a text may have been cut at only one or two places
_WRAP_SAMPLE_LINES, _WRAP_WIDTH_MIN, _WRAP_WIDTH_MAX, _WRAP_BYTES_MAX = 4000, 60, 500, 8 << 20


def options(mebibytes: int = 256) -> re2.Options:
    """Latin-1 so that any bytes match, and room for the automaton of many patterns."""
    made = re2.Options()
    made.max_mem = mebibytes << 20
    made.encoding = re2.Options.Encoding.LATIN1
    made.log_errors = False
    return made


def spaced(pattern: str) -> str:
    """The pattern with every blank outside a class standing for any white space, line ends too."""
    out, in_class, i = [], False, 0
    while i < len(pattern):
        c = pattern[i]
        if c == "\\":
            out.append(pattern[i : i + 2])
            i += 2
            continue
        if c == "[" and not in_class:
            in_class = True
        elif c == "]" and in_class:
            in_class = False
        if c == " " and not in_class:
            quantifier = pattern[i + 1 : i + 2]
            optional = quantifier in ("?", "*")
            out.append(r"\s*" if optional else r"\s+")
            i += 2 if quantifier in ("?", "*", "+") else 1
            continue
        out.append(c)
        i += 1
    return "".join(out)


def pattern(text: str, mebibytes: int = 8) -> re2._Regexp:
    """A compiled pattern for bytes; `spaced` is applied."""
    return re2.compile(spaced(text).encode(), options(mebibytes))


def texts(found: re2._Match) -> dict[str, str]:
    """The named groups that took part, as text."""
    return {name.decode(): value.decode("utf-8", "replace") for name, value in found.groupdict().items() if value}


class Line(Struct, frozen=True):
    """One line of interest. `message` is what stands after the prefix; `data` the line's bytes, prefix and all."""

    number: int
    data: bytes
    text: str
    message: str
    process: str
    level: str
    stamp: str


_HEAD_BYTES = 400  # how much of a line may hold its prefix
_ESCAPE = re2.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\n]*\x07|\x1b[()][A-Za-z0-9]|\[[0-9;]{1,8}m", options(8))
# the standard engine: on heads of 400 bytes with bounded repeats it is quicker to call than re2 and as safe
_PREFIX = re.compile(
    rb"(?:\((?P<process>[A-Za-z][\w.-]{0,60})[^()\n]{0,60}\bpid=\d{1,10}[^()\n]{0,60}\)\s*)?"
    rb"\b(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL|FATAL)\s+"
    rb"(?:(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)?\s*)?(?:\[[^\]\s]{1,120}\]|[\w./-]{1,120}:\d+\])",
)
_PROCESS = re.compile(rb"\((?P<process>[A-Za-z][\w.-]{0,60})[^()\n]{0,60}\bpid=\d{1,10}[^()\n]{0,60}\)\s?")
_OTHER_LEVEL = re.compile(
    rb"\b(?P<level>WARNING|ERROR|CRITICAL|FATAL|WARN|INFO|DEBUG)\b[:\]\s]|\[(?P<glog>[EWF])\d{3,4} |"
    rb"\[(?P<nginx>error|warn|crit|alert|emerg)\]",
)
_STAMP = re.compile(rb"\b(?:\d{4}[-/])?(?P<stamp>\d\d[-/]\d\d[ T]\d\d:\d\d:\d\d)")
_NEW_LINE = re2.compile(
    rb"^(?:\(|\[|INFO|WARN|ERROR|DEBUG|CRITICAL|\d{4}[-/]\d\d|Traceback|\s\s|\t|Loading |Capturing |"
    rb"[\w.]+(?:Error|Exception):|[\w.-]+:\d+:\d+ \[)",
    options(),
)
_GLOG = {"E": "ERROR", "W": "WARNING", "F": "FATAL"}
_NGINX = {"error": "ERROR", "warn": "WARNING", "crit": "CRITICAL", "alert": "CRITICAL", "emerg": "CRITICAL"}


def cleaned(raw: bytes) -> bytes:
    """Without colour codes and NULs, with UTF-16 turned to UTF-8."""
    if raw[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raw = raw.decode("utf-16", "replace").encode("utf-8", "replace")
    if b"\x1b" in raw or b"[0m" in raw:
        raw = _ESCAPE.sub(b"", raw)
    return raw.replace(b"\x00", b"") if b"\x00" in raw else raw


def unwrapped(raw: bytes) -> tuple[bytes, list[int]]:
    """Lines joined that a terminal cut at its width. Also the places, in the new bytes, where a line end was taken
    out, so that line numbers stay those of the file. Logs that are not cut come back as they are."""
    if len(raw) > _WRAP_BYTES_MAX:
        return raw, []
    sample = raw.split(b"\n", _WRAP_SAMPLE_LINES)[:_WRAP_SAMPLE_LINES]
    width = max((len(line) for line in sample), default=0)
    full = [i for i, line in enumerate(sample[:-1]) if len(line) == width]
    if not _WRAP_WIDTH_MIN <= width <= _WRAP_WIDTH_MAX or not full:
        return raw, []
    goes_on = sum(1 for i in full if sample[i + 1] and not _NEW_LINE.match(sample[i + 1]))
    pasted = len(sample) <= _PASTED_LINES_MAX and goes_on == len(full) and _PREFIX.search(sample[0]) is not None
    if not pasted and (goes_on * 2 < len(full) or goes_on < 3):
        return raw, []
    lines, out, taken, size = raw.split(b"\n"), [], [], 0
    for i, line in enumerate(lines):
        out.append(line)
        size += len(line)
        if i + 1 == len(lines):
            break
        if len(line) == width and lines[i + 1] and not _NEW_LINE.match(lines[i + 1]):
            taken.append(size)
        else:
            out.append(b"\n")
            size += 1
    return b"".join(out), taken


def lines_matching(raw: bytes, taken: list[int], wanted: re2._Regexp) -> Iterator[tuple[int, bytes]]:
    """Number and bytes of each line in which the pattern begins; text goes to the end of the match's last line."""
    done, counted, number, size = 0, 0, 1, len(raw)
    for found in wanted.finditer(raw):
        start, end = found.span()
        if start < done:
            continue
        left = raw.rfind(b"\n", 0, start) + 1
        right = raw.find(b"\n", max(end, start))
        right = size if right < 0 else right
        number += raw.count(b"\n", counted, left)
        counted = left
        shift = bisect_right(taken, left) if taken else 0
        if right - left > LINE_CHARS_MAX:  # a line of a megabyte: what stands around the match is enough
            left, right_cut = max(left, start - LINE_CHARS_MAX // 2), min(right, start + LINE_CHARS_MAX // 2)
        else:
            right_cut = right
        yield number + shift, part_of(raw[left:right_cut], start - left)
        done = right + 1


def part_of(raw: bytes, at: int) -> bytes:
    """Bytes of a line; of one with carriage returns (progress bars) the part where the match stands."""
    if b"\r" in raw:
        left = raw.rfind(b"\r", 0, at) + 1
        right = raw.find(b"\r", at)
        raw = raw[left : right if right >= 0 else len(raw)]
    return raw.replace(b"\n", b" ")


def line_of(number: int, data: bytes) -> Line:
    """The prefix read: process, level, stamp. The innermost process counts when a launcher printed its own too."""
    text, head = data.decode("utf-8", "replace"), data[:_HEAD_BYTES]
    found = _PREFIX.search(head)
    if found is not None:
        message = data[found.end() :].decode("utf-8", "replace").removeprefix(" ")
        process, level, stamp = (_text(group) for group in found.groups())
        return Line(number, data, text, message, process, level, stamp)
    process, rest = "", data
    found = _PROCESS.search(head)
    if found is not None:
        process, rest = _text(found[1]), data[found.end() :]
    level = stamp = ""
    found = _OTHER_LEVEL.search(rest[:_HEAD_BYTES])
    if found is not None:
        word, glog, nginx = (_text(group) for group in found.groups())
        level = word or _GLOG.get(glog) or _NGINX.get(nginx, "")
        level = "WARNING" if level == "WARN" else level
    found = _STAMP.search(head)
    if found is not None:
        stamp = _text(found[1]).replace("/", "-").replace("T", " ")
    return Line(number, data, text, rest.decode("utf-8", "replace"), process, level, stamp)


def _text(group: bytes | None) -> str:
    return group.decode("utf-8", "replace") if group else ""

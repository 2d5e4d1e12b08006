"""The launch log of a vLLM server: bytes in, facts out. Text of other servers, NCCL, the kernel or a proxy is read
as far as the rule table knows it.

LaunchLog
  identity   version, model, architecture, arguments, engine configuration, layout, ranks
  phases     when loading, profiling, capture and readiness were reached
  capacity   weights, KV memory, KV tokens, concurrency at the full window
  notes      warnings, failures and fallbacks, each with line, class and explanation
  serving    statistics lines, requests taken in and given up, refused answers

One search over the whole file finds the lines that say something; only those are looked at one by one.
"""

import msgspec
import re2

from signoff.read.launch_log_facts import OTHERS, PHASES, REFUSED, ROWS_MAX, SERVED, Facts
from signoff.read.launch_log_notes import MARKERS, RULES, Notes, first_failure, weighed
from signoff.read.launch_log_scan import cleaned, line_of, lines_matching, options, spaced, unwrapped
from signoff.read.launch_log_types import HttpCount, LaunchLog, LogNote, PhaseMark, Rank, RequestMark, StatsLine

__all__ = [
    "HttpCount",
    "LaunchLog",
    "LogNote",
    "PhaseMark",
    "Rank",
    "RequestMark",
    "StatsLine",
    "read_launch_log",
]

_GROUP_NAME = re2.compile(r"[(][?]P<[a-z_]+>")


def _searchable(pattern: str) -> str:
    """The pattern for finding lines: without group names, which may repeat, and without an idle tail."""
    return "(?:" + spaced(_GROUP_NAME.sub("(?:", pattern)).removesuffix("[^\\n]*") + ")"


_INTERESTING = re2.compile(
    "|".join(
        _searchable(pattern)
        for pattern in (
            *(pattern for _, pattern in PHASES),
            SERVED,
            OTHERS,
            REFUSED,
            MARKERS,
            r'(?:^|pid=\d+\)) +File "',
            *(rule.pattern for rule in RULES if rule.scan),
        )
    ).encode(),
    options(1024),
)
_ADDED = re2.compile(rb"Added request ", options(8))
_DOCKER_LINE = b'{"log":'


class _DockerLine(msgspec.Struct):
    log: str = ""


def _unboxed(raw: bytes) -> bytes:
    """Lines of Docker's json-file driver as the program wrote them; other bytes unchanged."""
    if not raw.lstrip()[:8].startswith(_DOCKER_LINE):
        return raw
    decode = msgspec.json.Decoder(_DockerLine).decode
    out = []
    for line in raw.split(b"\n"):
        try:
            out.append(decode(line).log.rstrip("\n").replace("\n", " ").encode("utf-8", "replace"))
        except (msgspec.DecodeError, UnicodeError):
            out.append(line)
    return b"\n".join(out)


def _size(key: str, *said: dict[str, str]) -> int | None:
    """A parallel size: as the engine resolved it, else as it was asked for."""
    text = next((values[key] for values in said if key in values), "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def read_launch_log(raw: bytes) -> LaunchLog:
    """The facts of a launch log; any bytes are accepted, unknown lines with a level become `unknown` notes."""
    raw = cleaned(_unboxed(raw))
    count = raw.count(b"\n") + (1 if raw and not raw.endswith(b"\n") else 0)
    raw, taken = unwrapped(raw)
    facts, notes = Facts(), Notes()
    for number, data in lines_matching(raw, taken, _INTERESTING):
        line = line_of(number, data)
        facts.take(line)
        notes.take(line)
    if facts.requests:  # who gave up what: only then is it worth reading when each was taken in
        for number, data in lines_matching(raw, taken, _ADDED):
            if len(facts.requests) >= ROWS_MAX:
                break
            facts.request(line_of(number, data))
    kept = weighed(notes.kept, facts.marks)
    arguments, config = facts.arguments(), facts.config()
    marks = tuple(facts.marks[facts.boot_mark :])
    names = {mark.name for mark in marks}
    first = first_failure(kept, facts.boot_line)
    begun = facts.boots == 0 and bool(names & {"engine_init", "weights", "profile", "kv_cache", "capture", "warmup"})
    hangs = facts.boots > 0 and not names & {"ready", "stats", "shutdown"} and first is None
    return LaunchLog(
        lines=count,
        boots=max(facts.boots, 1 if names else 0),
        boot_line=facts.boot_line,
        arguments=arguments,
        engine_config=config,
        ranks=tuple(facts.ranks[rank] for rank in sorted(facts.ranks)),
        tp=_size("tensor_parallel_size", config, arguments),
        pp=_size("pipeline_parallel_size", config, arguments),
        dp=_size("data_parallel_size", config, arguments),
        nccl=tuple(facts.nccl),
        phases=marks,
        notes=tuple(kept),
        notes_dropped=notes.dropped,
        first_error=first,
        stats=tuple(facts.stats),
        requests=tuple(sorted(facts.requests, key=lambda mark: mark.line)),
        http=facts.answers(),
        answers_ok=raw.count(b'" 200'),
        ready=bool(names & {"ready", "stats"}),
        truncated=begun or hangs or notes.open_traceback,
        **facts.scalars,  # type: ignore[arg-type]
    )

"""One file of a case, its kind told by what it holds: what an operator has in hand when something went wrong.

Kinds: `nvidia_smi`, `topology`, `scrape`, `stream`, `answer`, `request`, `records`, `launch`, `benchmark`, `tools`,
`json`, `log`, `text`.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import msgspec
import re2
from msgspec import Struct

from signoff.read.answer import Answer
from signoff.read.anthropic import is_anthropic, read_anthropic
from signoff.read.benchmark import Benchmark, read_benchmark
from signoff.read.completion import read_completion
from signoff.read.launch_command import LaunchCommand, read_launch_command
from signoff.read.launch_log import LaunchLog, read_launch_log
from signoff.read.nvidia_smi import NvidiaSmi, read_nvidia_smi
from signoff.read.scrape import Scrape, read_scrape
from signoff.read.stream import read_stream
from signoff.read.topology import Topology, read_topology

TEXT_BYTES_MAX, JSON_BYTES_MAX, RECORDS_MAX = 4 << 20, 64 << 20, 200_000


class CaseFile(Struct, frozen=True, kw_only=True):
    """A file and what it says. Every file of text also has a `log`: rules about lines hold wherever lines stand."""

    name: str
    kind: str
    text: str = ""
    """The first 4 MiB."""
    log: LaunchLog = LaunchLog(lines=0, boots=0)
    smi: NvidiaSmi = NvidiaSmi()
    topology: Topology = Topology()
    launch: LaunchCommand = LaunchCommand()
    benchmark: Benchmark = Benchmark()
    scrape: Scrape | None = None
    answer: Answer | None = None
    body: Any = None
    """The decoded JSON of `answer`, `request`, `tools` and `json`."""
    silence_s: float = 0.0
    """Longest pause between two events of a stream whose lines carry times."""
    records: tuple[dict[str, Any], ...] = ()
    """Objects of a JSON-lines file."""


_SERIES = re2.compile(r"(?m)^(?:# (?:HELP|TYPE) \S+ |[a-zA-Z_:][\w:]*\{[^}\n]*\} [-+\d.eNaI]+\s*$)")
_TOPO_ROW = re2.compile(r"(?m)^\s*GPU0\s+(?:GPU1|X)\s")
_LAUNCH = re2.compile(
    r"(?m)^(?:[^\n]*[\s/])?(?:vllm serve |(?:docker|podman|nerdctl) (?:container )?run |python3? -m (?:vllm|sglang)\.|"
    r"sglang serve )|^\s*(?:containers|services):\s*$|^apiVersion: "
)
_STAMP = r"(?m)^\[?(?:t=|\+)?((?:\d+:)*\d+(?:\.\d+)?)\s?s?\]?:?\s+data:\s?([^\n]*)"
_STAMPED, _STAMPED_BYTES = re2.compile(_STAMP), re2.compile(_STAMP.encode())
_COMMENT = re2.compile(rb"(?m)^\s*#[^\n]*")
_LOGGED = re2.compile(r"(?m)^(?:\(\w[^()\n]*pid=\d+|(?:INFO|WARNING|ERROR) \d\d-\d\d |(?:INFO|WARNING|ERROR):\s)")


def read_case_file(name: str, raw: bytes) -> CaseFile:
    """A file by its content; any bytes are accepted. The name only says what the caller calls it."""
    head = raw[:TEXT_BYTES_MAX].decode("utf-8", "replace").replace("\x00", "")
    start = head.lstrip()[:1]
    if start in ("{", "["):
        found = _json(name, raw, head)
        if found is not None:
            return found
    stamped = _STAMPED.findall(head)
    if len(stamped) >= 2 and not _streamed(head):
        raw = b"".join(b"data: " + match[2] + b"\n\n" for match in _STAMPED_BYTES.finditer(raw[:JSON_BYTES_MAX]))
        return CaseFile(name=name, kind="stream", text=head, answer=read_stream(raw), silence_s=_silence(stamped))
    if _streamed(head):
        answer = read_anthropic(raw) if is_anthropic(head) else read_stream(raw)
        return CaseFile(name=name, kind="stream", text=head, answer=answer)
    logged = bool(_LOGGED.search(head))
    if not logged and len(_SERIES.findall(head[:200_000])) >= 1 and (scrape := read_scrape(raw)).series:
        return CaseFile(name=name, kind="scrape", text=head, scrape=scrape)
    return _text(name, raw, head, logged)


def _text(name: str, raw: bytes, head: str, logged: bool) -> CaseFile:
    """A file of text. People paste command, banner and log into one: each part is read, the kind is the main one."""
    topology = read_topology(raw) if _TOPO_ROW.search(head) else Topology()
    smi = read_nvidia_smi(raw)
    launch = read_launch_command(raw) if _LAUNCH.search(head) else LaunchCommand()
    log = read_launch_log(_COMMENT.sub(b"", raw) if launch.runtime else raw)
    benchmark = read_benchmark(raw) if not logged else Benchmark()
    said = bool(logged or log.phases or log.stats or log.notes or log.http or log.requests)
    kind = "log" if said else "text"
    if smi.format in ("banner", "query", "xml", "csv", "version") and not logged:
        kind = "nvidia_smi"
    elif topology.gpus and not logged:
        kind = "topology"
    elif launch.runtime and not logged and log.first_error is None:
        kind = "launch"
    elif benchmark.tool:
        kind = "benchmark"
    return CaseFile(
        name=name, kind=kind, text=head, log=log, smi=smi, topology=topology, launch=launch, benchmark=benchmark
    )


def _silence(stamps: Sequence[tuple[str, str]]) -> float:
    """The longest step between stamps, seconds or clock times."""
    at = []
    for stamp, _ in stamps:
        parts = stamp.split(":")
        try:
            at.append(sum(float(part) * 60**power for power, part in enumerate(reversed(parts))))
        except ValueError:
            continue
    return max((b - a for a, b in pairwise(at)), default=0.0)


def _streamed(head: str) -> bool:
    lines = [line for line in head[:20_000].split("\n") if line.strip()][:40]
    events = sum(1 for line in lines if line.startswith(("data:", "event:", ": ", "id:")))
    return bool(lines) and events * 2 > len(lines) and any(line.startswith("data:") for line in lines)


def _json(name: str, raw: bytes, head: str) -> CaseFile | None:
    try:
        body = msgspec.json.decode(raw[:JSON_BYTES_MAX])
    except (ValueError, RecursionError):
        return _records(name, raw, head)
    if isinstance(body, list):
        if body and all(isinstance(item, dict) for item in body):
            tools = all("function" in item or "input_schema" in item for item in body)
            kind = "tools" if tools else "records"
            return CaseFile(name=name, kind=kind, text=head, body=body, records=tuple(body[:RECORDS_MAX]))
        return CaseFile(name=name, kind="json", text=head, body=body)
    if not isinstance(body, dict):
        return None
    if is_anthropic(head) and "content" in body and "choices" not in body:
        return CaseFile(name=name, kind="answer", text=head, answer=read_anthropic(raw), body=body)
    if "choices" in body or "error" in body or body.get("object") == "error":
        return CaseFile(name=name, kind="answer", text=head, answer=read_completion(raw), body=body)
    if "messages" in body or "input" in body or "prompt" in body:
        return CaseFile(name=name, kind="request", text=head, body=body, records=(body,))
    if (benchmark := read_benchmark(raw)).tool:
        return CaseFile(name=name, kind="benchmark", text=head, benchmark=benchmark, body=body)
    if set(body) == {"log", "stream", "time"} or "log" in body:
        return None
    kind = "records" if "prompt_tokens" in body or "cached_tokens" in body else "json"
    return CaseFile(name=name, kind=kind, text=head, body=body, records=(body,), log=read_launch_log(raw))


def _records(name: str, raw: bytes, head: str) -> CaseFile | None:
    rows: list[dict[str, Any]] = []
    bad = 0
    for line in raw[:JSON_BYTES_MAX].split(b"\n"):
        if not line.strip() or len(rows) >= RECORDS_MAX:
            continue
        try:
            row = msgspec.json.decode(line)
        except (ValueError, RecursionError):
            bad += 1
            if bad > 20 and bad > len(rows):
                return None
            continue
        if isinstance(row, dict):
            rows.append(row)
    if len(rows) < 2 or bad > len(rows) or "log" in rows[0]:
        return None
    return CaseFile(name=name, kind="records", text=head, records=tuple(rows))

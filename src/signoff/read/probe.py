"""The document of a node probe: bytes in, facts out. Any bytes are accepted; what is not as it should be is left out.

Probe
  facts        name -> Fact: readings, each from a source, and gaps with their reasons; of the node
  servers      vLLM servers: command, environment, ports, processes, libraries, packages, own facts
  listeners    listening ports and who holds them
  commands     raw answers of programs
  kernel       kernel messages of this boot
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

PROBE_SCHEMA = "signoff/probe/1"
PROBE_BYTES_MAX = 16 * 1024 * 1024
ITEMS_MAX = 5_000
TEXT_MAX = 4_000
WHOLE_MAX = 2**63
OUTPUT_MAX = 4 * 1024 * 1024


class Reading(Struct, frozen=True, kw_only=True):
    source: str
    """Who told it: `kernel module`, `driver library`, `package metadata`, `image store`, ..."""
    how: str
    value: str


class Gap(Struct, frozen=True, kw_only=True):
    source: str
    how: str
    why: str


class Fact(Struct, frozen=True, kw_only=True):
    readings: tuple[Reading, ...] = ()
    missing: tuple[Gap, ...] = ()

    def values(self) -> tuple[str, ...]:
        """Distinct values in the order they were read."""
        return tuple(dict.fromkeys(reading.value for reading in self.readings))

    def sources(self) -> tuple[str, ...]:
        """Distinct sources that gave a value."""
        return tuple(dict.fromkeys(reading.source for reading in self.readings))

    @property
    def value(self) -> str | None:
        """The value when all readings agree, else `None`."""
        values = self.values()
        return values[0] if len(values) == 1 else None


class GpuRow(Struct, frozen=True, kw_only=True):
    name: str
    uuid: str
    source: str
    memory_mib: int | None = None
    compute_cap: str | None = None


class Library(Struct, frozen=True, kw_only=True):
    """A library that processes of the server have mapped."""

    name: str
    """`libcuda`, `libcudart`, `libnccl`, ..."""
    path: str
    version: str
    """From the file name, as exact as it is there; empty when it holds none."""
    inside: tuple[str, ...]
    """Versions found in the file's bytes."""
    sha256: str
    deleted: bool
    pids: tuple[int, ...]


class Port(Struct, frozen=True, kw_only=True):
    port: int
    address: str
    pid: int | None


class Process(Struct, frozen=True, kw_only=True):
    pid: int
    title: str
    started_unix_s: float | None
    pid_inside: int | None = None
    """Its number inside its container, where it is known: the number that its log shows."""


class Server(Struct, frozen=True, kw_only=True):
    """One vLLM server: its root process and all that descends from it."""

    pid: int
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    api_key: bool = False
    ports: tuple[Port, ...] = ()
    processes: tuple[Process, ...] = ()
    libraries: tuple[Library, ...] = ()
    maps_unread: int = 0
    """Processes whose maps could not be read."""
    packages: dict[str, str] = {}
    facts: dict[str, Fact] = {}

    def fact(self, name: str) -> Fact:
        return self.facts.get(name, Fact())

    def mapped(self, name: str) -> tuple[Library, ...]:
        return tuple(library for library in self.libraries if library.name == name)


class Command(Struct, frozen=True, kw_only=True):
    argv: tuple[str, ...]
    status: int | None
    out: str
    why: str
    """Why there is no answer, empty when there is."""


class Probe(Struct, frozen=True, kw_only=True):
    error: str = ""
    """Why the document could not be read at all."""
    root: str = ""
    began_unix_ns: int | None = None
    unfinished: tuple[str, ...] = ()
    facts: dict[str, Fact] = {}
    gpus: tuple[GpuRow, ...] = ()
    servers: tuple[Server, ...] = ()
    listeners: tuple[Port, ...] = ()
    commands: tuple[Command, ...] = ()
    kernel: tuple[str, ...] = ()

    def fact(self, name: str) -> Fact:
        return self.facts.get(name, Fact())

    def answer(self, *argv: str) -> str | None:
        """What a program printed, `None` when it gave no answer."""
        for command in self.commands:
            if command.argv == argv and command.status == 0 and not command.why:
                return command.out
        return None


def read_probe(raw: bytes) -> Probe:
    """The facts of a probe document; `Probe.error` says why when it is none."""
    if len(raw) > PROBE_BYTES_MAX:
        return Probe(error=f"{len(raw)} bytes are more than a probe document has")
    try:
        tree = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError, ValueError) as error:
        return Probe(error=f"not JSON: {str(error)[:200]}")
    if not isinstance(tree, dict) or tree.get("schema") != PROBE_SCHEMA:
        return Probe(error=f"not a document of schema {PROBE_SCHEMA}")
    about, facts = _mapping(tree.get("probe")), _mapping(tree.get("facts"))
    return Probe(
        root=_text(about.get("root")),
        began_unix_ns=_whole(about.get("began_unix_ns")),
        unfinished=_texts(about.get("unfinished")),
        facts=_facts(facts),
        gpus=tuple(_gpus(_mapping(facts.get("gpus")))),
        servers=tuple(_server(item) for item in _items(tree.get("servers"))),
        listeners=tuple(_ports(tree.get("listeners"))),
        commands=tuple(_command(item) for item in _items(tree.get("commands"))),
        kernel=_texts(tree.get("kernel")),
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> Iterable[Mapping[str, Any]]:
    return (item for item in (value[:ITEMS_MAX] if isinstance(value, list) else ()) if isinstance(item, dict))


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def _text(value: Any, limit: int = TEXT_MAX) -> str:
    """Scalars as text without control characters; empty for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return str(value).lower() if isinstance(value, bool) else ""
    if isinstance(value, int) and abs(value) >= WHOLE_MAX:
        return ""  # longer numbers than Python writes out would raise
    return _CONTROL.sub(" ", str(value)[:limit])


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(item) for item in value[:ITEMS_MAX]) if isinstance(value, list) else ()


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        return int(value)
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < WHOLE_MAX
    return value if whole else None


def _number(value: Any) -> float | None:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 else None
    )


def _facts(tree: Mapping[str, Any]) -> dict[str, Fact]:
    facts = {}
    for name, entry in list(tree.items())[:ITEMS_MAX]:
        entry = _mapping(entry)
        readings = tuple(
            Reading(source=_text(r.get("source")), how=_text(r.get("how")), value=_text(r.get("value")))
            for r in _items(entry.get("readings"))
            if _text(r.get("value"))
        )
        missing = tuple(
            Gap(source=_text(g.get("source")), how=_text(g.get("how")), why=_text(g.get("why")))
            for g in _items(entry.get("missing"))
        )
        facts[_text(name, 100)] = Fact(readings=readings, missing=missing)
    return facts


def _gpus(entry: Mapping[str, Any]) -> Iterable[GpuRow]:
    for reading in _items(entry.get("readings")):
        for row in _items(reading.get("value")):
            yield GpuRow(
                name=_text(row.get("name"), 200),
                uuid=_text(row.get("uuid"), 100),
                source=_text(reading.get("source"), 100),
                memory_mib=_whole(row.get("memory_mib")),
                compute_cap=_text(row.get("compute_cap"), 20) or None,
            )


def _ports(value: Any) -> Iterable[Port]:
    for row in _items(value):
        port = _whole(row.get("port"))
        if port is not None:
            yield Port(port=port, address=_text(row.get("address"), 100), pid=_whole(row.get("pid")))


def _server(tree: Mapping[str, Any]) -> Server:
    unread = tree.get("maps_unread")
    return Server(
        pid=_whole(tree.get("pid")) or 0,
        command=_texts(tree.get("command")),
        environment={_text(k, 200): _text(v) for k, v in list(_mapping(tree.get("environment")).items())[:ITEMS_MAX]},
        api_key=tree.get("api_key") is True,
        ports=tuple(_ports(tree.get("ports"))),
        processes=tuple(
            Process(
                pid=_whole(p.get("pid")) or 0,
                title=_text(p.get("title"), 200),
                started_unix_s=_number(p.get("started_unix_s")),
                pid_inside=_whole(p.get("pid_inside")),
            )
            for p in _items(tree.get("processes"))
        ),
        libraries=tuple(_library(item) for item in _items(tree.get("libraries"))),
        maps_unread=len(unread) if isinstance(unread, list) else 0,
        packages={_text(k, 200): _text(v, 200) for k, v in list(_mapping(tree.get("packages")).items())[:ITEMS_MAX]},
        facts=_facts(_mapping(tree.get("facts"))),
    )


def _library(tree: Mapping[str, Any]) -> Library:
    pids = tree.get("pids")
    return Library(
        name=_text(tree.get("name"), 100),
        path=_text(tree.get("path")),
        version=_text(tree.get("version"), 100),
        inside=_texts(tree.get("versions_inside")),
        sha256=_text(tree.get("sha256"), 64),
        deleted=tree.get("deleted") is True,
        pids=tuple(
            p for item in (pids[:ITEMS_MAX] if isinstance(pids, list) else ()) if (p := _whole(item)) is not None
        ),
    )


def _command(tree: Mapping[str, Any]) -> Command:
    out = tree.get("out")
    return Command(
        argv=_texts(tree.get("argv")),
        status=_whole(tree.get("status")),
        out=out[:OUTPUT_MAX] if isinstance(out, str) else "",
        why=_text(tree.get("why")),
    )

"""From a node of the plan to what it gives: a probe document, launch logs, files that people already have.

`local` pipes the node probe into a Python of its own, on this machine or on another root folder. `file` reads a folder.
Whatever cannot be had comes back as a Taken with the reason; nothing here raises for the node's sins.
"""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from msgspec import Struct

from signoff.core.evidence import Value
from signoff.core.plan import Node

PROBE_SOURCE = Path(__file__).with_name("node_probe.py")
PROBE_S = 25.0
PROBE_BYTES_MAX = 16 * 1024 * 1024
FILE_BYTES_MAX = 64 * 1024 * 1024
FILES_MAX = 64


class Taken(Struct, frozen=True, kw_only=True):
    """One thing a node gave, or why it did not. `raw` is `None` when it is missing."""

    kind: str
    """`probe`, `launch_log` or `nvidia_smi`."""
    source: str
    where: str
    raw: bytes | None = None
    missing: str = ""
    media_type: str = "text/plain"
    conditions: dict[str, Value] = {}


async def probe_node(node: Node) -> list[Taken]:
    """The probe document of a node; of a folder also the nvidia-smi texts in it."""
    if node.via == "local":
        return [await _probe_local(node)]
    if node.via == "file":
        return await asyncio.to_thread(_folder, node)
    return [_unavailable(node, "probe")]


async def read_logs(node: Node) -> list[Taken]:
    """Every launch log of a node, whole up to `FILE_BYTES_MAX`, head and tail beyond that."""
    if node.via not in ("local", "file"):
        return [_unavailable(node, "launch_log")]
    paths = await asyncio.to_thread(_log_paths, node)
    if not paths:
        return [
            Taken(kind="launch_log", source="nodes.logs", where=node.name, missing="the plan names no launch log here")
        ]
    return [await asyncio.to_thread(_read, path, "launch_log", node.name) for path in paths]


def _unavailable(node: Node, kind: str) -> Taken:
    return Taken(kind=kind, source=f"via {node.via}", where=node.name, missing=f"transport not available: {node.via}")


async def _probe_local(node: Node) -> Taken:
    words = [sys.executable, "-I", "-", *(["--root", node.address] if node.address else [])]
    source = "node probe" + (f" --root {node.address}" if node.address else "")

    def missing(why: str) -> Taken:
        return Taken(kind="probe", source=source, where=node.name, missing=why)

    if node.address and not Path(node.address).is_dir():
        return missing(f"no folder {node.address}")
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(PROBE_S):
            out, err = await process.communicate(PROBE_SOURCE.read_bytes())
    except TimeoutError:
        return missing(f"the probe did not end within {PROBE_S:g} s")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0 or not out:
        return missing(f"the probe ended with status {process.returncode}: {err[-500:].decode('utf-8', 'replace')}")
    if len(out) > PROBE_BYTES_MAX:
        return missing(f"the probe document has {len(out)} bytes, more than {PROBE_BYTES_MAX}")
    return Taken(kind="probe", source=source, where=node.name, raw=out, media_type="application/json")


def _folder(node: Node) -> list[Taken]:
    """What lies in a folder that people filled by hand: `probe.json` and texts or XML of nvidia-smi."""
    folder = Path(node.address or ".")
    if not folder.is_dir():
        return [Taken(kind="probe", source="file", where=node.name, missing=f"no folder {folder}")]
    taken = []
    if (folder / "probe.json").is_file():
        read = _read(folder / "probe.json", "probe", node.name)
        too_large = read.raw is not None and len(read.raw) > PROBE_BYTES_MAX
        taken.append(
            Taken(kind="probe", source=read.source, where=node.name, missing="larger than a probe document is")
            if too_large
            else read
        )
    else:
        taken.append(Taken(kind="probe", source="file", where=node.name, missing="no probe.json in the folder"))
    texts = sorted(p for p in folder.glob("nvidia-smi*") if p.is_file() and p.suffix in ("", ".txt", ".xml", ".csv"))
    return taken + [_read(path, "nvidia_smi", node.name) for path in texts[:FILES_MAX]]


def _log_paths(node: Node) -> list[Path]:
    """The logs that the plan names; of a `file` node that names none, every `*.log` of its folder.

    A path is looked for inside the node's folder first when it is not absolute."""
    base = Path(node.address) if node.address else None
    paths = []
    for name in node.logs[:FILES_MAX]:
        path = Path(name)
        if base is not None and (not path.is_absolute() or not path.exists()):
            path = base / name.lstrip("/")
        paths.append(path)
    if not paths and node.via == "file" and base is not None and base.is_dir():
        paths = sorted(p for p in base.glob("*.log") if p.is_file())[:FILES_MAX]
    return paths


def _read(path: Path, kind: str, where: str) -> Taken:
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if size <= FILE_BYTES_MAX:
                raw, conditions = file.read(FILE_BYTES_MAX), {}
            else:
                half = FILE_BYTES_MAX // 2
                head = file.read(half)
                file.seek(size - half)
                raw = head + b"\n" + file.read(half)
                conditions = {"bytes_total": size, "bytes_cut": size - 2 * half}
    except OSError as error:
        return Taken(kind=kind, source=str(path), where=where, missing=f"cannot read: {error.strerror or error}")
    media_type = {".json": "application/json", ".xml": "application/xml"}.get(path.suffix, "text/plain")
    return Taken(kind=kind, source=str(path), where=where, raw=raw, media_type=media_type, conditions=dict(conditions))

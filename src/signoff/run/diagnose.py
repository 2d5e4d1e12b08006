"""`signoff diagnose`: read files and folders, tell what each is, judge them together. No plan, no network."""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from signoff.errors import SignoffError
from signoff.judge.lean import Diagnosis, judge_files
from signoff.judge.lean.text import diagnosis_text
from signoff.read.case_file import CaseFile, read_case_file

FILE_BYTES_MAX = 512 << 20
TOTAL_BYTES_MAX = 2 << 30
FILES_MAX = 500
_SKIPPED = {".parquet", ".png", ".jpg", ".safetensors", ".bin", ".pt", ".so", ".pyc", ".sqlite", ".tar", ".zip"}


def diagnose(paths: Sequence[Path]) -> Diagnosis:
    """The judgement of files or folders. Of a folder every readable file counts, hidden ones left out; names in
    findings are relative to it. Gzip is opened. Raises SignoffError when a path does not exist or nothing is there."""
    files: list[CaseFile] = []
    left = TOTAL_BYTES_MAX
    for name, path in _named(paths):
        if len(files) >= FILES_MAX or left <= 0:
            break
        raw = read_bounded(path, min(left, FILE_BYTES_MAX))
        left -= len(raw)
        files.append(read_case_file(name, raw))
    if not files:
        raise SignoffError("nothing to diagnose", "give files or folders that hold logs, scrapes, answers or launches")
    return judge_files(files)


def _named(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for path in paths:
        if path.is_dir():
            for found in sorted(path.rglob("*")):
                inner = found.relative_to(path)
                hidden = any(part.startswith(".") for part in inner.parts)
                if found.is_file() and not hidden and found.suffix not in _SKIPPED:
                    yield str(inner), found
        elif path.exists():
            yield path.name, path
        else:
            raise SignoffError(f"{path} does not exist", "give files or folders")


def read_bounded(path: Path, bytes_max: int) -> bytes:
    """The file, opened if it is gzip. Of a larger one the first and last halves: a log's start and end say most."""
    try:
        with path.open("rb") as file:
            head = file.read(2)
            file.seek(0)
            if head == b"\x1f\x8b":
                return _unzipped(path, bytes_max)
            size = path.stat().st_size
            if size <= bytes_max:
                return file.read(bytes_max)
            first = file.read(bytes_max // 2)
            file.seek(size - bytes_max // 2)
            return first + b"\n" + file.read(bytes_max // 2)
    except OSError as error:
        raise SignoffError(f"{path} cannot be read: {error.strerror}", "check its rights") from error


def _unzipped(path: Path, bytes_max: int) -> bytes:
    """As much as opens: a cut or broken archive still has its start."""
    out, unpack = bytearray(), zlib.decompressobj(wbits=31)
    with path.open("rb") as file:
        part = file.read(1 << 16)
        try:
            while part and len(out) < bytes_max:
                out += unpack.decompress(part, bytes_max - len(out))
                part = unpack.unconsumed_tail or unpack.unused_data or file.read(1 << 16)
                if unpack.eof:  # rotated logs are packed one behind the other
                    unpack = zlib.decompressobj(wbits=31)
        except zlib.error:
            pass
    return bytes(out[:bytes_max])


def render_text(diagnosis: Diagnosis) -> str:
    """The diagnosis for a terminal."""
    return diagnosis_text(diagnosis)

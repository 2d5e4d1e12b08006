"""Seal: the manifest over every file of a bundle, and the digest over what was observed."""

import mimetypes
from pathlib import Path

from msgspec import Struct

from signoff.core.codec import digest, to_pretty_json

MANIFEST = "manifest.json"
SIGNATURE_FILES = ("signoffs.intoto.jsonl", "acceptance.intoto.json")
OBSERVED = ("plan.yaml", "profile.json")
OBSERVED_FOLDERS = ("evidence", "records", "metrics", "logs")
MEDIA_TYPES = {
    ".jsonl": "application/x-ndjson",
    ".parquet": "application/vnd.apache.parquet",
    ".yaml": "application/yaml",
    ".zst": "application/zstd",
    ".md": "text/markdown",
}


class Sealed(Struct, frozen=True, kw_only=True):
    """One file of the manifest."""

    path: str
    sha256: str
    bytes: int
    media_type: str


class Manifest(Struct, frozen=True, kw_only=True):
    schema: str = "signoff/manifest/1"
    files: tuple[Sealed, ...]


def listed(folder: Path) -> list[Path]:
    """Every file the manifest covers, in the order of its path."""
    return sorted(
        (
            path
            for path in folder.rglob("*")
            if path.is_file()
            and not path.is_symlink()
            and path.relative_to(folder).as_posix() not in (MANIFEST, *SIGNATURE_FILES)
            and path.relative_to(folder).parts[0] != "attachments"
        ),
        key=lambda path: path.relative_to(folder).as_posix(),
    )


def evidence_digest(folder: Path) -> str:
    """SHA-256 over path and digest of plan, profile and everything observed; verdict and reports are not part of it."""
    lines = [
        f"{digest(path.read_bytes())}  {name}\n"
        for path in listed(folder)
        if (name := path.relative_to(folder).as_posix()) in OBSERVED or name.split("/")[0] in OBSERVED_FOLDERS
    ]
    return digest("".join(lines).encode())


def seal(folder: Path) -> str:
    """Write the manifest and return its digest, which is the bundle's."""
    files = []
    for path in listed(folder):
        raw = path.read_bytes()
        media = MEDIA_TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        files.append(
            Sealed(path=path.relative_to(folder).as_posix(), sha256=digest(raw), bytes=len(raw), media_type=media)
        )
    raw = to_pretty_json(Manifest(files=tuple(files)))
    (folder / MANIFEST).write_bytes(raw)
    return digest(raw)


def is_signed(folder: Path) -> bool:
    """Whether anybody has signed; after that nothing in the bundle changes."""
    return any((folder / name).exists() for name in SIGNATURE_FILES)

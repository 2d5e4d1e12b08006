"""Evidence: something observed, with where, when and under which conditions; or why it could not be observed.

The raw bytes lie in the bundle under `evidence/<sha256>`; this is the card that says what they are.
"""

from typing import TypeAlias

from msgspec import Struct

Value: TypeAlias = str | int | float | bool | None
"""A typed value of conditions and findings; units stand in the name that holds it."""


class Evidence(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One observation. Exactly one of `digest` and `missing` is set."""

    kind: str
    """`probe`, `launch_log`, `nvidia_smi`, `version`, `models`, `scrape`, `exchange`, `client_self`, `tokenize`, ..."""
    source: str
    """How it was obtained: `GET /version`, `/proc/driver/nvidia/version`, `nvidia-smi -q -x`."""
    where: str
    """The node or server it speaks of; the plan's name for it, or its base URL."""
    taken_ns: int
    """Unix nanoseconds."""
    stage: str = ""
    """The stage it was taken in, empty when outside any."""
    conditions: dict[str, Value] = {}
    digest: str = ""
    """SHA-256 of the raw bytes."""
    bytes: int = 0
    media_type: str = "application/octet-stream"
    missing: str = ""
    """Why it could not be observed."""

"""The client's own check against a paced server, as it was kept before the load."""

import msgspec
from msgspec import Struct


class Late(Struct, frozen=True, kw_only=True):
    """Client minus truth, milliseconds."""

    p50: float
    p99: float


class ClientSelf(Struct, frozen=True, kw_only=True):
    """What the client was worth there and then; `None` where it was not measured."""

    streams: int
    requests: int
    ok: int
    ttft_error_ms: Late | None = None
    itl_error_ms: Late | None = None


def read_client_self(raw: bytes) -> ClientSelf | None:
    """The check in `raw`; `None` when it is none."""
    try:
        return msgspec.json.decode(raw, type=ClientSelf)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

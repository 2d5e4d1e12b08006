"""A prompt's token ids as stored beside its record: whole, or as a difference from an earlier prompt of the round."""

from collections.abc import Callable, Sequence

import msgspec

CHAIN_MAX = 4
"""A base that itself has a base is followed this far."""


class TokenList(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first `shared` ids of the prompt of record `base`, then `tail`."""

    tail: list[int]
    base: str = ""
    shared: int = 0


def pack(ids: Sequence[int], base: str = "", base_ids: Sequence[int] = ()) -> bytes:
    """`ids` as JSON, told as a difference from `base_ids`, the prompt of record `base`."""
    shared = 0
    if base:
        for one, other in zip(ids, base_ids, strict=False):
            if one != other:
                break
            shared += 1
    return msgspec.json.encode(TokenList(tail=list(ids[shared:]), base=base if shared else "", shared=shared))


def unpack(raw: bytes, raw_of: Callable[[str], bytes | None], depth: int = 0) -> list[int] | None:
    """The ids in `raw`; `raw_of` gives the stored bytes of a base record. `None` when anything is missing or unfit."""
    try:
        held = msgspec.json.decode(raw, type=TokenList)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if not held.base:
        return held.tail
    raw_base = raw_of(held.base) if depth < CHAIN_MAX else None
    base = unpack(raw_base, raw_of, depth + 1) if raw_base is not None else None
    if base is None or not 0 <= held.shared <= len(base):
        return None
    return base[: held.shared] + held.tail

"""Honest: what a record is worth. An answer of HTTP 200 that holds no answer is none, and a refusal of what the server
took before is the server's own.

The loop asks it before it chooses what comes next, the judge before it makes findings: one rule.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from signoff.core.record import Record
from signoff.core.words import State
from signoff.judge.capacity.sizes import (
    LOAD_OUTPUT_TOKENS,
    LONG_OUTPUTS,
    PROBE_OUTPUT_TOKENS,
    REST_OUTPUT_TOKENS,
    Sizes,
)

LACKS = "lacks"
"""Label of an answer without what was asked for: `answer`, or `tokens`."""
WORKED = "worked"
"""Label of a refusal of something that the server had answered earlier in this run."""
LABELS = (LACKS, WORKED)
SHORT_SHARE = 0.9
"""Of the tokens asked for with `min_tokens` and `ignore_eos`: an answer of fewer is no answer of that size."""
WINDOW_ROOM = 8
"""Tokens under the declared window from which on an answer counts as cut by it."""
REFUSALS = range(400, 500)

Shape = tuple[str, ...]


def honest(records: Sequence[Record], size: Sizes) -> list[Record]:
    """The records, in their order: an OK without its answer becomes `unfinished`, and what is labelled says why."""
    plain = [_answered(replace(r, labels=_own(r)) if any(k in r.labels for k in LABELS) else r, size) for r in records]
    worked: dict[Shape, int] = {}
    for record in plain:
        if record.state is State.OK:
            shape = shape_of(record)
            worked[shape] = min(worked.get(shape, record.end_ns), record.end_ns)
    return [_refused(r, worked) for r in plain]


def _own(record: Record) -> dict[str, str]:
    return {name: value for name, value in record.labels.items() if name not in LABELS}


def asked_tokens(record: Record, size: Sizes) -> int:
    """Output tokens that this request demanded."""
    arm = record.labels.get("arm", "")
    if arm == "probe":
        return PROBE_OUTPUT_TOKENS
    if arm == "rest":
        return REST_OUTPUT_TOKENS
    if record.stage.startswith("capacity.long_input"):
        return size.long_output_tokens
    if record.stage == "capacity.load":
        return LOAD_OUTPUT_TOKENS
    return size.output_tokens * (LONG_OUTPUTS if arm == "long" else 1)


def lacking(record: Record, size: Sizes) -> str:
    """`answer`: nothing came. `tokens`: well under what was asked for, and no window cut it. Empty: neither."""
    made = record.completion_tokens
    if made == 0 or (record.stream and record.first_token_ns is None):
        return "answer"
    cut = size.window is not None and (record.prompt_tokens or 0) + (made or 0) >= size.window - WINDOW_ROOM
    short = made is not None and made < SHORT_SHARE * asked_tokens(record, size) and not cut
    return "tokens" if short else ""


def _answered(record: Record, size: Sizes) -> Record:
    lacks = lacking(record, size) if record.state is State.OK else ""
    if not lacks:
        return record
    says = f"finished as a success with {record.completion_tokens} of {asked_tokens(record, size)} tokens"
    return replace(record, state=State.UNFINISHED, error=record.error or says, labels=record.labels | {LACKS: lacks})


def shape_of(record: Record) -> Shape:
    """Requests of one shape differ only in their words and in when they are sent."""
    arm, parts = record.labels.get("arm", ""), record.stage.split(".")
    if arm in ("first", "rest", "probe") or record.stage in ("capacity.load", "capacity.idle"):
        return ("small",)
    if parts[1:2] == ["long_input"]:
        return ("long_input", *parts[2:], record.labels.get("kind", ""))
    return ("long" if arm == "long" else "turn",)


def _refused(record: Record, worked: dict[Shape, int]) -> Record:
    if record.state is not State.HTTP_ERROR or record.status not in REFUSALS:
        return record
    before = worked.get(shape_of(record))
    if before is None or before >= record.end_ns:
        return record
    return replace(record, labels=record.labels | {WORKED: "before"})

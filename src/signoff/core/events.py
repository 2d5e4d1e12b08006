"""Events: what a run yields. The terminal and the bundle listen; no listener may change one."""

from typing import TypeAlias

from msgspec import Struct

from signoff.core.evidence import Evidence, Value
from signoff.core.record import Exchange
from signoff.core.words import Gate


class StageStarted(Struct, frozen=True, kw_only=True, tag=True):
    """A stage begins. Stage names are `<gate>.<stage>[.<step>]`, as in records."""

    stage: str
    gate: Gate
    at_ns: int
    conditions: dict[str, Value] = {}
    planned_requests: int = 0


class StageFinished(Struct, frozen=True, kw_only=True, tag=True):
    stage: str
    gate: Gate
    at_ns: int
    stopped: str = ""
    """Why it ended before its plan, empty when it did not."""
    conditions: dict[str, Value] = {}
    """What was found while running that belongs to the stage's conditions."""


class RecordTaken(Struct, frozen=True, kw_only=True, tag=True):
    """Yielded after the record was appended."""

    exchange: Exchange


class EvidenceTaken(Struct, frozen=True, kw_only=True, tag=True):
    evidence: Evidence


class Progress(Struct, frozen=True, kw_only=True, tag=True):
    """Live numbers for the terminal; never stored."""

    stage: str
    done: int
    planned: int
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    """0 to 1."""


class RunStopped(Struct, frozen=True, kw_only=True, tag=True):
    """The run ended before its plan: `interrupted`, `chain_failed`, `service_lost`, `guard_rail`."""

    why: str
    at_ns: int


Event: TypeAlias = StageStarted | StageFinished | RecordTaken | EvidenceTaken | Progress | RunStopped
StoredEvent: TypeAlias = StageStarted | StageFinished | RunStopped
"""The events that the bundle keeps, in `evidence/events.jsonl`; records and evidence have files of their own."""

"""What one fault alone does to the verdict."""

from msgspec import Struct

from signoff.core.words import Cause, Scope, VerdictName


class Ruling(Struct, frozen=True, kw_only=True):
    row: int
    """The row of the verdict table that the fault makes true; 8 when it makes none."""
    verdict: VerdictName
    also: tuple[VerdictName, ...] = ()
    scope: Scope | None = None
    cause: Cause
    why: str

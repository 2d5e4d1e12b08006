"""The seams to the world: what a run needs of a clock, a store and a client, so that tests can give their own."""

from typing import Protocol

from signoff.core.events import StoredEvent
from signoff.core.evidence import Evidence, Value
from signoff.core.record import Exchange, Record, Request


class Clock(Protocol):
    def now_ns(self) -> int:
        """Nanoseconds on the run's axis: monotonic, anchored to Unix time once."""

    async def sleep_until(self, at_ns: int) -> None: ...


class Store(Protocol):
    """Append-only; nothing that was handed over is lost when the process is killed right after."""

    def keep(
        self,
        raw: bytes,
        *,
        kind: str,
        source: str,
        where: str,
        taken_ns: int,
        stage: str = "",
        conditions: dict[str, Value] | None = None,
        media_type: str = "application/octet-stream",
    ) -> Evidence:
        """Store `raw` by digest and append its card."""

    def miss(
        self,
        why: str,
        *,
        kind: str,
        source: str,
        where: str,
        taken_ns: int,
        stage: str = "",
        conditions: dict[str, Value] | None = None,
    ) -> Evidence:
        """Append a card for something that could not be observed."""

    def take(self, exchange: Exchange, keep: bool) -> Record:
        """Append the record before anyone sees it; with `keep`, or when it failed, its bytes too.

        Returns the record as stored, with the digests of what was kept."""

    def note(self, event: StoredEvent) -> None:
        """Append an event."""


class Client(Protocol):
    async def send(self, request: Request, planned_ns: int) -> Exchange:
        """Send and return what became of it; never raises for the server's sins, never sends twice."""

"""The plan's guard rails around one gate: its load ends when the gate has used what the plan allows.

Each gate counts its own requests, tokens and minutes."""

import asyncio

from signoff.core.record import Record
from signoff.run.capacity_stage import Spent
from signoff.run.session import Session

GUARD_RAIL = "guard_rail"


class Rails:
    """While inside, `halt` is set as soon as the operator stops the run or a rail is reached."""

    def __init__(self, session: Session) -> None:
        self._stop, self._spent = session.stop, Spent(session)
        self.halt = asyncio.Event()
        self.reached = False
        self._task: asyncio.Task[None] | None = None

    def __enter__(self) -> "Rails":
        async def watch() -> None:
            await self._stop.wait()
            self.halt.set()

        if self._stop.is_set():
            self.halt.set()
        self._task = asyncio.get_running_loop().create_task(watch())
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()

    def add(self, record: Record) -> None:
        """One more request has ended."""
        self._spent.add(record)
        if self._spent.over:
            self.reached = True
            self.halt.set()

    @property
    def why(self) -> str:
        """Why load ended: `interrupted`, `guard_rail`, or empty while it did not."""
        return "interrupted" if self._stop.is_set() else GUARD_RAIL if self.reached else ""

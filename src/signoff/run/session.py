"""Session: what a gate's loop is given. Loops yield events; `run.order` is the only place that knows their order."""

import asyncio
from collections.abc import AsyncIterator

from msgspec import Struct

from signoff.core.events import Event
from signoff.core.plan import Plan
from signoff.core.profile import Profile
from signoff.core.protocols import Client, Clock, Store


class Session(Struct, frozen=True, kw_only=True):
    """One run in progress.

    A loop must stop sending as soon as `stop` is set, and still finish its stage event."""

    plan: Plan
    profile: Profile
    model: str
    """The served model name that requests carry."""
    max_model_len: int | None
    """The window that the server declares, in tokens."""
    client: Client
    store: Store
    clock: Clock
    stop: asyncio.Event
    run_id: str
    """Fresh for each run: prompts derive their nonces from it, so that no run reuses another's prefix."""


Events = AsyncIterator[Event]

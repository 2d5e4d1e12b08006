"""What the gateway lane needs: requests in a stage of their own, and the server's counters around them."""

from collections.abc import Sequence

from msgspec.structs import replace

from signoff.collect.agent.attempts import Attempt, Options, request_of
from signoff.collect.control import Control
from signoff.core.evidence import Evidence
from signoff.core.protocols import Clock, Store
from signoff.core.record import Request
from signoff.core.sample import Pack

STAGE = "agent.gateway"


def gateway_request(attempt: Attempt, pack: Pack, options: Options) -> Request:
    """The request of an attempt that goes through the gateway; its kind stands in the labels."""
    made = request_of(attempt, pack, options)
    return replace(made, stage=STAGE, labels=made.labels | {"kind": attempt.kind})


async def counters(
    control: Control, store: Store, clock: Clock, urls: Sequence[str], *, what: str, when: str, stage: str
) -> list[Evidence]:
    """One card of kind `scrape` a metrics URL: conditions what=direct|gateway, when=before|after."""
    cards = []
    for url in urls:
        answer = await control.get(url, timeout_s=10.0)
        conditions = {"what": what, "when": when}
        about = {"kind": "scrape", "source": "GET /metrics", "where": url, "stage": stage}
        if answer.ok:
            cards.append(
                store.keep(
                    answer.body, **about, taken_ns=clock.now_ns(), conditions=dict(conditions), media_type="text/plain"
                )
            )
        else:
            why = answer.error or f"HTTP {answer.status}"
            cards.append(store.miss(why, **about, taken_ns=clock.now_ns(), conditions=dict(conditions)))
    return cards

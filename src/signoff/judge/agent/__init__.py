"""The agent gate: can callers use what model, parser and gateway make of a turn, at a rate the plan allows?

template   tools are taken, and reach the prompt
rates      each kind of sample, with an exact interval at planned looks
lanes      streamed and whole agree; reasoning and control text stay apart
gateway    the same, through the gateway
effects    one intent, one effect
arrivals   one request to the gateway, one request of the gateway
"""

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.sample import KINDS
from signoff.judge.agent.arrivals import gateway_once
from signoff.judge.agent.attempt import Judged, judged, pack_of
from signoff.judge.agent.effects import effects_once
from signoff.judge.agent.gateway import gateway
from signoff.judge.agent.lanes import lanes
from signoff.judge.agent.rates import rates
from signoff.judge.agent.template import template


def findings(dossier: Dossier) -> list[Finding]:
    """Every finding of the agent gate, also of what never ran."""
    pack, card = pack_of(dossier)
    kinds: dict[str, list[Judged]] = {
        kind: judged(dossier, pack, f"agent.{kind}") if pack is not None else [] for kind in KINDS
    }
    return [
        *template(dossier),
        *rates(dossier, pack, card, kinds),
        *lanes(dossier, kinds),
        *gateway(dossier, pack, kinds),
        effects_once(dossier),
        gateway_once(dossier),
    ]

"""The prefix gate: findings over a dossier."""

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.words import Gate, Outcome
from signoff.judge.prefix.answers import output_same
from signoff.judge.prefix.caching import caching_of, caching_on, unit_known
from signoff.judge.prefix.controls import control_valid, control_zero
from signoff.judge.prefix.gateway import gateway_hits
from signoff.judge.prefix.hits import hits_expected
from signoff.judge.prefix.made import caching_needed, nothing
from signoff.judge.prefix.trials import STAGE, read_view
from signoff.judge.prefix.witnesses import arm_table, channels_agree, latency_effect, quiet


def findings(dossier: Dossier) -> list[Finding]:
    """Every finding of this gate; each check yields exactly one a subject, also when its stage was not run."""
    if Gate.PREFIX not in dossier.plan.gates:
        return nothing(Outcome.NOT_APPLICABLE)
    if dossier.started(STAGE) is None:
        return nothing(Outcome.NOT_RUN)
    view = read_view(dossier)
    caching = caching_of(view)
    if caching.on is False and not caching_needed(dossier):
        return nothing(Outcome.NOT_APPLICABLE)
    hits = hits_expected(view, caching)
    lost = hits.outcome is Outcome.FAIL
    return [
        caching_on(view, caching),
        unit_known(view),
        hits,
        gateway_hits(view, caching),
        *control_zero(view),
        *control_valid(view),
        channels_agree(view, lost),
        latency_effect(view, lost),
        quiet(view),
        output_same(view),
        *arm_table(view),
    ]

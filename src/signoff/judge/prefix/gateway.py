"""Whether a prompt that comes through the gateway still hits what the same prompt left in the cache directly."""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Cause, Outcome
from signoff.judge.prefix.caching import Caching
from signoff.judge.prefix.hits import kind_of, rendered_otherwise, tally
from signoff.judge.prefix.made import made, rounds_needed
from signoff.judge.prefix.trials import View

CODE = "prefix.gateway.hits"


def gateway_hits(view: View, caching: Caching) -> Finding:
    """`prefix.gateway.hits`. Only where direct replays hit can the gateway be blamed for missing ones."""
    url = view.dossier.plan.service.gateway_url
    if url == "none":
        return made(CODE, Outcome.NOT_APPLICABLE)
    if url is None:
        cited = ("plan.yaml#service.gateway_url",)
        return made(CODE, Outcome.NOT_RUN, {"reason": "gateway_not_said"}, evidence=cited, required=False)
    trials = view.of("gateway")
    kinds = {t.record.id: kind_of(t, view) for t in trials}
    short = [t for t in trials if kinds[t.record.id] in ("short", "void")]
    met = [t for t in trials if kinds[t.record.id] == "met"]
    sorted_out = tally(view)
    direct = {t.round for t in sorted_out.met if t.arm == "replay"}
    blamed = [t for t in short if t.round in direct]
    lost = {t.round for t in (*sorted_out.short, *sorted_out.void) if t.arm == "replay"}
    values: dict[str, Value] = {
        "requests": len(trials),
        "met": len(met),
        "short": len(short),
        "expected_tokens": sum(t.expected.best for t in (*met, *short) if t.expected is not None),
        "hit_tokens": sum(t.hit or 0 for t in (*met, *short)),
        "failed": sum(not t.ok for t in trials),
        "reason": "",
    }
    required = True
    if blamed:
        outcome = Outcome.FAIL
        values["reason"] = "head_changed" if any(rendered_otherwise(t) for t in blamed) else "unexplained"
    elif short:
        # hits that are proved lost without the gateway settle the verdict; those that nobody saw settle nothing
        outcome, required = Outcome.INCONCLUSIVE, not {t.round for t in short} <= lost
        values["reason"] = caching.reason or ("direct_hits_unknown" if required else "no_hits_directly")
    elif len(met) < len(trials):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "requests_failed" if values["failed"] else "undecided"
    elif len({t.round for t in met} & view.whole) < rounds_needed(view.dossier):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_rounds"
    else:
        outcome = Outcome.PASS
    return made(
        CODE,
        outcome,
        values,
        limit={"rounds_min": rounds_needed(view.dossier)},
        evidence=view.cite(blamed or trials),
        required=required,
        cause=Cause.GATEWAY if outcome is Outcome.FAIL else None,
    )

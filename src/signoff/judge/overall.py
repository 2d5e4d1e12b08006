"""Findings about the run as a whole: was it whole, alone, on one process, and was the client fit to measure?"""

import numpy as np

from signoff.core.dossier import Dossier
from signoff.core.events import RunStopped
from signoff.core.finding import Finding
from signoff.core.metrics import Floats, MetricTable
from signoff.core.plan import ALL_GATES
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity, State

DISQUALIFIED_SHARE_MAX = 0.25
"""Above this share the client is unfit for the run as a whole; below it each gate settles its own windows."""
SETTLED_STATES = (State.OK, State.NO_USAGE)


def findings(dossier: Dossier) -> list[Finding]:
    return [
        _whole(dossier),
        _gates(dossier),
        _alone(dossier),
        _one_process(dossier),
        _client(dossier),
        _reviewers(dossier),
        _operations(dossier),
    ]


def _about(code: str, outcome: Outcome, bearing: Bearing = Bearing.EVIDENCE, **more: object) -> Finding:
    return Finding(code=code, gate=Gate.ENVIRONMENT, outcome=outcome, bearing=bearing, **more)  # type: ignore[arg-type]


def _whole(dossier: Dossier) -> Finding:
    stopped = [e for e in dossier.events if isinstance(e, RunStopped)]
    ended = [e for e in stopped if e.why == "finished"]
    why = next((e.why for e in stopped if e.why != "finished"), "" if ended else "killed")
    if why == "chain_failed":
        return _about("run.whole.finished", Outcome.NOT_RUN, values={"stopped": why}, items=(6,), required=False)
    return _about(
        "run.whole.finished", Outcome.PASS if not why else Outcome.NOT_RUN, values={"stopped": why or None}, items=(6,)
    )


def _gates(dossier: Dossier) -> Finding:
    left_out = [gate for gate in ALL_GATES if gate not in dossier.plan.gates]
    return _about(
        "run.gates.planned",
        Outcome.PASS if not left_out else Outcome.NOT_APPLICABLE,
        Bearing.NOTE,
        severity=Severity.WARN,
        required=False,
        values={"left_out": ", ".join(left_out) or None},
        evidence=("plan.yaml#gates",),
    )


def _unloaded(dossier: Dossier) -> Outcome:
    """Of a check that needs requests where there are none: a plan of the environment gate alone asks for none."""
    return Outcome.NOT_APPLICABLE if set(dossier.plan.gates) == {Gate.ENVIRONMENT} else Outcome.NOT_RUN


def _finite(column: Floats | None) -> Floats | None:
    if column is None:
        return None
    seen = column[np.isfinite(column)]
    return seen if len(seen) >= 2 else None


def _grown(table: MetricTable, name: str) -> float | None:
    """How much a counter grew over the run; None when it was not seen twice or restarted."""
    column = _finite(table.total(name))
    if column is None or np.any(np.diff(column) < 0):
        return None
    return float(column[-1] - column[0])


def _served(records: list[Record]) -> tuple[int, int]:
    """Requests and prompt tokens of ours that the server answered in full."""
    done = [r for r in records if r.state in SETTLED_STATES and r.prompt_tokens is not None]
    return len(done), sum(r.prompt_tokens or 0 for r in done)


def _alone(dossier: Dossier) -> Finding:
    """Conservation: what the server counted must be what we sent. Requests of ours that failed may or may not count."""
    code, items = "run.traffic.exclusive", (6, 10)
    records = list(dossier.records)
    tables = list(dossier.metrics.values())
    if not dossier.plan.service.exclusive:
        return _about(
            code,
            Outcome.INCONCLUSIVE,
            values={"reason": "plan_says_shared"},
            evidence=("plan.yaml#service",),
            items=items,
        )
    if not records:
        return _about(code, _unloaded(dossier), items=items)
    grown = [(_grown(t, "vllm:request_success_total"), _grown(t, "vllm:prompt_tokens_total")) for t in tables]
    if not tables or any(requests is None or tokens is None for requests, tokens in grown):
        return _about(code, Outcome.INCONCLUSIVE, values={"reason": "counters_not_seen"}, items=items)
    requests, tokens = sum(g[0] or 0 for g in grown), sum(g[1] or 0 for g in grown)
    ours, our_tokens = _served(records)
    unclear = len(records) - ours
    foreign = max(0.0, requests - ours - unclear)
    foreign_tokens = max(0.0, tokens - our_tokens) if not unclear else 0.0
    values = {
        "server_requests": int(requests),
        "client_requests": len(records),
        "client_requests_unclear": unclear,
        "server_prompt_tokens": int(tokens),
        "client_prompt_tokens": our_tokens,
        "foreign_requests": int(foreign),
        "foreign_prompt_tokens": int(foreign_tokens),
    }
    lost = not unclear and tokens < our_tokens
    outcome = Outcome.INCONCLUSIVE if foreign or foreign_tokens or lost else Outcome.PASS
    cited = tuple(f"metrics:{t.server}@{t.t_ns[0]}-{t.t_ns[-1]}" for t in tables if len(t.t_ns))
    return _about(
        code, outcome, values=values | {"reason": "counters_disagree" if lost else None}, evidence=cited, items=items
    )


def _one_process(dossier: Dossier) -> Finding:
    """One start time for the whole run; counters that fall are a restart even where no start time is published."""
    code = "run.service.same_process"
    starts: set[int] = set()
    fell = False
    seen = False
    for table in dossier.metrics.values():
        column = _finite(table.highest("process_start_time_seconds"))
        if column is not None:
            seen = True
            starts |= {int(value) for value in column}
        for name in ("vllm:request_success_total", "vllm:prompt_tokens_total"):
            counter = _finite(table.total(name))
            if counter is not None:
                seen = True
                fell = fell or bool(np.any(np.diff(counter) < 0))
    if not seen:
        return _about(code, Outcome.INCONCLUSIVE if dossier.records else _unloaded(dossier), items=(4,))
    restarted = fell or len(starts) > len(dossier.metrics)
    return _about(
        code,
        Outcome.FAIL if restarted else Outcome.PASS,
        Bearing.SERVICE if restarted else Bearing.EVIDENCE,
        cause=Cause.SUSTAINED if restarted else Cause.NONE,
        phase=Phase.SOAK if restarted else Phase.NA,
        values={"process_starts": len(starts) or None, "counters_fell": fell},
        evidence=tuple(f"metrics:{t.server}@{t.t_ns[0]}-{t.t_ns[-1]}" for t in dossier.metrics.values() if len(t.t_ns)),
        items=(4,),
    )


def _client(dossier: Dossier) -> Finding:
    code = "run.client.fit"
    if not dossier.records:
        return _about(code, _unloaded(dossier), items=(6,))
    bad = [r for r in dossier.records if r.disqualified]
    share = len(bad) / len(dossier.records)
    checks = [e for e in dossier.of_kind("client_self") if e.digest]
    outcome = Outcome.PASS if share <= DISQUALIFIED_SHARE_MAX and checks else Outcome.INCONCLUSIVE
    return _about(
        code,
        outcome,
        cause=Cause.CLIENT if outcome is not Outcome.PASS else Cause.NONE,
        values={
            "disqualified_share": six(share),
            "requests": len(dossier.records),
            "self_check": bool(checks),
        },
        limit={"disqualified_share_max": DISQUALIFIED_SHARE_MAX},
        evidence=tuple(f"sha256:{e.digest}" for e in checks) + tuple(f"record:{r.id}" for r in bad[:3]),
        items=(6,),
    )


def _reviewers(dossier: Dossier) -> Finding:
    review = dossier.plan.review
    named = "all" in review.items or all(str(item) in review.items for item in range(1, 14))
    return _about(
        "run.review.named",
        Outcome.PASS if named else Outcome.INCONCLUSIVE,
        values={"reviewers": len(set(review.items.values())), "threshold": review.threshold},
        evidence=("plan.yaml#review",),
        items=(12,),
    )


def _operations(dossier: Dossier) -> Finding:
    plan = dossier.plan
    missing = [
        name
        for name, value in (
            ("triggers.throttle", plan.triggers.throttle),
            ("triggers.scale", plan.triggers.scale),
            ("triggers.rollback", plan.triggers.rollback),
            ("rollback.to", plan.rollback.to),
            ("rollback.how", plan.rollback.how),
        )
        if not value
    ]
    return _about(
        "run.operations.planned",
        Outcome.PASS if not missing else Outcome.INCONCLUSIVE,
        values={"missing": ", ".join(missing) or None, "rollback_to": plan.rollback.to},
        evidence=("plan.yaml#triggers", "plan.yaml#rollback"),
        items=(13,),
    )

"""Findings about the run as a whole: was it whole, alone, on one process, and was the client fit to measure?"""

from itertools import pairwise

import numpy as np

from signoff.core.dossier import Dossier
from signoff.core.events import RunStopped
from signoff.core.finding import Finding
from signoff.core.metrics import MetricTable
from signoff.core.plan import ALL_GATES
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Severity
from signoff.judge.conservation import PROMPT, SUCCESS, alone, cited
from signoff.read.client_self import ClientSelf, read_client_self

DISQUALIFIED_SHARE_MAX = 0.25
"""Above this share the client is unfit for the run as a whole; below it each gate settles its own windows."""
LATE_MS_MAX_LEAST = 250.0
"""How late the client may see a first token in its self-check, where half of the plan's limit is not more."""
START = "process_start_time_seconds"


def findings(dossier: Dossier) -> list[Finding]:
    return [
        _whole(dossier),
        _gates(dossier),
        alone(dossier, _unloaded(dossier)),
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
    """A plan may leave gates out, and the verdict then says nothing about them; but the chain is what every other
    measurement stands on, and without it there is no verdict."""
    left_out = [gate for gate in ALL_GATES if gate not in dossier.plan.gates]
    chainless = Gate.ENVIRONMENT in left_out
    return _about(
        "run.gates.planned",
        Outcome.PASS if not left_out else Outcome.NOT_RUN if chainless else Outcome.NOT_APPLICABLE,
        Bearing.CHAIN if chainless else Bearing.NOTE,
        severity=Severity.FAIL if chainless else Severity.WARN,
        required=chainless,
        values={"left_out": ", ".join(left_out)},
        evidence=("plan.yaml#gates",),
    )


def _unloaded(dossier: Dossier) -> Outcome:
    """Of a check that needs requests where there are none: a plan of the environment gate alone asks for none."""
    return Outcome.NOT_APPLICABLE if set(dossier.plan.gates) == {Gate.ENVIRONMENT} else Outcome.NOT_RUN


def _one_process(dossier: Dossier) -> Finding:
    """One start time for the whole run; counters that fall are a restart even where no start time is published.

    A start time that goes back belongs to two processes behind one address: no restart, and no one process either."""
    code, items = "run.service.same_process", (4,)
    tables = list(dossier.metrics.values())
    starts = [seen for t in tables if (seen := _in_order(t, START)) is not None]
    counters = [c for t in tables for name in (SUCCESS, PROMPT) for c in t.series(name).values()]
    finite = [c[np.isfinite(c)] for c in counters]
    fell = any(bool(np.any(c[1:] < c[:-1])) for c in finite)
    if not starts and not counters:
        return _about(code, Outcome.INCONCLUSIVE if dossier.records else _unloaded(dossier), items=items)
    several = any(later < earlier for seen in starts for earlier, later in pairwise(seen))
    restarted = not several and (fell or any(len(seen) > 1 for seen in starts))
    outcome = Outcome.FAIL if restarted else Outcome.INCONCLUSIVE if several or fell else Outcome.PASS
    return _about(
        code,
        outcome,
        Bearing.SERVICE if restarted else Bearing.EVIDENCE,
        cause=Cause.SUSTAINED if restarted else Cause.NONE,
        phase=Phase.SOAK if restarted else Phase.NA,
        values={
            "process_starts": sum(len(set(seen)) for seen in starts) or None,
            "servers": len(tables),
            "counters_fell": fell,
            "several_behind_one_address": several,
        },
        evidence=cited(tables),
        items=items,
    )


def _in_order(table: MetricTable, name: str) -> list[int] | None:
    """The values of a gauge in the order in which they were first met, whole numbers; None when it was not seen."""
    column = table.highest(name)
    seen = [] if column is None else [int(value) for value in column[np.isfinite(column)]]
    return [value for index, value in enumerate(seen) if index == 0 or value != seen[index - 1]] or None


def _client(dossier: Dossier) -> Finding:
    """A late client only makes a service look worse; one that lost requests or was late beyond the limits it measures
    against measured nothing."""
    code, items = "run.client.fit", (6,)
    if not dossier.records:
        return _about(code, _unloaded(dossier), items=items)
    bad = [r for r in dossier.records if r.disqualified]
    share = len(bad) / len(dossier.records)
    card = next(iter([e for e in dossier.of_kind("client_self") if e.digest][-1:]), None)
    check = None if card is None else _read_check(dossier, card.digest)
    late_ms_max = LATE_MS_MAX_LEAST
    if dossier.plan.objective.limits.ttft_ms_p99 is not None:
        late_ms_max = max(late_ms_max, dossier.plan.objective.limits.ttft_ms_p99 / 2)
    late_ms = None if check is None or check.ttft_error_ms is None else check.ttft_error_ms.p99
    whole = check is not None and check.requests > 0 and check.ok == check.requests
    fit = share <= DISQUALIFIED_SHARE_MAX and whole and late_ms is not None and abs(late_ms) <= late_ms_max
    return _about(
        code,
        Outcome.PASS if fit else Outcome.INCONCLUSIVE,
        cause=Cause.NONE if fit else Cause.CLIENT,
        values={
            "disqualified_share": six(share),
            "requests": len(dossier.records),
            "self_check_requests": check.requests if check is not None else None,
            "self_check_ok": check.ok if check is not None else None,
            "self_check_ttft_error_ms_p99": six(late_ms) if late_ms is not None else None,
        },
        limit={"disqualified_share_max": DISQUALIFIED_SHARE_MAX, "ttft_error_ms_max": late_ms_max},
        evidence=((f"sha256:{card.digest}",) if card is not None else ()) + tuple(f"record:{r.id}" for r in bad[:3]),
        items=items,
    )


def _read_check(dossier: Dossier, digest: str) -> ClientSelf | None:
    try:
        return read_client_self(dossier.blob(digest))
    except KeyError:
        return None


def _reviewers(dossier: Dossier) -> Finding:
    review = dossier.plan.review
    items = {item for item, name in review.items.items() if name.strip()}
    named = "all" in items or all(str(item) in items for item in range(1, 14))
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
        if not (value or "").strip()
    ]
    return _about(
        "run.operations.planned",
        Outcome.PASS if not missing else Outcome.INCONCLUSIVE,
        values={"missing": ", ".join(missing) or None, "rollback_to": plan.rollback.to},
        evidence=("plan.yaml#triggers", "plan.yaml#rollback"),
        items=(13,),
    )

"""Conservation: what the servers counted over the run must be what this run sent, no more and no less.

Requests of ours that ended well are counted; those that ended otherwise may or may not be. So the growth must lie
between the first and both together. Outside that, somebody else was there, or a server was not watched.
"""

import math
from collections.abc import Sequence

import numpy as np

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.metrics import MetricTable
from signoff.core.record import Record
from signoff.core.words import Bearing, Gate, Outcome, State

SUCCESS, PROMPT = "vllm:request_success_total", "vllm:prompt_tokens_total"
SETTLED_STATES = (State.OK, State.NO_USAGE)


def cited(tables: Sequence[MetricTable]) -> tuple[str, ...]:
    """The whole span of every table, as evidence."""
    return tuple(f"metrics:{t.server}@{t.t_ns[0]}-{t.t_ns[-1]}" for t in tables if len(t.t_ns))


def grown(table: MetricTable, name: str) -> float | None:
    """How much a counter grew over the run, summed over its series; None when it was never seen or fell.

    A series that appears later, as a finish reason does when it first happens, began at zero."""
    total, seen = 0.0, False
    for column in table.series(name).values():
        met = np.flatnonzero(np.isfinite(column))
        if len(met) == 0:
            continue
        values = column[met]
        if np.any(values[1:] < values[:-1]):
            return None
        seen = True
        total += float(values[-1]) - (float(values[0]) if met[0] == 0 else 0.0)
    return total if seen and len(table.t_ns) >= 2 else None


def alone(dossier: Dossier, without_records: Outcome) -> Finding:
    """The finding `run.traffic.exclusive`; `without_records` is its outcome when nothing was sent."""
    records, tables = list(dossier.records), list(dossier.metrics.values())
    if not dossier.plan.service.exclusive:
        return _finding(Outcome.INCONCLUSIVE, {"reason": "plan_says_shared"}, ("plan.yaml#service",))
    if not records:
        return _finding(without_records, {}, ())
    if set(dossier.plan.metrics_urls()) - set(dossier.metrics):
        return _finding(Outcome.INCONCLUSIVE, {"reason": "a_server_was_not_scraped"}, cited(tables))
    counts = [(grown(t, SUCCESS), grown(t, PROMPT)) for t in tables]
    if any(requests is None or tokens is None for requests, tokens in counts):
        return _finding(Outcome.INCONCLUSIVE, {"reason": "counters_not_seen"}, cited(tables))
    requests, tokens = sum(c[0] or 0.0 for c in counts), sum(c[1] or 0.0 for c in counts)
    if not (math.isfinite(requests) and math.isfinite(tokens)):
        return _finding(Outcome.INCONCLUSIVE, {"reason": "counters_not_seen"}, cited(tables))
    values, open_ = _compared(records, requests, tokens, dossier.plan.objective.input_tokens.target)
    return _finding(Outcome.INCONCLUSIVE if open_ else Outcome.PASS, values | {"reason": open_ or None}, cited(tables))


def _compared(records: Sequence[Record], requests: float, tokens: float, longest: int) -> tuple[dict[str, Value], str]:
    """The numbers side by side, and why they do not agree; empty when they do."""
    done = [r for r in records if r.state in SETTLED_STATES and r.prompt_tokens is not None]
    ours, our_tokens = len(done), sum(r.prompt_tokens or 0 for r in done)
    unclear = len(records) - ours
    tokens_unclear = unclear * max([longest, *(r.prompt_tokens or 0 for r in done)])
    foreign, foreign_tokens = requests - ours - unclear, tokens - our_tokens - tokens_unclear
    values: dict[str, Value] = {
        "server_requests": int(requests),
        "client_requests": len(records),
        "client_requests_unclear": unclear,
        "server_prompt_tokens": int(tokens),
        "client_prompt_tokens": our_tokens,
        "foreign_requests": int(max(0.0, foreign)),
        "foreign_prompt_tokens": int(max(0.0, foreign_tokens)),
    }
    if foreign > 0 or foreign_tokens > 0:
        return values, "other_traffic"
    return values, "the_server_counted_less" if requests < ours or tokens < our_tokens else ""


def _finding(outcome: Outcome, values: dict[str, Value], evidence: tuple[str, ...]) -> Finding:
    return Finding(
        code="run.traffic.exclusive",
        gate=Gate.ENVIRONMENT,
        outcome=outcome,
        bearing=Bearing.EVIDENCE,
        values=values,
        evidence=evidence,
        items=(6, 10),
    )

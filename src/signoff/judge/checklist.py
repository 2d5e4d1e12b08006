"""The thirteen checklist items (listed in `docs/verdict.md`), filled from the findings."""

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.instants import iso_utc
from signoff.core.verdict import ChecklistItem
from signoff.core.words import Bearing, Gate, Outcome
from signoff.judge.catalogue import sentence

ITEMS: dict[int, str] = {
    1: "Recipe version, check date and source link",
    2: "Image tag, CUDA 13 build confirmed inside",
    3: "Host GPU, R580 or newer driver, versions seen by the container",
    4: "Whole launch log, no unexplained CUDA, NCCL or rank error",
    5: "Fixed agent samples: system prompt, tools, several turns, structured output",
    6: "All stress stages",
    7: "Memory curves with input, output and concurrency conditions",
    8: "KV cache use, running, waiting, preemptions",
    9: "Prefix caching explicitly on; cold, warm, negative control",
    10: "Prefix queries and hits, cached prompt tokens where offered",
    11: "Tool schema, tool calls, reasoning field, retry, fallback",
    12: "Every item has condition, result, time and a named reviewer",
    13: "Throttle, scale-out and rollback triggers and the rollback target",
}
GATE_OF = {
    5: Gate.AGENT,
    6: Gate.CAPACITY,
    7: Gate.CAPACITY,
    8: Gate.CAPACITY,
    9: Gate.PREFIX,
    10: Gate.PREFIX,
    11: Gate.AGENT,
}
"""The gate whose findings an item stands on; one that the plan leaves out leaves its items out."""
_WORST_FIRST = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN)
EVIDENCE_MAX = 12


def checklist(dossier: Dossier, findings: list[Finding]) -> tuple[ChecklistItem, ...]:
    """All thirteen items; an item that no finding speaks to is not run."""
    taken = {e.digest: e.taken_ns for e in dossier.evidence if e.digest}
    latest = max((r.end_ns for r in dossier.records), default=None)
    began = min((e.taken_ns for e in dossier.evidence), default=None)  # plan and profile were frozen then
    return tuple(_item(number, dossier, findings, taken, latest, began) for number in ITEMS)


def _item(
    number: int,
    dossier: Dossier,
    findings: list[Finding],
    taken: dict[str, int],
    latest: int | None,
    began: int | None,
) -> ChecklistItem:
    about = [f for f in findings if number in f.items]
    weighed = [f for f in about if f.bearing is not Bearing.NOTE and (f.required or f.outcome is Outcome.FAIL)]
    outcome = _outcome(weighed)
    if GATE_OF.get(number, Gate.ENVIRONMENT) not in dossier.plan.gates and outcome in (Outcome.NOT_RUN, Outcome.PASS):
        outcome = Outcome.NOT_APPLICABLE
    shown = next((f for worst in (*_WORST_FIRST, Outcome.PASS) for f in weighed if f.outcome is worst), None)
    cited = tuple(dict.fromkeys(ref for f in about for ref in f.evidence))
    times = [taken[d] for ref in cited if (d := ref.removeprefix("sha256:").split("#")[0]) in taken]
    if latest is not None and any(ref.startswith(("record:", "metrics:")) for ref in cited):
        times.append(latest)
    if began is not None and any(ref.startswith(("plan.yaml", "profile.json")) for ref in cited):
        times.append(began)
    review = dossier.plan.review.items
    return ChecklistItem(
        item=number,
        outcome=outcome,
        condition=f"{ITEMS[number]} (plan {dossier.plan.name}, profile {dossier.profile.name})",
        result=sentence(shown) if shown is not None else "No check of this run speaks to this item.",
        time=iso_utc(max(times)) if times else None,
        reviewer=review.get(str(number), review.get("all")),
        evidence=cited[:EVIDENCE_MAX],
    )


def _outcome(findings: list[Finding]) -> Outcome:
    outcomes = {f.outcome for f in findings}
    for worst in _WORST_FIRST:
        if worst in outcomes:
            return worst
    if Outcome.PASS in outcomes:
        return Outcome.PASS
    return Outcome.NOT_APPLICABLE if Outcome.NOT_APPLICABLE in outcomes else Outcome.NOT_RUN

"""What the verdict is about, what was accepted, and under which conditions and until when."""

from signoff.core.codec import digest, to_json
from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.instants import iso_utc
from signoff.core.verdict import Accepted, Subject
from signoff.core.words import VerdictName
from signoff.judge.decide import Decision
from signoff.read.launch_log import LaunchLog, read_launch_log

LIMITED_DAYS = 14
DAY_NS = 86_400 * 10**9


def last_log(dossier: Dossier) -> LaunchLog | None:
    """The newest launch log, read."""
    cards = [e for e in dossier.of_kind("launch_log") if e.digest]
    if not cards:
        return None
    try:
        return read_launch_log(dossier.blob(cards[-1].digest))
    except KeyError:
        return None


def subject(dossier: Dossier, findings: list[Finding]) -> Subject:
    """Only what the evidence establishes; `None` where it does not."""

    def value(code: str, key: str) -> str | None:
        found = [f.values[key] for f in findings if f.code == code and f.values.get(key) is not None]
        return str(found[0]) if found else None

    log = last_log(dossier)
    layout = None
    if log is not None and (log.tp or log.pp or log.dp):
        layout = " ".join(f"{name}{size}" for name, size in (("TP", log.tp), ("PP", log.pp), ("DP", log.dp)) if size)
    return Subject(
        model=dossier.plan.service.model or value("environment.service.model", "model"),
        image_digest=value("environment.chain.image", "digest"),
        driver=value("environment.chain.driver", "observed"),
        gpus=value("environment.chain.gpu", "observed"),
        layout=layout,
        launch_digest=digest(to_json(log.arguments)) if log is not None and log.arguments else None,
        platform=value("environment.chain.platform", "observed"),
        simulated=dossier.plan.service.simulated or dossier.profile.scope == "simulated",
    )


def _whole(value: Value) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def accepted(dossier: Dossier, findings: list[Finding]) -> Accepted:
    """The loads that were wanted and the highest that held; a load nobody measured is `None`."""
    loads = next((f.values for f in findings if f.code == "capacity.concurrency.target"), {})
    window = next((f.values for f in findings if f.code == "capacity.long_input.window"), {})
    objective = dossier.plan.objective.concurrency
    return Accepted(
        target=objective.target,
        floor=objective.floor,
        held=_whole(loads.get("held")),
        window=_whole(window.get("held")),
    )


def conditions(dossier: Dossier, findings: list[Finding], decision: Decision) -> tuple[dict[str, Value], ...]:
    """The conditions of `limited`; empty for every other verdict."""
    if decision.verdict is not VerdictName.LIMITED:
        return ()
    plan = dossier.plan
    load = accepted(dossier, findings)
    return (
        {"kind": "concurrency_cap", "value": load.held, "target_passed": False},
        {"kind": "error_rate_alert", "value": plan.objective.limits.error_rate},
        {"kind": "rollback", "value": plan.triggers.rollback, "to": plan.rollback.to},
        {"kind": "expires", "value": valid_until(dossier, decision)},
    )


def valid_until(dossier: Dossier, decision: Decision) -> str | None:
    """A `limited` expires fourteen days after its last evidence; no clock is asked."""
    if decision.verdict is not VerdictName.LIMITED:
        return None
    instants = [e.taken_ns for e in dossier.evidence] + [r.end_ns for r in dossier.records]
    return iso_utc(max(instants) + LIMITED_DAYS * DAY_NS) if instants else None

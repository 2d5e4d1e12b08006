"""The launch logs: whole, without known failures, without forbidden fallbacks, and with nothing unexplained."""

import re

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Outcome, Severity
from signoff.judge.environment import log_during
from signoff.judge.environment.log_during import Noted, at_start, during, unseen
from signoff.judge.environment.log_match import of_another
from signoff.judge.environment.scene import NodeView, ReadLog, Scene, about
from signoff.read.launch_log import LogNote

BEARINGS = {
    Cause.ENVIRONMENT: Bearing.CHAIN,
    Cause.TOPOLOGY: Bearing.LAUNCH,
    Cause.HARDWARE: Bearing.HOST,
}
"""Where a known failure of a launch log stands in the verdict table; other causes are evidence to be settled."""
ITEMS = (4,)
SHOWN = 8
_CHANGING = re.compile(r"0x[0-9a-f]+|\d+(?:\.\d+)?|pid=\S+")


def findings(scene: Scene, view: NodeView) -> list[Finding]:
    return [
        _whole(scene, view),
        _failures(scene, view),
        log_during.finding(scene, view),
        _unexplained(scene, view),
        _fallbacks(scene, view),
        _degradations(scene, view),
    ]


def _before(view: NodeView) -> list[ReadLog]:
    return [log for log in view.logs if log.when != "after"]


def _of_family(view: NodeView, family: str) -> list[Noted]:
    """Notes of the last start, and those that came with the load."""
    return [(entry, note) for entry, note in (*at_start(view), *during(view)) if note.family == family]


def _cite(log: ReadLog, note: LogNote) -> str:
    return f"sha256:{log.digest}#L{note.line}"


def _no_logs(view: NodeView) -> str:
    return "; ".join(view.logs_missing)[:600] or "no launch log was given"


def _whole(scene: Scene, view: NodeView) -> Finding:
    """Logs from process start to readiness; of several on one node, one must say that the server was ready."""
    logs = _before(view)
    faults = [fault for entry in logs if (fault := _fault(scene, view, entry))]
    if not logs:
        faults.append(_no_logs(view))
    elif not faults and not view.headless and not any(entry.log.ready for entry in logs):
        faults.append("no log says that the server was ready")
    first = logs[0].log if logs else None
    values: dict[str, Value] = {
        "logs": len(logs),
        "lines": sum(entry.log.lines for entry in logs),
        "boots": first.boots if first is not None else None,
        "ranks": len(first.ranks) or None if first is not None else None,
        "reason": "; ".join(faults)[:800] or None,
    }
    return about(
        "environment.log.whole",
        Outcome.INCONCLUSIVE if faults else Outcome.PASS,
        Bearing.EVIDENCE,
        subject=view.name,
        values=values,
        evidence=[f"sha256:{entry.digest}" for entry in logs],
        items=ITEMS,
    )


def _fault(scene: Scene, view: NodeView, entry: ReadLog) -> str:
    """Why one log is not whole, empty when it is."""
    log = entry.log
    if not entry.bytes or not log.lines:
        return f"{entry.source} is empty"
    if not log.boots or not log.phases:
        return f"{entry.source} shows no start of a server"
    if other := of_another(scene, view, entry):
        return f"{entry.source} is of another server or start: {other}"
    if entry.cut:
        return f"{entry.source} was cut in the middle"
    return f"{entry.source} ends before the server was ready" if log.truncated and not log.ready else ""


def _failures(scene: Scene, view: NodeView) -> Finding:
    """Known failures in the last boot, before the load."""
    code, found = "environment.log.failures", log_during.failures_of(at_start(view))
    if not _before(view):
        return about(
            code,
            Outcome.INCONCLUSIVE,
            Bearing.EVIDENCE,
            subject=view.name,
            values={"reason": _no_logs(view)},
            items=ITEMS,
        )
    if not found:
        return about(code, Outcome.PASS, Bearing.EVIDENCE, subject=view.name, values={"count": 0}, items=ITEMS)
    first = found[0][0].log.first_error or found[0][1]
    values: dict[str, Value] = {
        "count": len(found),
        "kind": first.kind,
        "text": first.text,
        "line": first.line,
        "why": first.why,
        "process": first.process or None,
    }
    return about(
        code,
        Outcome.FAIL,
        BEARINGS.get(first.cause, Bearing.EVIDENCE),
        subject=view.name,
        values=values,
        evidence=[_cite(entry, note) for entry, note in found[:SHOWN]],
        items=ITEMS,
        cause=first.cause,
        phase=first.phase,
    )


def _unexplained(scene: Scene, view: NodeView) -> Finding:
    """Warnings and errors that no rule knows; a named reviewer must explain each before the log can pass."""
    shapes: dict[str, tuple[ReadLog, LogNote]] = {}
    unknown = _of_family(view, "unknown")
    for entry, note in unknown:
        shapes.setdefault(_CHANGING.sub("#", note.text), (entry, note))
    reason = unseen(scene, view) if view.logs else _no_logs(view)
    if any(len(entry.log.notes) >= log_during.SEEN_MOST for entry in view.logs):
        reason = reason or "a log holds more notes than are read"
    outcome = Outcome.INCONCLUSIVE if shapes or reason else Outcome.PASS
    shown = list(shapes.values())[:SHOWN]
    values: dict[str, Value] = {
        "count": len(shapes),
        "lines": len(unknown),
        "texts": " | ".join(f"L{note.line}: {note.text[:200]}" for _, note in shown) or ("" if view.logs else None),
        "reason": reason or None,
    }
    return about(
        "environment.log.unexplained",
        outcome,
        Bearing.EVIDENCE,
        subject=view.name,
        values=values,
        evidence=[_cite(entry, note) for entry, note in shown],
        items=ITEMS,
    )


def _fallbacks(scene: Scene, view: NodeView) -> Finding:
    """Paths that were wanted and are not in use: forbidden ones fail, others are listed."""
    found = _of_family(view, "fallback")
    forbidden = [(entry, note) for entry, note in found if note.kind in scene.profile.forbidden_fallbacks]
    shown = (forbidden or found)[:SHOWN]
    reason = unseen(scene, view) if _before(view) else _no_logs(view)
    outcome = Outcome.FAIL if forbidden else Outcome.INCONCLUSIVE if reason else Outcome.PASS
    values: dict[str, Value] = {
        "count": len(forbidden or found),
        "texts": " | ".join(f"L{note.line}: {note.text[:200]}" for _, note in shown) or ("" if view.logs else None),
        "reason": reason or None,
    }
    return about(
        "environment.log.fallbacks",
        outcome,
        Bearing.LAUNCH if forbidden else Bearing.EVIDENCE,
        subject=view.name,
        values=values,
        limit={"forbidden": ", ".join(scene.profile.forbidden_fallbacks) or None},
        evidence=[_cite(entry, note) for entry, note in shown],
        items=ITEMS,
        severity=Severity.WARN if found and not forbidden else Severity.FAIL,
        cause=Cause.TOPOLOGY,
    )


def _degradations(scene: Scene, view: NodeView) -> Finding:
    """Lines that say that the server runs and is slower or lesser than it could be."""
    found = _of_family(view, "degradation")
    shown = found[:SHOWN]
    values: dict[str, Value] = {
        "count": len(found),
        "texts": " | ".join(f"L{note.line}: {note.text[:200]}" for _, note in shown) or ("" if view.logs else None),
    }
    return about(
        "environment.log.degradations",
        Outcome.PASS if _before(view) else Outcome.INCONCLUSIVE,
        Bearing.NOTE,
        subject=view.name,
        values=values,
        evidence=[_cite(entry, note) for entry, note in shown],
        severity=Severity.WARN if found else Severity.INFO,
        required=False,
        items=ITEMS,
    )

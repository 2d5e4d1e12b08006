"""What the launch logs got while load was sent: every line of the logs taken after it that those before it lack."""

from collections import Counter

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Outcome, Severity
from signoff.judge.environment.log_match import of_another
from signoff.judge.environment.scene import NodeView, ReadLog, Scene, about
from signoff.read.launch_log import LogNote

Noted = tuple[ReadLog, LogNote]
CALLERS = (Cause.CLIENT, Cause.GATEWAY, Cause.MODEL_PARSER)
"""Failures of single requests: other gates count them against the requests that were sent."""
MEMORY = ("oom", "host_oom", "host_allocation")
"""Kinds, or their beginnings, that say that memory ran out: what used it must be located before anyone is to blame."""
ITEMS = (4, 7)
SHOWN = 8
SEEN_MOST = 2000
"""As many notes as the log reader keeps of one log."""


def at_start(view: NodeView) -> list[Noted]:
    """Notes of the last start in the logs taken before the load."""
    entries = [entry for entry in view.logs if entry.when != "after"]
    return [(entry, note) for entry in entries for note in entry.log.notes if note.line >= entry.log.boot_line]


def during(view: NodeView) -> list[Noted]:
    """Notes that came with the load, those before a restart included. Without a log from before it nothing says what is
    new, and all of the last start counts."""
    before = [entry for entry in view.logs if entry.when != "after"]
    known = Counter(note.text for entry in before for note in entry.log.notes)
    fresh: list[Noted] = []
    for entry in view.logs:
        if entry.when != "after":
            continue
        for note in entry.log.notes:
            if known[note.text] > 0:
                known[note.text] -= 1
            elif before or note.line >= entry.log.boot_line:
                fresh.append((entry, note))
    return fresh


def failures_of(noted: list[Noted]) -> list[Noted]:
    """The failures among notes; those that only say that something failed elsewhere when there is no other."""
    failed = [(entry, note) for entry, note in noted if note.family == "failure"]
    return [(entry, note) for entry, note in failed if not note.envelope] or failed


def unseen(scene: Scene, view: NodeView) -> str:
    """Why nobody can say what the logs got during the load; empty when that is known or no load was sent."""
    if not view.due:
        return ""
    after = [entry for entry in view.logs if entry.when == "after"]
    if not after:
        return "no launch log was taken after the load"
    for entry in after:
        if other := of_another(scene, view, entry):
            return f"after the load {entry.source} is of another server or start: {other}"
        if len(entry.log.notes) >= SEEN_MOST:
            return f"after the load {entry.source} holds more notes than are read"
    for entry in view.logs:
        if entry.when == "after":
            continue
        same = [later for later in after if later.source == entry.source]
        if not same:
            return f"{entry.source} was not taken after the load"
        if same[-1].bytes < entry.bytes:
            return f"{entry.source} is shorter after the load than before it"
        if same[-1].cut and not entry.cut:
            return f"{entry.source} was too large after the load and cut in the middle"
    return ""


def finding(scene: Scene, view: NodeView) -> Finding:
    """Known failures while load was sent. One that the capacity gate locates is said here and weighed there."""
    code = "environment.log.during"
    failed = failures_of(during(view))
    own = [(entry, note) for entry, note in failed if note.cause not in CALLERS]
    if not own:
        reason = unseen(scene, view)
        outcome = Outcome.INCONCLUSIVE if reason else Outcome.PASS if view.due else Outcome.NOT_RUN
        return about(
            code,
            outcome,
            Bearing.EVIDENCE,
            subject=view.name,
            values={"count": 0, "of_requests": len(failed), "reason": reason or None},
            evidence=[_cite(noted) for noted in failed[:SHOWN]],
            items=ITEMS,
            severity=Severity.WARN if failed and outcome is Outcome.PASS else Severity.FAIL,
            required=view.due,
        )
    first = next((noted for noted in own if noted[1].cause is Cause.HARDWARE), own[0])[1]
    bearing = _bearing(first, scene.located)
    values: dict[str, Value] = {
        "count": len(own),
        "of_requests": len(failed) - len(own),
        "kind": first.kind,
        "text": first.text,
        "line": first.line,
        "why": first.why,
        "process": first.process or None,
        "located": scene.located,
    }
    return about(
        code,
        Outcome.FAIL,
        bearing,
        subject=view.name,
        values=values,
        evidence=[_cite(noted) for noted in own[:SHOWN]],
        items=ITEMS,
        severity=Severity.WARN if bearing is Bearing.NOTE else Severity.FAIL,
        required=bearing is not Bearing.NOTE,
        cause=first.cause if first.cause is not Cause.NONE else Cause.SUSTAINED,
        phase=first.phase,
    )


def _bearing(note: LogNote, located: bool) -> Bearing:
    """Hardware that breaks is hardware whatever the load. A death that the capacity gate saw has its row there. Else
    memory that ran out has no located cause, and any other death is the software's."""
    if note.cause is Cause.HARDWARE:
        return Bearing.HOST
    if located:
        return Bearing.NOTE
    return Bearing.EVIDENCE if note.kind.startswith(MEMORY) else Bearing.SERVICE


def _cite(noted: Noted) -> str:
    entry, note = noted
    return f"sha256:{entry.digest}#L{note.line}"

"""The service as it answers: model, architecture, profile, and what it leaves open to anyone who reaches it."""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.instants import iso_utc
from signoff.core.words import Bearing, Outcome, Severity
from signoff.judge.environment.options import launch_of
from signoff.judge.environment.scene import NodeView, Scene, about
from signoff.judge.environment.versions import whole

DEV_ROUTES = ("/reset_prefix_cache", "/sleep", "/collective_rpc", "/server_info", "/pause")
DEV_SWITCH = "VLLM_SERVER_DEV_MODE"
PROFILE_DAYS_MAX = 90
"""A profile whose sources were read longer ago is passed with a warning."""


def findings(scene: Scene) -> list[Finding]:
    return [_model(scene), _architecture(scene), _profile(scene)]


def exposure(scene: Scene, view: NodeView) -> list[Finding]:
    return [_dev_endpoints(scene, view), _api_key(scene, view), _remote_code(scene, view)]


def _model(scene: Scene) -> Finding:
    """The model that the plan names is among those that the server serves."""
    wanted = scene.plan.service.model
    served = wanted in scene.models if wanted is not None else len(scene.models) == 1
    outcome = Outcome.INCONCLUSIVE if not scene.models else Outcome.PASS if served else Outcome.FAIL
    return about(
        "environment.service.model",
        outcome,
        Bearing.EVIDENCE,
        values={
            "model": wanted or (scene.models[0] if served else None),
            "served": ", ".join(scene.models)[:500] or None,
            "version": scene.version,
            "reason": scene.models_missing or None,
        },
        evidence=[f"sha256:{d}" for d in (scene.models_digest, scene.version_digest) if d],
        items=(5,),
    )


def _architecture(scene: Scene) -> Finding:
    """The architecture that the server resolved is one that the profile is about."""
    logs = [entry for view in scene.nodes for entry in view.logs if entry.log.architecture]
    found = list(dict.fromkeys(entry.log.architecture or "" for entry in logs))
    covered, any_covered = scene.profile.architectures, "*" in scene.profile.architectures
    strange = [name for name in found if name not in covered and not any_covered]
    outcome = Outcome.FAIL if strange else Outcome.PASS if found or any_covered else Outcome.INCONCLUSIVE
    return about(
        "environment.service.architecture",
        outcome,
        Bearing.EVIDENCE,
        values={"observed": ", ".join(found) or None, "profile": scene.profile.name},
        limit={"covered": ", ".join(covered)},
        evidence=[f"sha256:{entry.digest}" for entry in logs],
        items=(1,),
    )


def _profile(scene: Scene) -> Finding:
    """Which recipe this is judged by: version, link and the date on which it was read."""
    profile = scene.profile
    taken = iso_utc(scene.newest_ns)[:10] if scene.newest_ns else profile.checked_on
    age = _days(taken) - _days(profile.checked_on)
    warn = profile.status == "pre-release" or age > PROFILE_DAYS_MAX
    first = profile.sources[0] if profile.sources else None
    values: dict[str, Value] = {
        "profile": profile.name,
        "status": profile.status,
        "scope": profile.scope,
        "checked_on": profile.checked_on,
        "age_days": max(0, age),
        "version": first.version if first is not None else None,
        "url": first.url if first is not None else None,
    }
    return about(
        "environment.profile.current",
        Outcome.PASS if first is not None else Outcome.INCONCLUSIVE,
        Bearing.EVIDENCE,
        values=values,
        limit={"age_days_most": PROFILE_DAYS_MAX},
        evidence=("profile.json#sources",),
        items=(1,),
        severity=Severity.WARN if warn else Severity.FAIL,
    )


def _days(date: str) -> int:
    """Days since an epoch of an ISO date, by the civil calendar; 0 for anything else."""
    parts = date.split("-")
    year, month, day = (whole(part[:4]) for part in parts) if len(parts) == 3 else (None, None, None)
    if year is None or month is None or day is None:
        return 0
    year -= month <= 2
    shifted = (month + 9) % 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * shifted + 2) // 5 + day


# Exposure ------------------------------------------------------------------------------------------------------------


def _dev_endpoints(scene: Scene, view: NodeView) -> Finding:
    """Development endpoints reset caches, put the engine to sleep and run code: for a laboratory only."""
    environment = view.server.environment if view.server is not None else {}
    switch = environment.get(DEV_SWITCH, "0") not in ("", "0", "false")
    routes = [route for route in DEV_ROUTES if route in (scene.routes or ())]
    noted = [(e, n) for e in view.logs for n in e.log.notes if n.kind == "dev_endpoints" and n.line >= e.log.boot_line]
    shown = [name for name, seen in ((DEV_SWITCH, switch), (", ".join(routes), routes), ("launch log", noted)) if seen]
    looked = view.server is not None or scene.routes is not None or bool(view.logs)
    if not looked:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.FAIL if shown and not scene.laboratory else Outcome.PASS
    return about(
        "environment.exposure.dev_endpoints",
        outcome,
        Bearing.NOTE,
        subject=view.name,
        required=False,
        values={"shown_by": "; ".join(shown) or ("" if looked else None), "reason": None if looked else view.blind},
        evidence=(*view.cited, *(f"sha256:{e.digest}#L{n.line}" for e, n in noted[:3])),
        severity=Severity.WARN if shown else Severity.INFO,
    )


def _api_key(scene: Scene, view: NodeView) -> Finding:
    """Whether the server answers a caller who brings no key."""
    status = scene.stranger_status
    is_open = status is not None and 200 <= status < 300
    return about(
        "environment.exposure.api_key",
        Outcome.PASS if status is not None else Outcome.INCONCLUSIVE,
        Bearing.NOTE,
        subject=view.name,
        values={"status": status, "open": is_open if status is not None else None},
        evidence=[f"sha256:{scene.stranger_digest}"] if scene.stranger_digest else (),
        severity=Severity.WARN if is_open else Severity.INFO,
        required=False,
    )


def _remote_code(scene: Scene, view: NodeView) -> Finding:
    """Code that comes with a checkpoint is run; without a pinned revision another may be run at the next start."""
    launch = launch_of(view)
    trusted = launch is not None and launch.options.get("trust-remote-code") == "true"
    revision = (launch.options.get("code-revision") or launch.options.get("revision")) if launch is not None else None
    words = view.server.command if view.server is not None else ()
    local = any(word.startswith("/") for index, word in enumerate(words) if words[index - 1 : index] == ("serve",))
    loose = trusted and not revision and not local
    return about(
        "environment.exposure.remote_code",
        Outcome.INCONCLUSIVE if launch is None else Outcome.FAIL if loose else Outcome.PASS,
        Bearing.NOTE,
        subject=view.name,
        values={"trusted": trusted if launch is not None else None, "revision": revision, "loose": loose},
        evidence=view.cited,
        severity=Severity.WARN if loose else Severity.INFO,
        required=False,
    )

"""The launch against the recipe, and against what the plan asks of it."""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Severity
from signoff.judge.environment.links import platform_kind
from signoff.judge.environment.options import (
    COMPARED,
    HEADLESS_OWN,
    Launch,
    Wanted,
    launch_of,
    same,
    sizes_of,
    wanted_of,
)
from signoff.judge.environment.scene import NodeView, Scene, about

COMPAT_SWITCH = "VLLM_ENABLE_CUDA_COMPATIBILITY"
NEUTRAL = (*HEADLESS_OWN, "model", "model-tag", "served-model-name", "api-key", "uds", "config")
"""Options that say who the service is, not how it runs."""


def findings(scene: Scene, view: NodeView) -> list[Finding]:
    launch = launch_of(view)
    wanted = _wanted(scene, view)
    return [
        _against_recipe(scene, view, launch, wanted),
        _missing(scene, view, launch, wanted),
        _variables(scene, view, launch, wanted),
        _added(scene, view, launch, wanted),
        _layout(scene, view),
        _serves(scene, view, launch),
    ]


def _wanted(scene: Scene, view: NodeView) -> Wanted:
    gpus = [row.name for row in view.probe.gpus] if view.probe is not None else []
    gpus = gpus or ([gpu.name for gpu in view.smi.gpus] if view.smi is not None else [])
    return wanted_of(scene.profile, platform_kind(view), gpus, sizes_of(view))


def _unfit(scene: Scene, view: NodeView) -> str:
    """Why the recipe says nothing about this launch, right or wrong: another platform or another model runs here."""
    kind = platform_kind(view)
    if kind is not None and kind not in scene.profile.platforms:
        return (
            f"a {kind} build runs here, and profile {scene.profile.name} is about {', '.join(scene.profile.platforms)}"
        )
    entry, covered = view.last_log(), scene.profile.architectures
    served = entry.log.architecture if entry is not None else None
    if served is not None and "*" not in covered and served not in covered:
        return f"{served} runs here, and profile {scene.profile.name} is about {', '.join(covered)}"
    return ""


def _cited(view: NodeView) -> tuple[str, ...]:
    entry = view.last_log()
    return (*view.cited, *((f"sha256:{entry.digest}",) if entry is not None else ()))


def _finding(
    scene: Scene,
    view: NodeView,
    name: str,
    wrong: list[str],
    launch: Launch | None,
    *,
    bearing: Bearing = Bearing.LAUNCH,
    listed: list[str] | None = None,
    limit: dict[str, Value] | None = None,
    severity: Severity = Severity.FAIL,
) -> Finding:
    code = f"environment.launch.{name}"
    if not scene.profile.launch and name in ("recipe", "missing", "variables"):
        return about(code, Outcome.NOT_APPLICABLE, bearing, subject=view.name, required=False, cause=Cause.TOPOLOGY)
    unfit = _unfit(scene, view) if bearing is Bearing.LAUNCH else ""
    outcome = Outcome.INCONCLUSIVE if unfit or launch is None else Outcome.FAIL if wrong else Outcome.PASS
    values: dict[str, Value] = {
        "count": len(wrong or listed or []),
        "options": "; ".join(wrong or listed or [])[:1500] or ("" if launch is not None else None),
        "read_from": launch.source if launch is not None else None,
        "reason": unfit or ((view.blind or "neither command line nor launch log") if launch is None else None),
    }
    return about(
        code,
        outcome,
        bearing,
        subject=view.name,
        values=values,
        limit=limit,
        evidence=_cited(view),
        items=(1, 4),
        severity=severity,
        cause=Cause.TOPOLOGY,
    )


def _against_recipe(scene: Scene, view: NodeView, launch: Launch | None, wanted: Wanted) -> Finding:
    """Options that are set otherwise than the recipe sets them."""
    wrong: list[str] = []
    adjusted: list[str] = []
    for name, value in wanted.options.items() if launch is not None else ():
        found = launch.options.get(name) if launch is not None else None
        if found is not None and not same(found, value):
            said = f"--{name} {found}, recipe {value}"
            (adjusted if name in wanted.adjustable else wrong).append(said)
    limit: dict[str, Value] = {"rules": ", ".join(wanted.rules) or None}
    severity = Severity.WARN if adjusted and not wrong else Severity.FAIL
    return _finding(scene, view, "recipe", wrong, launch, listed=adjusted, limit=limit, severity=severity)


def _missing(scene: Scene, view: NodeView, launch: Launch | None, wanted: Wanted) -> Finding:
    """Options of the recipe that are not set, unless the engine's configuration shows the recipe's value in force."""
    entry = view.last_log()
    config = entry.log.engine_config if entry is not None else {}
    wrong: list[str] = []
    adjusted: list[str] = []
    for name, value in wanted.options.items() if launch is not None else ():
        if launch is None or name in launch.options:
            continue
        in_force = config.get(COMPARED.get(name, ""))
        if in_force is not None and same(in_force.strip("'\"").lower(), value):
            continue
        said = f"--{name} {value}" if value not in ("true", "false") else f"--{'no-' * (value == 'false')}{name}"
        (adjusted if name in wanted.adjustable else wrong).append(said)
    severity = Severity.WARN if adjusted and not wrong else Severity.FAIL
    return _finding(scene, view, "missing", wrong, launch, listed=adjusted, severity=severity)


def _variables(scene: Scene, view: NodeView, launch: Launch | None, wanted: Wanted) -> Finding:
    """Environment variables of the recipe, and those that this server does not know."""
    readable = launch is not None and bool(launch.environment)
    wrong: list[str] = []
    adjusted: list[str] = []
    environment = launch.environment if launch is not None else {}
    for name, value in wanted.environment.items() if readable else ():
        found = environment.get(name)
        if found is None or not same(found, value):
            said = f"{name}={found}, recipe {value}" if found is not None else f"{name}={value} is not set"
            (adjusted if name in wanted.adjustable else wrong).append(said)
    if environment.get(COMPAT_SWITCH, "0") not in ("", "0", "false"):
        wrong.append(f"{COMPAT_SWITCH} is on")
    entry = view.last_log()
    unknown = {n.values.get("name", "") for n in entry.log.notes if n.kind == "environment_unknown"} if entry else set()
    wrong += [f"{name}: this server does not know it" for name in sorted(unknown & set(wanted.environment))]
    severity = Severity.WARN if adjusted and not wrong else Severity.FAIL
    return _finding(scene, view, "variables", wrong, launch if readable else None, listed=adjusted, severity=severity)


def _added(scene: Scene, view: NodeView, launch: Launch | None, wanted: Wanted) -> Finding:
    """Options that the recipe does not set: additions, listed for the signer."""
    added = []
    for name, value in launch.options.items() if launch is not None else ():
        if name not in wanted.options and name not in NEUTRAL:
            added.append(f"--{name} {value}")
    return _finding(scene, view, "added", [], launch, bearing=Bearing.NOTE, listed=added, severity=Severity.INFO)


def _layout(scene: Scene, view: NodeView) -> Finding:
    """Whether the node has the GPUs that its share of the layout needs."""
    sizes = sizes_of(view)
    world = sizes["tp"] * sizes["pp"] * sizes["dp"]
    least = -(-world // max(1, len(scene.nodes)))
    code = "environment.launch.layout"
    if "cuda" not in scene.profile.platforms:
        return about(code, Outcome.NOT_APPLICABLE, Bearing.LAUNCH, subject=view.name, required=False)
    count = len({row.uuid for row in view.probe.gpus if row.uuid}) if view.probe is not None else 0
    count = count or (len(view.smi.gpus) if view.smi is not None else 0)
    known = count > 0 and launch_of(view) is not None
    outcome = Outcome.INCONCLUSIVE if not known else Outcome.PASS if count >= least else Outcome.FAIL
    # Nodes are built with 1, 2, 4, 8 or 16 GPUs: any other number means that one is gone, not that too many are asked.
    lost = count & (count - 1) != 0
    layout = " ".join(f"{name.upper()}{size}" for name, size in sizes.items() if size > 1) or "one GPU"
    values: dict[str, Value] = {"gpus": count or None, "layout": layout, "nodes": len(scene.nodes)}
    return about(
        code,
        outcome,
        Bearing.HOST if lost else Bearing.LAUNCH,
        subject=view.name,
        values=values,
        limit={"gpus_least": least},
        evidence=_cited(view),
        items=(3,),
        cause=Cause.HARDWARE if lost else Cause.TOPOLOGY,
    )


def _serves(scene: Scene, view: NodeView, launch: Launch | None) -> Finding:
    """Whether this launch can serve at all what the plan asks: tools and prefix caching."""
    wrong, plan, profile = [], scene.plan, scene.profile
    entry = view.last_log()
    log = entry.log if entry is not None else None
    if launch is not None and Gate.AGENT in plan.gates and not view.headless:
        if "tool-call-parser" not in launch.options:
            wrong.append("no --tool-call-parser, and the plan has the agent gate")
        elif profile.tool_parser and launch.options["tool-call-parser"] != profile.tool_parser:
            wrong.append(f"tool parser {launch.options['tool-call-parser']}, the model needs {profile.tool_parser}")
        if launch.options.get("enable-auto-tool-choice") != "true":
            wrong.append("no --enable-auto-tool-choice, and the plan has the agent gate")
        if profile.reasoning_parser and launch.options.get("reasoning-parser") != profile.reasoning_parser:
            wrong.append(f"no --reasoning-parser {profile.reasoning_parser}")
    if launch is not None and Gate.PREFIX in plan.gates and profile.cache.caching_required:
        off = launch.options.get("enable-prefix-caching") == "false" or (
            log is not None and log.prefix_caching is False
        )
        if off:
            wrong.append("prefix caching is off, and the plan needs it")
    return _finding(scene, view, "serves", wrong, launch)

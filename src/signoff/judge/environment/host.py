"""The host under the server: GPU fabric, foreign processes, memory errors, kernel messages, shared memory.

What gives way under load shows after it: GPU state and kernel messages are judged as they stood before and after.

Xid numbers and their action classes: NVIDIA's Xid catalog (docs.nvidia.com/deploy/xid-errors, 2026-11).
"""

import re

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.rounding import six
from signoff.core.words import Bearing, Cause, Outcome, Severity
from signoff.judge.environment.links import drivers, not_accelerated
from signoff.judge.environment.options import sizes_of
from signoff.judge.environment.scene import NodeView, Scene, about
from signoff.judge.environment.versions import whole
from signoff.read.nvidia_smi import Gpu, GpuProcess
from signoff.read.probe import Probe

XID = re.compile(r"Xid\s*\(PCI:([0-9A-Fa-f:.]+)\)?\s*[:)]*\s*(\d+)")
KILLED = re.compile(r"[Kk]illed process (\d+) \(([^)]*)\)")
STAMP = re.compile(r"^\[\s*(\d+\.\d+)\]")
ACTION_XIDS = frozenset(
    {46, 48, 54, 61, 62, 64, 74, 79, 92, 95, 109, 110, 119, 120, 121, 136, 137, 140, 142, 143, 144, 145, 146, 147, 148}
    | {149, 150, 151, 152, 153, 154, 155, 156, 158}
)
"""Xids after which a GPU or a node must be reset, drained or replaced; 13, 31, 43, 45 are the program's own."""
SHM_BYTES_LEAST = 1 << 30
"""NCCL and the message queues of several ranks need more than Docker's default of 64 MiB."""
MIB = 1 << 20
ITEMS = (3,)


def findings(scene: Scene, view: NodeView) -> list[Finding]:
    return [
        _fabric(scene, view),
        _foreign(scene, view),
        _errors(scene, view),
        _kernel(scene, view),
        _shm(scene, view),
        _memory(scene, view),
    ]


def _gpus_wanted(scene: Scene) -> bool:
    return "cuda" in scene.profile.platforms


def _cited(view: NodeView) -> tuple[str, ...]:
    return view.cited_both or ((f"sha256:{view.smi_digest}",) if view.smi_digest else ())


def _gpus(view: NodeView) -> tuple[Gpu, ...]:
    """Every GPU as it stood before the load, and again as it stood after."""
    return tuple(gpu for smi in (view.smi, view.smi_after) if smi is not None for gpu in smi.gpus)


def _unread(view: NodeView, missing: str) -> str:
    """Why the state of the GPUs is not known, before the load or after it; empty when it is."""
    if view.smi is None or not view.smi.gpus:
        return not_accelerated(view) or view.why or missing
    if view.due and (view.smi_after is None or not view.smi_after.gpus):
        return view.unseen_after or f"after the load: {missing}"
    return not_accelerated(view)


def _host(
    view: NodeView, name: str, outcome: Outcome, values: dict[str, Value], required: bool = True, warn: bool = False
) -> Finding:
    return about(
        f"environment.host.{name}",
        outcome,
        Bearing.HOST,
        subject=view.name,
        values=values,
        evidence=_cited(view),
        items=ITEMS,
        cause=Cause.HARDWARE,
        required=required,
        severity=Severity.WARN if warn and outcome is Outcome.PASS else Severity.FAIL,
    )


def _absent(view: NodeView, name: str) -> Finding:
    return _host(view, name, Outcome.NOT_APPLICABLE, {}, required=False)


def _fabric(scene: Scene, view: NodeView) -> Finding:
    """NVSwitch fabric: every GPU registered, and the Fabric Manager of the driver's own release."""
    if not _gpus_wanted(scene):
        return _absent(view, "fabric")
    gpus = _gpus(view)
    states = sorted({f"{gpu.fabric_state}/{gpu.fabric_status}" for gpu in gpus if gpu.fabric_state})
    switched = [gpu for gpu in gpus if gpu.fabric_state and gpu.fabric_state not in ("Not Supported", "N/A")]
    waiting = [gpu for gpu in switched if gpu.fabric_state != "Completed" or gpu.fabric_status not in ("Success", "")]
    keeper, driver = view.host_fact("fabric_manager").value, drivers(view).value
    other = keeper is not None and driver is not None and keeper != driver
    reason = ""
    if waiting:
        reason = f"{len(waiting)} GPUs are not in the fabric"
    elif switched and other:
        reason = f"Fabric Manager {keeper} is not of driver {driver}"
    unclear = _unread(view, "no full nvidia-smi output")
    outcome = Outcome.FAIL if reason else Outcome.INCONCLUSIVE if unclear else Outcome.PASS
    values: dict[str, Value] = {
        "states": ", ".join(states) or None,
        "fabric_manager": keeper,
        "driver": driver,
        "reason": reason or unclear or None,
    }
    return _host(view, "fabric", outcome, values)


def _foreign(scene: Scene, view: NodeView) -> Finding:
    """Processes on the GPUs that are not the server's."""
    if not _gpus_wanted(scene):
        return _absent(view, "foreign")
    unclear = _unread(view, "no full nvidia-smi output")
    ours = {process.pid for process in view.server.processes} if view.server is not None else set()
    ours |= {p.pid for s in view.probe_after.servers for p in s.processes} if view.probe_after is not None else set()
    both = [process for smi in (view.smi, view.smi_after) if smi is not None for process in smi.processes]
    seen: tuple[GpuProcess, ...] = tuple({(p.gpu, p.pid, p.name): p for p in both}.values())
    known = [p for p in seen if p.pid in ours or p.name.startswith("VLLM::")]
    strange = [p for p in seen if p not in known]
    if seen and not known and not unclear:
        unclear = (
            view.blind or "no process on the GPUs has a number that the node shows: other process names are hidden"
        )
    outcome = Outcome.INCONCLUSIVE if unclear else Outcome.FAIL if strange else Outcome.PASS
    values: dict[str, Value] = {
        "processes": len(seen),
        "foreign": len(strange),
        "names": "; ".join(f"GPU {p.gpu}: {p.pid} {p.name} {p.memory_mib or '?'} MiB" for p in strange[:8]) or None,
        "reason": unclear or None,
    }
    return _host(view, "foreign", outcome, values)


def _errors(scene: Scene, view: NodeView) -> Finding:
    """Uncorrectable memory errors, failed row remapping, a wanted recovery action."""
    if not _gpus_wanted(scene):
        return _absent(view, "gpu_errors")
    gpus: tuple[Gpu, ...] = _gpus(view)
    wrong: list[str] = []
    for gpu in gpus:
        if gpu.ecc_uncorrected:
            wrong.append(f"GPU {gpu.index}: {gpu.ecc_uncorrected} uncorrectable memory errors")
        if gpu.remap_failed:
            wrong.append(f"GPU {gpu.index}: row remapping failed")
        if gpu.recovery_action.lower() not in ("", "none"):
            wrong.append(f"GPU {gpu.index}: wants {gpu.recovery_action}")
    counted = [gpu for gpu in gpus if gpu.ecc_uncorrected is not None]
    missing = "error counters were not read"
    unclear = _unread(view, missing) or ("" if len(counted) == len(gpus) > 0 else missing)
    outcome = Outcome.FAIL if wrong else Outcome.INCONCLUSIVE if unclear else Outcome.PASS
    values: dict[str, Value] = {
        "gpus": len(view.smi.gpus) or None if view.smi is not None else None,
        "errors": "; ".join(dict.fromkeys(wrong))[:1000] or None,
        "slowed": ", ".join(sorted({name for gpu in gpus for name in gpu.slowdowns})) or None,
        "reason": unclear if not wrong and unclear else None,
    }
    return _host(view, "gpu_errors", outcome, values)


def _kernel(scene: Scene, view: NodeView) -> Finding:
    """Kernel messages of this boot, before and after the load: Xids that want an action, and server processes killed
    for memory."""
    looks = [probe for probe in (view.probe, view.probe_after) if probe is not None]
    lines = tuple(dict.fromkeys(line for probe in looks for line in probe.kernel))
    xids = [(found.group(1), int(found.group(2)[:4]), line) for line in lines if (found := XID.search(line))]
    acted = [(bus, number) for bus, number, _ in xids if number in ACTION_XIDS]
    wrong = [f"Xid {number} on {bus}" for bus, number in acted] + _killed(view, lines)
    unread = view.why or (_kernel_gaps(view.probe) if view.probe is not None else "the node was not probed")
    if not unread and view.due:
        unread = view.unseen_after or (_kernel_gaps(view.probe_after) if view.probe_after is not None else "")
    outcome = Outcome.FAIL if wrong else Outcome.INCONCLUSIVE if unread else Outcome.PASS
    values: dict[str, Value] = {
        "messages": "; ".join(wrong[:12]) or (None if unread else ""),
        "count": len(wrong),
        "other_xids": ", ".join(str(n) for _, n, _ in xids if n not in ACTION_XIDS)[:200] or (None if unread else ""),
        "reason": unread or None,
    }
    warn = any(number not in ACTION_XIDS for _, number, _ in xids)
    return _host(view, "kernel", outcome, values, required=_gpus_wanted(scene), warn=warn)


def _kernel_gaps(probe: Probe) -> str:
    """Why a probe holds no kernel log, empty when it holds one."""
    fact = probe.fact("kernel_messages")
    gaps = "; ".join(f"{gap.how}: {gap.why}" for gap in fact.missing)
    return "" if fact.readings else gaps or "the kernel log was not read"


def _killed(view: NodeView, lines: tuple[str, ...]) -> list[str]:
    """Processes of the server that the kernel killed for memory since the server started."""
    server, killed = view.server, []
    names = {process.title.split(" ")[0][:15] for process in server.processes} if server is not None else set()
    boot = next((s for value in view.host_fact("boot_unix_s").values() if (s := whole(value)) is not None), None)
    started = server.processes[0].started_unix_s if server is not None and server.processes else None
    for line in lines:
        found, stamp = KILLED.search(line), STAMP.search(line)
        if not found:
            continue
        older = False
        if stamp is not None and boot is not None and started is not None:
            older = boot + float(stamp.group(1)) < started
        ours = "vllm" in found.group(2).lower() or found.group(2)[:15] in names
        if ours and not older:
            killed.append(f"killed for memory: {found.group(1)} {found.group(2)}")
    return killed


def _shm(scene: Scene, view: NodeView) -> Finding:
    """Shared memory of the server's container, which ranks talk through."""
    fact = view.server_fact("shm_bytes")
    sizes = [size for value in fact.values() if (size := whole(value)) is not None]
    layout = sizes_of(view)
    world = layout["tp"] * layout["pp"] * layout["dp"]
    small = bool(sizes) and min(sizes) < SHM_BYTES_LEAST and world > 1
    outcome = Outcome.INCONCLUSIVE if not sizes else Outcome.FAIL if small else Outcome.PASS
    gaps = "; ".join(f"{gap.how}: {gap.why}" for gap in fact.missing)
    values: dict[str, Value] = {
        "shm_mib": six(min(sizes) / MIB) if sizes else None,
        "ranks": world,
        "shm_mib_least": six(SHM_BYTES_LEAST / MIB) if world > 1 else None,
        "reason": None if sizes else view.blind or gaps or None,
    }
    return _host(view, "shm", outcome, values, required=world > 1 or _gpus_wanted(scene))


def _memory(scene: Scene, view: NodeView) -> Finding:
    """Arithmetic: whether the GPUs can hold the weights at all. It may refuse, never approve."""
    code, weights = "environment.gpu.memory", scene.profile.weights_gib
    if weights is None or not _gpus_wanted(scene):
        return about(code, Outcome.NOT_APPLICABLE, Bearing.LAYOUT, subject=view.name, required=False)
    total = 0.0
    for node in scene.nodes:
        rows = [row.memory_mib for row in node.probe.gpus if row.memory_mib] if node.probe is not None else []
        rows = rows or [gpu.memory_total_mib or 0 for gpu in (node.smi.gpus if node.smi is not None else ())]
        if not rows:
            total = 0.0
            break
        total += sum(rows) / 1024
    outcome = Outcome.INCONCLUSIVE if not total else Outcome.PASS if total >= weights else Outcome.FAIL
    return about(
        code,
        outcome,
        Bearing.LAYOUT,
        subject=view.name,
        values={"memory_gib": six(total) if total else None, "nodes": len(scene.nodes)},
        limit={"weights_gib": weights},
        evidence=_cited(view),
        items=ITEMS,
        cause=Cause.TOPOLOGY,
    )

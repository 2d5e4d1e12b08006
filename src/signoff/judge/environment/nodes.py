"""The nodes against each other: one service must be one environment."""

from collections.abc import Callable

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Outcome
from signoff.judge.environment.options import HEADLESS_OWN, launch_of
from signoff.judge.environment.scene import NodeView, Scene, about

OWN_VARIABLES = ("VLLM_HOST_IP", "LWS_WORKER_INDEX", "NODE_RANK", "NCCL_SOCKET_IFNAME", "PATH", "SLURM_")
"""Variables that differ between nodes by their nature."""


def findings(scene: Scene) -> list[Finding]:
    return [_probed(scene), _agree(scene)]


def _probed(scene: Scene) -> Finding:
    """Every node of the plan gave its evidence."""
    blind = [f"{view.name}: {view.blind}" for view in scene.nodes if view.blind]
    outcome = Outcome.INCONCLUSIVE if blind or not scene.nodes else Outcome.PASS
    reason = "; ".join(blind)[:1000] or (None if scene.nodes else "the plan names no node")
    return about(
        "environment.nodes.probed",
        outcome,
        Bearing.CHAIN,
        values={"nodes": len(scene.nodes), "blind": len(blind), "reason": reason},
        evidence=[cited for view in scene.nodes for cited in view.cited],
        items=(3,),
    )


def _agree(scene: Scene) -> Finding:
    """Driver, GPUs, builds, mapped libraries, image, options and variables are the same on every node."""
    seen = [view for view in scene.nodes if not view.blind]
    different, compared = [], 0
    for name, read in _FACTS.items():
        values = {view.name: value for view in seen if (value := read(view)) is not None}
        compared += len(values) > 1
        if len(set(values.values())) > 1:
            different.append(f"{name}: " + ", ".join(f"{node} {value[:80]}" for node, value in values.items()))
    if different:
        outcome = Outcome.FAIL
    elif len(seen) < len(scene.nodes) or not seen:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS
    values_said: dict[str, Value] = {
        "nodes": len(scene.nodes),
        "compared": compared,
        "different": "; ".join(different)[:1500] or None,
    }
    return about(
        "environment.nodes.agree",
        outcome,
        Bearing.CHAIN,
        values=values_said,
        evidence=[cited for view in seen for cited in view.cited],
        items=(3,),
    )


def _fact(name: str) -> Callable[[NodeView], str | None]:
    return lambda view: " / ".join(view.server_fact(name).values()) or None


def _gpus(view: NodeView) -> str | None:
    rows = {(row.uuid, row.name) for row in view.probe.gpus} if view.probe is not None else set()
    return f"{len(rows)} x {', '.join(sorted({name for _, name in rows}))}" if rows else None


def _libraries(view: NodeView) -> str | None:
    libraries = view.server.libraries if view.server is not None else ()
    return " ".join(sorted(f"{lib.name}={lib.sha256}" for lib in libraries if lib.sha256)) or None


def _options(view: NodeView) -> str | None:
    launch = launch_of(view)
    if launch is None:
        return None
    return " ".join(f"--{k} {v}" for k, v in sorted(launch.options.items()) if k not in HEADLESS_OWN)


def _variables(view: NodeView) -> str | None:
    launch = launch_of(view)
    if launch is None or not launch.environment:
        return None
    kept = {k: v for k, v in launch.environment.items() if k.startswith(("NCCL_", "VLLM_", "UCX_", "CUDA_"))}
    return " ".join(f"{k}={v}" for k, v in sorted(kept.items()) if not k.startswith(OWN_VARIABLES))


_FACTS: dict[str, Callable[[NodeView], str | None]] = {
    "driver": lambda view: " / ".join(view.host_fact("driver_loaded").values()) or None,
    "driver flavour": lambda view: " / ".join(view.host_fact("driver_flavour").values()) or None,
    "GPUs": _gpus,
    "PyTorch": _fact("torch"),
    "vLLM": _fact("vllm"),
    "FlashInfer": _fact("flashinfer"),
    "NCCL": _fact("nccl"),
    "image": _fact("image_id"),
    "mapped libraries": _libraries,
    "options": _options,
    "variables": _variables,
}

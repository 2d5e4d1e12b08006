"""The environment gate: findings over a dossier.

chain      platform, driver, libcuda, runtime, build, image, vLLM, NCCL, GPUs, process; nodes against each other
launch     options and variables against the recipe, and against what the plan asks
log        whole, of this start, no known failure then or under load, no forbidden fallback, nothing unexplained
host       fabric, foreign processes, memory errors, kernel messages, shared memory
service    model, architecture, profile and whether it demands enough, exposure
"""

from collections.abc import Callable

from msgspec.structs import replace

from signoff.core.dossier import Dossier
from signoff.core.finding import Finding
from signoff.core.plan import Node
from signoff.core.profile import Link
from signoff.core.words import Bearing, Cause, Gate, Outcome
from signoff.judge.capacity.service import death
from signoff.judge.capacity.stages import see
from signoff.judge.environment import host, identity, launch, links, log, log_during, nodes, profile, service
from signoff.judge.environment.scene import STAGE, NodeView, Scene, about, read_scene

LINKS: dict[str, Callable[[Scene, NodeView, Link], Finding]] = {
    "platform": links.platform,
    "driver": links.driver,
    "libcuda": links.libcuda,
    "cuda_runtime": links.cuda_runtime,
    "cuda_build": links.cuda_build,
    "torch_build": links.torch_build,
    "nccl": links.nccl,
    "image": identity.image,
    "vllm_build": identity.vllm_build,
    "gpu": identity.gpu,
    "process": identity.process,
}
"""Every link that a profile may demand."""


def findings(dossier: Dossier) -> list[Finding]:
    """Every finding of this gate, once for each node; all `not_run` when the stage never ran."""
    scene = read_scene(dossier)
    if not scene.nodes:  # the checks of a node still stand, about nothing
        scene = replace(scene, nodes=(NodeView(node=Node(name=""), why="the plan names no node"),))
    if Gate.CAPACITY in scene.plan.gates and any(log_during.failures_of(log_during.during(v)) for v in scene.nodes):
        scene = replace(scene, located=death(see(dossier)) is not None)
    found = [*nodes.findings(scene), *service.findings(scene), profile.finding(scene)]
    for view in scene.nodes:
        found += _of_node(scene, view)
    if dossier.started(STAGE) is None:
        return [_not_run(finding) for finding in found]
    return found


def _of_node(scene: Scene, view: NodeView) -> list[Finding]:
    found = [_link(scene, view, link) for link in scene.profile.chain]
    if any(link.name == "driver" for link in scene.profile.chain):
        found.append(links.driver_on_disk(scene, view))
    return [
        *found,
        identity.same_process(scene, view),
        *launch.findings(scene, view),
        *log.findings(scene, view),
        *host.findings(scene, view),
        *service.exposure(scene, view),
    ]


def _link(scene: Scene, view: NodeView, link: Link) -> Finding:
    judge = LINKS.get(link.name)
    if judge is None:  # a profile of a newer release: nothing here can prove this link
        return about(
            "environment.chain.unknown",
            Outcome.INCONCLUSIVE,
            Bearing.CHAIN,
            subject=link.name,
            values={"reason": "no rule of this release judges this link"},
            evidence=("profile.json#chain",),
        )
    return judge(scene, view, link)


def _not_run(finding: Finding) -> Finding:
    if finding.outcome is Outcome.NOT_APPLICABLE:
        return finding
    return replace(finding, outcome=Outcome.NOT_RUN, cause=Cause.NONE, values={}, evidence=())

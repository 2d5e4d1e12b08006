"""Whether the profile that judges demands anything: a copy that asks for less would prove every host right."""

from signoff.core.finding import Finding
from signoff.core.profile import DEMANDING_CLASSES, Link, Profile
from signoff.core.words import Bearing, Outcome
from signoff.judge.environment.scene import Scene, about

TWICE = ("driver", "libcuda", "cuda_runtime", "cuda_build", "image")
"""Links that two independent sources must tell."""
ALWAYS = ("platform", "process", "vllm_build")
ON_GPUS = (*ALWAYS, *TWICE, "gpu")
FAULTS_SHOWN = 8


def finding(scene: Scene) -> Finding:
    """The chain has its links, each demanded from sources that may demand, by the profile that the plan names."""
    faults = _faults(scene.plan.profile, scene.profile)
    return about(
        "environment.profile.demands",
        Outcome.INCONCLUSIVE if faults else Outcome.PASS,
        Bearing.CHAIN,
        values={
            "profile": scene.profile.name,
            "links": len(scene.profile.chain),
            "reason": "; ".join(faults[:FAULTS_SHOWN])[:1000] or None,
        },
        evidence=("profile.json#chain", "plan.yaml#profile"),
        items=(1,),
    )


def _faults(wanted: str, profile: Profile) -> list[str]:
    faults = []
    # A path names a file, whose profile may call itself anything.
    if not _is_path(wanted) and profile.name != wanted:
        faults.append(f"the plan names profile {wanted[:100]}, and this is {profile.name[:100]}")
    if not profile.platforms:
        faults.append("it names no platform")
    names = [link.name for link in profile.chain]
    needed = ON_GPUS if _on_gpus(profile) else ALWAYS
    missing = [name for name in needed if name not in names]
    if missing:
        faults.append(f"its chain lacks {', '.join(missing)}")
    if any(name in TWICE for name in names) and "cuda" not in profile.platforms and "rocm" not in profile.platforms:
        faults.append("its chain is of GPUs, and its platforms are not")
    classes = {source.id: source.source_class for source in profile.sources}
    for link in profile.chain:
        faults += _of_link(link, classes.get(link.source), profile)
    faults += [
        f"launch rule {rule.name[:60]} stands on no text that may demand"
        for rule in profile.launch
        if classes.get(rule.source) not in DEMANDING_CLASSES
    ]
    return faults


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml"))


def _on_gpus(profile: Profile) -> bool:
    return "cuda" in profile.platforms and profile.scope != "laboratory"


def _of_link(link: Link, source_class: str | None, profile: Profile) -> list[str]:
    least = 2 if link.name in TWICE and profile.scope != "laboratory" else 1
    faults = []
    if link.sources < least:
        faults.append(f"{link.name} is asked of {link.sources} sources, fewer than {least}")
    if source_class is None:
        faults.append(f"{link.name} stands on {link.source[:60]}, which is not among the sources")
    elif source_class not in DEMANDING_CLASSES:
        faults.append(f"{link.name} stands on a {source_class}, which cannot demand")
    return faults

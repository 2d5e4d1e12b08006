"""The compatibility chain, link by link: platform, driver, libcuda, runtime, build. One finding for each node.

A link passes only when as many independent sources as the profile wants agree and the demand holds. A source that is
missing makes it inconclusive; only what was read can make it fail.

Demands   equals, platform       the platform of the build
          at_least, covers       the driver; `covers: cuda_build` takes the floor of the build's CUDA major
          matches                libcuda is the loaded driver's own
          major, major_of        the CUDA major of runtime and build
"""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.profile import Link
from signoff.core.words import Bearing, Outcome, Severity
from signoff.judge.environment.scene import NodeView, Scene, Weighed, about, reading, weigh
from signoff.judge.environment.versions import (
    BRANCHES_ENDED,
    at_least,
    cuda_of_local,
    driver_floor,
    local,
    major,
    numbers,
)
from signoff.read.probe import Library, Reading

ITEM_IMAGE, ITEM_HOST = 2, 3


def judged(
    link: Link,
    view: NodeView,
    weighed: Weighed,
    wrong: str = "",
    *,
    items: tuple[int, ...],
    values: dict[str, Value] | None = None,
    warn: bool = False,
    unclear: str = "",
) -> Finding:
    """The finding of one link: `wrong` names the reason that it is proved wrong, `unclear` that nothing can be said."""
    reason = wrong or unclear or view.why
    if wrong:
        outcome = Outcome.FAIL
    elif weighed.conflict:
        outcome, reason = Outcome.INCONCLUSIVE, unclear or "the sources disagree"
    elif unclear or weighed.value is None:
        outcome, reason = Outcome.INCONCLUSIVE, reason or view.blind or "no source says it"
    elif len(weighed.sources) < link.sources:
        outcome, reason = Outcome.INCONCLUSIVE, f"{len(weighed.sources)} independent source of {link.sources}"
    else:
        outcome = Outcome.PASS
    observed = weighed.value if weighed.value is not None else " / ".join(weighed.distinct) or None
    said: dict[str, Value] = {
        "observed": observed,
        "sources": len(weighed.sources),
        "readings": weighed.text or "nothing",
        "missing": weighed.gaps or "nothing",
        "reason": reason or None,
    }
    return about(
        f"environment.chain.{link.name}",
        outcome,
        Bearing.CHAIN,
        subject=view.name,
        values=said | (values or {}),
        limit={**link.demand, "sources_least": link.sources, "source": link.source},
        evidence=view.cited,
        items=items,
        severity=Severity.WARN if warn and outcome is Outcome.PASS else Severity.FAIL,
    )


# Platform and build --------------------------------------------------------------------------------------------------


def platforms(view: NodeView) -> Weighed:
    """`cuda`, `rocm` or `cpu`, as each source of the process shows it."""
    found: list[Reading] = []
    for read in view.server_fact("torch_cuda").readings:
        found.append(reading(read.source, read.how, "cuda" if read.value != "none" else _other(view)))
    for read in view.server_fact("torch_libraries").readings:
        kinds = read.value.split()
        kind = "cuda" if "cuda" in kinds else "rocm" if "hip" in kinds else "cpu" if "cpu" in kinds else ""
        if kind:
            found.append(reading(read.source, read.how, kind))
    if view.server is not None and view.server.mapped("libcudart"):
        found.append(reading("process maps", "mapped libcudart", "cuda"))
    elif view.server is not None and view.server.mapped("libamdhip64"):
        found.append(reading("process maps", "mapped libamdhip64", "rocm"))
    return weigh(found, view.server_fact("torch_cuda").missing)


def _other(view: NodeView) -> str:
    return "rocm" if view.server_fact("torch_hip").readings else "cpu"


def builds(view: NodeView) -> Weighed:
    """The CUDA version that PyTorch was built with; `none` for a CPU build."""
    found = list(view.server_fact("torch_cuda").readings)
    packages = view.server.packages if view.server is not None else {}
    for name in ("flashinfer-jit-cache",):
        cuda = cuda_of_local(local(packages.get(name, "")))
        if cuda is not None:
            found.append(reading("package metadata", f"{name}.dist-info", cuda))
    return weigh(found, view.server_fact("torch_cuda").missing)


def platform_kind(view: NodeView) -> str | None:
    return platforms(view).value


def not_accelerated(view: NodeView) -> str:
    """The reason when the server is a CPU build, on which no accelerator link can be proved."""
    return "not an accelerator build" if platforms(view).value == "cpu" else ""


def platform(scene: Scene, view: NodeView, link: Link) -> Finding:
    seen, wanted = platforms(view), str(link.demand.get("equals", ""))
    different = seen.value is not None and seen.value != wanted
    # A CPU build proves nothing about the accelerator that is asked for: there is none to be wrong about.
    unclear = not_accelerated(view) if different else ""
    wrong = f"the build is for {seen.value}" if different and not unclear else ""
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_IMAGE,))


def cuda_build(scene: Scene, view: NodeView, link: Link) -> Finding:
    seen, wrong = builds(view), ""
    unclear = not_accelerated(view)
    wanted = link.demand.get("major")
    wrong_builds = [v for v in seen.distinct if v != "none" and wanted is not None and major(v) != wanted]
    if wrong_builds and not unclear:
        wrong = f"built with CUDA {', '.join(wrong_builds)}"
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_IMAGE,))


def torch_build(scene: Scene, view: NodeView, link: Link) -> Finding:
    """The platform of the PyTorch build, by its own version: `2.13.0+cpu`."""
    fact = view.server_fact("torch")
    seen, wanted = weigh(fact.readings, fact.missing), str(link.demand.get("platform", ""))
    wrong = f"the build is {seen.value}" if seen.value is not None and local(seen.value) != wanted else ""
    return judged(link, view, seen, wrong, items=(ITEM_IMAGE,))


# Driver --------------------------------------------------------------------------------------------------------------


def drivers(view: NodeView) -> Weighed:
    """The loaded kernel driver: the module itself, the driver library's answer, and the libraries that came with it."""
    fact = view.host_fact("driver_loaded")
    found = list(fact.readings)
    if view.smi is not None and view.smi.driver and not any(r.source == "driver library" for r in found):
        found.append(reading("driver library", "nvidia-smi", view.smi.driver))
    for library in view.server.mapped("libnvidia-ml") if view.server is not None else ():
        if library.version.count("."):
            found.append(reading("process maps", f"mapped {library.path}", library.version))
    return weigh(found, fact.missing)


def driver(scene: Scene, view: NodeView, link: Link) -> Finding:
    seen, unclear = drivers(view), not_accelerated(view)
    floor = _driver_floor(view, link)
    low = [v for v in seen.distinct if floor is not None and not at_least(v, floor)]
    wrong = f"driver {low[0]} is older than {floor}" if low and not unclear else ""
    if floor is None and not unclear:
        unclear = "the CUDA version of the build is not known"
    ended = BRANCHES_ENDED.get(major(seen.value or "") or 0)
    values: dict[str, Value] = {
        "flavour": view.host_fact("driver_flavour").value,
        "branch_ended": ended,
        "floor": floor,
    }
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_HOST,), values=values, warn=ended is not None)


def _driver_floor(view: NodeView, link: Link) -> str | None:
    if "at_least" in link.demand:
        return str(link.demand["at_least"])
    build = builds(view).value
    return driver_floor(build) if build is not None else None


def driver_on_disk(scene: Scene, view: NodeView) -> Finding:
    """What the next boot would load: another driver than the loaded one makes this acceptance about a passing state."""
    loaded, fact = drivers(view), view.host_fact("driver_on_disk")
    disk = fact.value
    unclear = not_accelerated(view)
    if unclear or loaded.value is None or disk is None:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS if disk == loaded.value else Outcome.FAIL
    gaps = "; ".join(f"{g.how}: {g.why}" for g in fact.missing)
    return about(
        "environment.driver.on_disk",
        outcome,
        Bearing.CHAIN,
        subject=view.name,
        values={"on_disk": disk, "loaded": loaded.value, "reason": unclear or view.why or gaps or None},
        evidence=view.cited,
        items=(ITEM_HOST,),
    )


# Libraries -----------------------------------------------------------------------------------------------------------


def libcuda(scene: Scene, view: NodeView, link: Link) -> Finding:
    """The user-mode driver that the processes have really mapped, against the loaded kernel driver."""
    libraries = view.server.mapped("libcuda") if view.server is not None else ()
    found = [reading("process maps", f"mapped {lib.path}", lib.version) for lib in libraries if lib.version]
    for lib in libraries:
        found += [reading("file bytes", f"inside {lib.path}", version) for version in lib.inside]
    seen, kernel = weigh(found, view.host_fact("libcuda_on_disk").missing), drivers(view).value
    unclear = not_accelerated(view) or ("" if view.blind or libraries else "no process has libcuda mapped")
    if kernel is None and not unclear:
        unclear = "the loaded driver is not proved"
    floor = driver_floor(builds(view).value or "") or driver_floor("13")
    wrong = "" if unclear or kernel is None else _libcuda_wrong(libraries, kernel, floor or "")
    compat = any("/compat/" in lib.path for lib in libraries)
    values: dict[str, Value] = {
        "path": " ".join(lib.path for lib in libraries) or None,
        "driver": kernel,
        "compat": compat if libraries else None,
        "smi_cuda": view.host_fact("smi_cuda").value,
    }
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_HOST,), values=values, warn=compat)


def _libcuda_wrong(libraries: tuple[Library, ...], kernel: str, floor: str) -> str:
    """The reason why a mapped libcuda cannot stand on the loaded driver `kernel`; empty when it can."""
    versions = {lib.version for lib in libraries if lib.version}
    if len(versions) > 1:
        return f"processes map different releases: {', '.join(sorted(versions))}"
    for lib in libraries:
        if lib.deleted:
            return "the mapped file was replaced on disk: the next start maps another"
        if not lib.version or lib.version == kernel:
            continue
        if "/compat/" not in lib.path:
            return f"libcuda {lib.version} is not of the loaded driver {kernel}"
        if not at_least(kernel, floor):
            return f"forward compatibility: libcuda {lib.version} on driver {kernel}, which is older than {floor}"
        if not at_least(lib.version, kernel):
            return f"an older compat libcuda {lib.version} shadows driver {kernel} (error 803 class)"
    return ""


def cuda_runtime(scene: Scene, view: NodeView, link: Link) -> Finding:
    libraries = view.server.mapped("libcudart") if view.server is not None else ()
    found = [reading("process maps", f"mapped {lib.path}", lib.version) for lib in libraries if lib.version]
    fact = view.server_fact("cuda_runtime")
    found += list(fact.readings)
    majors = weigh([reading(r.source, f"{r.how} ({r.value})", str(major(r.value))) for r in found], fact.missing)
    unclear = not_accelerated(view) or ("" if view.blind or libraries else "no process has libcudart mapped")
    wanted = link.demand.get("major")
    if wanted is None:
        build = builds(view).value
        wanted = major(build) if build not in (None, "none") else None
    different = sorted({v for v in majors.distinct if wanted is not None and v != str(wanted)})
    wrong = f"CUDA {', '.join(different)} runtime, wanted CUDA {wanted}" if different and not unclear else ""
    if wanted is None and not unclear:
        unclear = "the CUDA version of the build is not known"
    exact = max((r.value for r in found), key=len, default=None)
    toolkit, level = view.server_fact("toolkit").value, view.host_fact("smi_cuda").value
    # PTX of a newer toolkit than the driver's own level is refused by the driver (error 222): kernels need SASS.
    ahead = toolkit is not None and level is not None and numbers(toolkit)[:2] > numbers(level)[:2]
    values: dict[str, Value] = {"version": exact, "wanted": wanted, "toolkit": toolkit, "driver_cuda": level}
    return judged(link, view, majors, wrong, unclear=unclear, items=(ITEM_IMAGE,), values=values, warn=ahead)


def nccl(scene: Scene, view: NodeView, link: Link) -> Finding:
    """One copy of NCCL, and no second CUDA runtime or cuDNN beside it in any process; its version from two sources."""
    server = view.server
    copies = {name: server.mapped(name) if server is not None else () for name in ("libnccl", "libcudart", "libcudnn")}
    found = [
        reading("file bytes", f"inside {lib.path}", v.split("+")[0]) for lib in copies["libnccl"] for v in lib.inside
    ]
    fact = view.server_fact("nccl")
    found += [reading(r.source, r.how, r.value) for r in fact.readings]
    entry = view.last_log()
    if entry is not None:
        found += [reading("launch log", entry.source, version) for version in entry.log.nccl]
    twice = sorted(name for name, libs in copies.items() if _twice_in_one(libs))
    wrong = f"two copies in one process: {', '.join(twice)}" if twice else ""
    unclear = not_accelerated(view) or ("" if view.blind or copies["libnccl"] else "no process has NCCL mapped")
    paths = " ".join(lib.path for libs in copies.values() for lib in libs)
    weighed = weigh(found, fact.missing)
    return judged(
        link, view, weighed, wrong, unclear=unclear, items=(ITEM_IMAGE,), values={"paths": paths[:1000] or None}
    )


def _twice_in_one(libraries: tuple[Library, ...]) -> bool:
    seen: set[int] = set()
    for library in libraries:
        if seen & set(library.pids):
            return True
        seen |= set(library.pids)
    return False

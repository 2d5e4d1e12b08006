"""The chain's links about who it is: image, vLLM build, GPUs, and the process that answers."""

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.profile import Link
from signoff.core.words import Bearing, Outcome
from signoff.judge.environment.links import ITEM_HOST, ITEM_IMAGE, judged, not_accelerated
from signoff.judge.environment.scene import NodeView, Scene, about, reading, weigh
from signoff.judge.environment.versions import at_least, base, is_untagged, local
from signoff.read.probe import Reading, Server

SAME_START_S = 2.0


def image(scene: Scene, view: NodeView, link: Link) -> Finding:
    """The image that the container runs, by tag and digest, from the container's record and from the image store."""
    fact, digests = view.server_fact("image"), view.server_fact("image_digest")
    wanted = str(link.demand["equals"]) if "equals" in link.demand else None
    named = [reading(r.source, r.how, name) for r in fact.readings if (name := _one_of(r.value, wanted))]
    seen = weigh(named, fact.missing)
    digest = _digest(digests.value, seen.value)
    store_read = any(r.source == "image store" for r in view.server_fact("image_id").readings)
    wrong, unclear = "", ""
    other = [v for v in seen.distinct if wanted is not None and v != plain(wanted)]
    if other:
        wrong = f"the container runs {other[0]}"
    elif view.server_fact("image_id").readings and view.server_fact("image_id").value is None:
        wrong = "the container runs another image than the one that now has its tag"
    elif digest is None and link.demand.get("digest"):
        # A tag is pushed again and again: without a digest it does not say which image runs.
        unclear = "the image store holds no digest for it, only a tag" if store_read else "no digest was read"
    values: dict[str, Value] = {
        "digest": digest,
        "image_id": view.server_fact("image_id").value,
        "container_started": view.server_fact("container_started").value,
        "runtime": view.server_fact("container_runtime").value,
    }
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_IMAGE,), values=values)


def plain(name: str) -> str:
    """An image name without the registry that is meant when none is said."""
    for prefix in ("docker.io/library/", "docker.io/", "index.docker.io/"):
        name = name.removeprefix(prefix)
    return name


def _one_of(names: str, wanted: str | None) -> str:
    """Of an image's tags the wanted one when it is among them, else the first."""
    tags = [plain(name) for name in names.split()]
    return plain(wanted) if wanted is not None and plain(wanted) in tags else (tags[0] if tags else "")


def _digest(digests: str | None, image_name: str | None) -> str | None:
    """The digest that the image store holds for the image's repository, else its first."""
    pairs = [pair.partition("@") for pair in (digests or "").split() if "@" in pair]
    repository = (image_name or "").rpartition(":")[0] or image_name
    same = [digest for name, _, digest in pairs if plain(name) == repository]
    return next(iter(same or [digest for _, _, digest in pairs]), None)


def vllm_build(scene: Scene, view: NodeView, link: Link) -> Finding:
    """vLLM's version: installed files, their metadata, what the server answers and what its log says."""
    fact = view.server_fact("vllm")
    said = list(fact.readings)
    if scene.version is not None:
        said.append(reading("server", "GET /version", scene.version))
    entry = view.last_log()
    if entry is not None and entry.log.version:
        said.append(reading("launch log", entry.source, entry.log.version))
    seen = weigh([reading(r.source, f"{r.how} ({r.value})", base(r.value)) for r in said], fact.missing)
    least = link.demand.get("at_least")
    untagged = any(is_untagged(r.value) for r in said)
    low = [v for v in seen.distinct if least is not None and not untagged and not at_least(v, str(least))]
    wrong = f"vLLM {low[0]} is older than {least}" if low else ""
    unclear = ""
    if untagged and least is not None and not _recipe_image(scene, view):
        unclear = f"a branch build, whose number cannot be compared with {least}, outside the recipe's image"
    if link.demand.get("platform") == "cpu":
        marks = _cpu_marks(view, said)
        if len({r.source for r in marks}) < link.sources:
            unclear = "fewer than two sources say that it is the CPU build"
        values: dict[str, Value] = {"cpu_marks": "; ".join(f"{r.how}: {r.value}" for r in marks)[:600] or None}
    else:
        values = {}
        unclear = not_accelerated(view) or unclear
    # What a server answers and logs is a claim; what is installed where its process runs must be seen too.
    unclear = view.blind or unclear
    builds = dict.fromkeys(r.value for r in said if r.value != base(r.value))
    values["build"] = ", ".join(builds) or None
    return judged(link, view, seen, wrong, unclear=unclear, items=(ITEM_IMAGE,), values=values, warn=untagged)


def _recipe_image(scene: Scene, view: NodeView) -> bool:
    """Whether the container runs the image that the profile names, at a digest."""
    wanted = next((link for link in scene.profile.chain if link.name == "image" and "equals" in link.demand), None)
    return wanted is not None and image(scene, view, wanted).outcome is Outcome.PASS


def _cpu_marks(view: NodeView, said: list[Reading]) -> list[Reading]:
    """What shows that this vLLM is the CPU build: its local version, its name, the kinds of its extension modules."""
    marks = [r for r in said if local(r.value) == "cpu"]
    for read in view.server_fact("vllm_extensions").readings:
        names = read.value.split()
        if any("_C_AVX" in name or "_C_cpu" in name for name in names):
            marks.append(reading(read.source, read.how, read.value))
    entry = view.last_log()
    if entry is not None and entry.log.engine_config.get("device_config") == "cpu":
        marks.append(reading("launch log", entry.source, "device_config=cpu"))
    return marks


def gpu(scene: Scene, view: NodeView, link: Link) -> Finding:
    """Kind and number of the GPUs, as the driver library and the kernel module list them."""
    fact = view.host_fact("gpus")
    by_source: dict[str, list[str]] = {}
    for row in view.probe.gpus if view.probe is not None else ():
        by_source.setdefault(row.source, []).append(row.name)
    if "driver library" not in by_source and view.smi is not None and view.smi.gpus:
        by_source["driver library"] = [g.name for g in view.smi.gpus]
    found = [reading(source, source, _counted(names)) for source, names in by_source.items()]
    seen, names = weigh(found, fact.missing), {name for listed in by_source.values() for name in listed}
    allowed = str(link.demand.get("one_of", "")).split("|") if "one_of" in link.demand else []
    strange = sorted(name for name in names if allowed and not any(kind in _words(name) for kind in allowed))
    wrong = f"{strange[0]} is not among {', '.join(allowed)}" if strange else ""
    unclear = not_accelerated(view)
    return judged(link, view, seen, "" if unclear else wrong, unclear=unclear, items=(ITEM_HOST,))


def _words(name: str) -> list[str]:
    return name.replace("-", " ").split()


def _counted(names: list[str]) -> str:
    kinds = sorted(set(names))
    return ", ".join(f"{names.count(kind)} x {kind}" for kind in kinds)


def process(scene: Scene, view: NodeView, link: Link) -> Finding:
    """Whether the probed process is the server that answers: by its port and by its start, in one boot."""
    host, server = view.probe, view.server
    starts = {p.pid: p.started_unix_s for p in server.processes} if server is not None else {}
    boot = view.host_fact("boot_id").value
    found: list[Reading] = []
    if server is not None:
        said = f"process {server.pid}"
        if view.joined.port is not None:
            found.append(reading("socket table", f"listening on port {view.joined.port}", said))
        if view.joined.start_told:
            found.append(reading("server", "process start in its metrics", said))
        if view.headless and view.joined.head:
            found.append(reading("command line", f"led by {view.joined.head}", said))
        if starts.get(server.pid) is not None:
            found.append(reading("kernel", "/proc/PID/stat", said))
    seen = weigh(found)
    unclear = view.blind or ("" if boot is not None else "the boot identifier was not read")
    if server is not None and server.maps_unread:
        unclear = unclear or f"the maps of {server.maps_unread} processes could not be read"
    values: dict[str, Value] = {
        "pid": server.pid if server is not None else None,
        "processes": len(server.processes) if server is not None else None,
        "started_unix_s": starts.get(server.pid) if server is not None else None,
        "boot_id": boot,
        "headless": view.headless,
        "uncollected": ", ".join(host.unfinished) if host is not None and host.unfinished else None,
    }
    return judged(link, view, seen, unclear=unclear, items=(ITEM_HOST,), values=values)


def same_process(scene: Scene, view: NodeView) -> Finding:
    """After the load: still the same boot and the same process as the one that the chain is about."""
    code, bearing = "environment.process.same", Bearing.EVIDENCE
    before, after = view.server, None
    if view.probe_after is None and not view.due:
        return about(code, Outcome.NOT_RUN, bearing, subject=view.name, required=False)
    unseen = view.blind or view.unseen_after
    if view.probe_after is not None and before is not None:
        after = next((s for s in view.probe_after.servers if s.pid == before.pid), None)
    if unseen or before is None or view.probe_after is None:
        return about(
            code, Outcome.INCONCLUSIVE, bearing, subject=view.name, values={"reason": unseen}, required=view.due
        )
    boots = (view.host_fact("boot_id").value, view.probe_after.fact("boot_id").value)
    starts = [_started(server) for server in (before, after)]
    if after is None:
        reason = "the process is gone"
    elif None in boots or None in starts:
        reason = "its start or the boot was not read"
    elif abs((starts[0] or 0) - (starts[1] or 0)) > SAME_START_S:
        reason = "another process"
    else:
        reason = "" if boots[0] == boots[1] else "another boot"
    return about(
        code,
        Outcome.INCONCLUSIVE if reason else Outcome.PASS,
        bearing,
        subject=view.name,
        values={"pid": before.pid, "reason": reason or None},
        evidence=view.cited_both,
        items=(4,),
    )


def _started(server: Server | None) -> float | None:
    if server is None:
        return None
    return next((p.started_unix_s for p in server.processes if p.pid == server.pid), None)

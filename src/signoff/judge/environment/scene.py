"""Scene: the evidence of the environment gate, read once and joined: which probed process is the server that answers.

Every check takes the scene and gives findings; none reads evidence by itself.
"""

import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from signoff.core.dossier import Dossier
from signoff.core.events import StageStarted
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.plan import Node, Plan
from signoff.core.profile import Profile
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity
from signoff.judge.environment.join import Joined, join, led, names_of
from signoff.read.launch_log import LaunchLog, read_launch_log
from signoff.read.nvidia_smi import NvidiaSmi, read_nvidia_smi
from signoff.read.probe import Fact, Gap, Probe, Reading, Server, read_probe
from signoff.read.scrape import Scrape, read_scrape

STAGE = "environment.probe"
PID_BYTES = 1 << 20
"""How much of each end of a log is searched for process numbers."""
_PREFIX = re.compile(rb"\((?:ApiServer|APIServer|EngineCore|Worker|DPCoordinator)\w* pid=(\d{1,10})\)")
SAME_ORIGIN = {"module parameter": "kernel module", "file system": "mount table", "system call": "kernel"}
"""Sources that ask the same authority: two of them count as one."""


class ReadLog(Struct, frozen=True, kw_only=True):
    when: str
    """`before` or `after` the load."""
    source: str
    digest: str
    bytes: int
    cut: bool
    """Too large to be taken whole."""
    pids: frozenset[int] = frozenset()
    """Process numbers that its lines begin with, as they are inside the container."""
    log: LaunchLog


class NodeView(Struct, frozen=True, kw_only=True):
    """One node of the plan and what it gave."""

    node: Node
    probe: Probe | None = None
    probe_digest: str = ""
    why: str = ""
    """Why there is no usable probe."""
    joined: Joined = Joined()
    """The vLLM server on this node that answers at the plan's base URL, or a headless part of it; or why none is."""
    due: bool = False
    """Whether load was sent, so that what the node shows after it is required."""
    probe_after: Probe | None = None
    probe_after_digest: str = ""
    why_after: str = ""
    """Why there is no usable probe after the load."""
    logs: tuple[ReadLog, ...] = ()
    logs_missing: tuple[str, ...] = ()
    smi: NvidiaSmi | None = None
    smi_digest: str = ""
    smi_after: NvidiaSmi | None = None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def server(self) -> Server | None:
        return self.joined.server

    @property
    def headless(self) -> bool:
        return self.joined.headless

    @property
    def cited(self) -> tuple[str, ...]:
        return (f"sha256:{self.probe_digest}",) if self.probe_digest else ()

    @property
    def cited_both(self) -> tuple[str, ...]:
        """The probes before and after the load."""
        return (*self.cited, *((f"sha256:{self.probe_after_digest}",) if self.probe_after_digest else ()))

    def server_fact(self, name: str) -> Fact:
        return self.server.fact(name) if self.server is not None else Fact()

    def host_fact(self, name: str) -> Fact:
        return self.probe.fact(name) if self.probe is not None else Fact()

    @property
    def blind(self) -> str:
        """Why facts of the server cannot be had here, empty when they can."""
        return self.why or self.joined.why

    @property
    def unseen_after(self) -> str:
        """Why nobody can say how the node stood after the load, empty when that is known or not asked."""
        return f"after the load: {self.why_after}" if self.due and self.probe_after is None else ""

    def last_log(self) -> ReadLog | None:
        """The newest log taken before the load that tells the server's arguments, else the newest."""
        before = [log for log in self.logs if log.when != "after"] or list(self.logs)
        telling = [log for log in before if log.log.arguments]
        return (telling or before)[-1] if before else None


class Scene(Struct, frozen=True, kw_only=True):
    plan: Plan
    profile: Profile
    nodes: tuple[NodeView, ...]
    version: str | None = None
    """What `GET /version` says."""
    version_digest: str = ""
    models: tuple[str, ...] = ()
    models_digest: str = ""
    models_missing: str = ""
    routes: tuple[str, ...] | None = None
    """Paths of the server's own list of routes; None when it has none."""
    routes_digest: str = ""
    stranger_status: int | None = None
    """HTTP status that a caller without a key got."""
    stranger_digest: str = ""
    located: bool = False
    """Whether the capacity gate saw the service die, and so places the failures that its log tells."""
    newest_ns: int = 0
    """When the newest evidence was taken, Unix nanoseconds."""

    @property
    def laboratory(self) -> bool:
        return self.profile.scope == "laboratory"


class Weighed(Struct, frozen=True, kw_only=True):
    """Readings of one thing, weighed: how many independent sources, and whether they agree."""

    value: str | None
    """The agreed value; None when nothing was read or readings conflict."""
    distinct: tuple[str, ...]
    sources: tuple[str, ...]
    text: str
    """Every reading with its place, for the finding's values."""
    gaps: str

    @property
    def conflict(self) -> bool:
        return len(self.distinct) > 1


def weigh(readings: Iterable[Reading], missing: Iterable[Gap] = ()) -> Weighed:
    readings = list(readings)
    distinct = tuple(dict.fromkeys(r.value for r in readings))
    sources = tuple(dict.fromkeys(SAME_ORIGIN.get(r.source, r.source) for r in readings))
    return Weighed(
        value=distinct[0] if len(distinct) == 1 else None,
        distinct=distinct,
        sources=sources,
        text="; ".join(f"{r.how}: {r.value}" for r in readings)[:1500],
        gaps="; ".join(f"{g.how}: {g.why}" for g in missing)[:800],
    )


def reading(source: str, how: str, value: str) -> Reading:
    return Reading(source=source, how=how, value=value)


def about(
    code: str,
    outcome: Outcome,
    bearing: Bearing,
    *,
    subject: str = "",
    values: dict[str, Value] | None = None,
    limit: dict[str, Value] | None = None,
    evidence: Sequence[str] = (),
    items: tuple[int, ...] = (),
    severity: Severity = Severity.FAIL,
    required: bool = True,
    cause: Cause | None = None,
    phase: Phase = Phase.NA,
    scope: Scope | None = None,
) -> Finding:
    """A finding of this gate; a failing one points at the environment unless said otherwise."""
    failing = outcome is Outcome.FAIL
    return Finding(
        code=code,
        gate=Gate.ENVIRONMENT,
        outcome=outcome,
        bearing=bearing,
        severity=severity,
        required=required,
        subject=subject,
        cause=(cause if cause is not None else Cause.ENVIRONMENT) if failing else Cause.NONE,
        phase=phase,
        scope=scope,
        values=values or {},
        limit=limit or {},
        evidence=tuple(dict.fromkeys(evidence)),
        items=items,
    )


def read_scene(dossier: Dossier) -> Scene:
    """All evidence of the gate, read."""
    nodes = _nodes(dossier)
    version, models, routes = (_last(dossier, kind) for kind in ("version", "models", "routes"))
    stranger = _last(dossier, "stranger")
    missing = [e.missing for e in dossier.of_kind("models") if e.missing]
    return Scene(
        plan=dossier.plan,
        profile=dossier.profile,
        nodes=nodes,
        version=_text_at(_json(dossier, version), "version"),
        version_digest=version.digest if version else "",
        models=_model_names(_json(dossier, models)),
        models_digest=models.digest if models else "",
        models_missing=missing[-1] if missing and models is None else "",
        routes=_routes(_json(dossier, routes)) if routes else None,
        routes_digest=routes.digest if routes else "",
        stranger_status=_whole_at(_json(dossier, stranger), "status"),
        stranger_digest=stranger.digest if stranger else "",
        newest_ns=max((e.taken_ns for e in dossier.evidence), default=0),
    )


def _last(dossier: Dossier, kind: str) -> Evidence | None:
    found = [e for e in dossier.of_kind(kind) if e.digest]
    return found[-1] if found else None


def _raw(dossier: Dossier, card: Evidence) -> bytes | None:
    try:
        return dossier.blob(card.digest)
    except KeyError:
        return None


def _json(dossier: Dossier, card: Evidence | None) -> object:
    raw = _raw(dossier, card) if card is not None else None
    try:
        return msgspec.json.decode(raw) if raw is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError):
        return None


def _text_at(tree: object, key: str) -> str | None:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value[:200] if isinstance(value, str) and value else None


def _whole_at(tree: object, key: str) -> int | None:
    value = tree.get(key) if isinstance(tree, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _model_names(tree: object) -> tuple[str, ...]:
    data = tree.get("data") if isinstance(tree, dict) else None
    names = [_text_at(item, "id") for item in data[:1000]] if isinstance(data, list) else []
    return tuple(name for name in names if name)


def _routes(tree: object) -> tuple[str, ...] | None:
    paths = tree.get("paths") if isinstance(tree, dict) else None
    return tuple(str(path)[:200] for path in list(paths)[:2000]) if isinstance(paths, dict) else None


def _scrapes(dossier: Dossier) -> Iterable[Scrape]:
    for card in dossier.of_kind("scrape"):
        if card.stage == STAGE and card.digest and (raw := _raw(dossier, card)) is not None:
            yield read_scrape(raw)


def _nodes(dossier: Dossier) -> tuple[NodeView, ...]:
    """Every node read, then joined: a part that does not answer by itself counts only beside one that does."""
    scrapes, resolved = tuple(_scrapes(dossier)), _resolved(dossier)
    views = [_node(dossier, node) for node in dossier.plan.nodes]
    joined = [
        join(dossier.plan, view.node, view.probe, scrapes, resolved) if view.probe is not None else Joined()
        for view in views
    ]
    heads = [
        names_of(view.node, view.probe)
        for view, one in zip(views, joined, strict=True)
        if view.probe is not None and one.server is not None and not one.headless
    ]
    return tuple(replace(view, joined=led(one, heads)) for view, one in zip(views, joined, strict=True))


def _resolved(dossier: Dossier) -> tuple[str, ...]:
    """Addresses that the base URL's host was resolved to, where the URL was asked."""
    card = _last(dossier, "resolved")
    tree = (
        _json(dossier, card) if card is not None and card.where == dossier.plan.service.base_url.rstrip("/") else None
    )
    found = tree.get("addresses") if isinstance(tree, dict) else None
    return tuple(str(item)[:100] for item in found[:100]) if isinstance(found, list) else ()


def _loaded(dossier: Dossier) -> bool:
    """Whether the run sent load: what the environment shows after it is then required."""
    return any(record.gate is not Gate.ENVIRONMENT for record in dossier.records) or any(
        isinstance(event, StageStarted) and event.gate is not Gate.ENVIRONMENT for event in dossier.events
    )


def _node(dossier: Dossier, node: Node) -> NodeView:
    probe, digest, why = _probe(dossier, node, "before")
    after, after_digest, why_after = _probe(dossier, node, "after")
    if probe is not None and after is not None and (after.began_unix_ns or 0) <= (probe.began_unix_ns or 0):
        after, why_after = None, "the probe document is not newer than the one from before the load"
    smi, smi_digest = _smi(dossier, node, probe, digest, "before")
    smi_after, _ = _smi(dossier, node, after, after_digest, "after")
    logs = dossier.of_kind("launch_log", node.name)
    return NodeView(
        node=node,
        probe=probe,
        probe_digest=digest,
        why=why,
        due=_loaded(dossier),
        probe_after=after,
        probe_after_digest=after_digest,
        why_after=why_after,
        logs=tuple(log for card in logs if (log := _log(dossier, card)) is not None),
        logs_missing=tuple(f"{e.source}: {e.missing}" for e in logs if e.missing),
        smi=smi,
        smi_digest=smi_digest,
        smi_after=smi_after,
    )


def _probe(dossier: Dossier, node: Node, when: str) -> tuple[Probe | None, str, str]:
    """The newest probe document of a node, its digest, and why there is none to use."""
    cards = [e for e in dossier.of_kind("probe", node.name) if e.conditions.get("when", "before") == when]
    if not cards:
        return None, "", "the node was not probed"
    card = next((e for e in reversed(cards) if e.digest), cards[-1])
    raw = _raw(dossier, card) if card.digest else None
    if raw is None:
        return None, "", card.missing or "the bundle lacks the probe document"
    probe = read_probe(raw)
    if probe.error:
        return None, card.digest, f"the probe document cannot be read: {probe.error}"
    if probe.root != "/" and not dossier.plan.service.simulated:
        return None, card.digest, f"the probe looked at {probe.root}, not at the node's own root"
    return probe, card.digest, ""


def _log(dossier: Dossier, card: Evidence) -> ReadLog | None:
    raw = _raw(dossier, card) if card.digest else None
    if raw is None:
        return None
    when = str(card.conditions.get("when", "before"))
    log = read_launch_log(raw)
    cut = bool(card.conditions.get("bytes_cut"))
    return ReadLog(when=when, source=card.source, digest=card.digest, bytes=len(raw), cut=cut, pids=_pids(raw), log=log)


def _pids(raw: bytes) -> frozenset[int]:
    """The process numbers of both ends of a log: those of its last start are among them."""
    ends = (raw[:PID_BYTES], raw[PID_BYTES:][-PID_BYTES:])
    return frozenset(int(found[1]) for end in ends for found in _PREFIX.finditer(end))


def _smi(dossier: Dossier, node: Node, probe: Probe | None, digest: str, when: str) -> tuple[NvidiaSmi | None, str]:
    """The full state of the GPUs: of the probe, else of a file that people gave."""
    said = probe.answer("nvidia-smi", "-q", "-x") if probe is not None else None
    if said is not None:
        return read_nvidia_smi(said.encode("utf-8", "replace")), digest
    for card in reversed(dossier.of_kind("nvidia_smi", node.name)):
        if card.conditions.get("when", "before") != when:
            continue
        raw = _raw(dossier, card) if card.digest else None
        if raw is not None:
            return read_nvidia_smi(raw), card.digest
    return None, ""

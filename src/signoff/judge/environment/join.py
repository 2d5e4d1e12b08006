"""The join: which probed process is the server that answers at the plan's base URL, and by what that is known.

A port number alone joins nothing: every machine may hold that port. A process is joined when it holds the URL's port,
the URL's host is one of its node's own names, and it started when the server that answers says it did. A server that
tells no start is joined by its socket alone only on the machine that asks.
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec import Struct

from signoff.core.plan import Node, Plan
from signoff.judge.environment.versions import whole
from signoff.read.probe import Probe, Server
from signoff.read.scrape import Scrape

START_SLACK_S = 30.0
"""How far the start that the server's metrics tell may lie from the start of one of its processes."""
LOOPBACK = ("localhost", "::1", "0.0.0.0", "::")
HEAD_OPTIONS = ("--master-addr", "--data-parallel-address", "-dpa")
"""Options by which a part of a service says which node leads it."""


class Joined(Struct, frozen=True, kw_only=True):
    """What the join of one node came to: a server with what shows it, or the reason why there is none."""

    server: Server | None = None
    why: str = ""
    headless: bool = False
    """A part of the service that does not answer by itself."""
    port: int | None = None
    """The port that it was seen to listen on."""
    start_told: bool = False
    """Whether the server's own metrics tell the start of one of its processes."""
    head: str = ""
    """The head node that the command line of a headless part names."""


def join(plan: Plan, node: Node, probe: Probe, scrapes: Sequence[Scrape], resolved: Sequence[str]) -> Joined:
    """The probed server of one node; `resolved` are the addresses that the URL's host was resolved to."""
    host, port = host_and_port(plan.service.base_url)
    if port is None:
        return Joined(why="the base URL names no port that there is")
    for server in probe.servers:
        if port in _served_ports(server):
            return _answering(server, node, probe, scrapes, host, port, resolved)
    holder = next((row for row in probe.listeners if row.port == port), None)
    if holder is not None and holder.pid is not None:
        return Joined(why=f"port {port} is held by process {holder.pid}, which is no vLLM server")
    if not probe.servers:
        return Joined(why="no vLLM process was found on the node")
    hidden = [gap.why for server in probe.servers for gap in server.fact("ports").missing]
    unattended = [s for s in probe.servers if "--headless" in s.command or (not s.ports and not hidden)]
    if len(plan.nodes) > 1 and len(probe.servers) == 1 and unattended:
        return Joined(server=unattended[0], headless=True, head=_head_of(unattended[0]))
    why = f"; sockets could not be read: {hidden[0]}" if hidden else ""
    return Joined(why=f"no vLLM process found on the node listens on port {port}{why}")


def host_and_port(url: str) -> tuple[str, int | None]:
    """Host in lower case and port of a URL; a port that is none is `None`."""
    try:
        parts = urlsplit(url)
        return (parts.hostname or "").lower(), parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return "", None


def names_of(node: Node, probe: Probe) -> set[str]:
    """Every name and address by which a node is known: the plan's, its own, and those of its interfaces."""
    said = [node.name, node.address or "", *probe.fact("hostname").values()]
    said += [address for text in probe.fact("addresses").values() for address in text.split()]
    return {name.lower() for name in said if name}


def _loopback(host: str) -> bool:
    return host in LOOPBACK or host.startswith("127.")


def _answering(
    server: Server,
    node: Node,
    probe: Probe,
    scrapes: Sequence[Scrape],
    host: str,
    port: int,
    resolved: Sequence[str],
) -> Joined:
    """A server that holds the port: joined when the URL leads to its node and nothing shows another process."""
    told = [t for scrape in scrapes if (t := scrape.series.get("process_start_time_seconds")) is not None]
    starts = [p.started_unix_s for p in server.processes if p.started_unix_s is not None]
    matched = any(abs(start - t) <= START_SLACK_S for start in starts for t in told)
    names = names_of(node, probe)
    own = host in names or bool(names & {address.lower() for address in resolved})
    if told and starts and not matched:
        return Joined(why="the process on the port did not start when the server that answers says it did")
    if not own and not _loopback(host):
        return Joined(why=f"the base URL names {host[:100]}, and nothing says that this is node {node.name}")
    if not matched and not (node.via == "local" and (_loopback(host) or own)):
        return Joined(why="the server that answers tells no start of its process, and it is not on this machine")
    return Joined(server=server, port=port, start_told=matched)


def _served_ports(server: Server) -> set[int]:
    """Ports that lead to the server: those it listens on, and those its container publishes for them."""
    own = {row.port for row in server.ports}
    for pair in (server.fact("published_ports").value or "").split():
        outside, _, inside = pair.partition("->")
        if (published := whole(outside)) is not None and whole(inside) in own:
            own.add(published)
    return own


def _head_of(server: Server) -> str:
    """The head node that a command line names, empty when it names none."""
    words = server.command
    for index, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name in HEAD_OPTIONS:
            return (value if sign else next(iter(words[index + 1 : index + 2]), "")).lower()[:200]
    return ""


def led(joined: Joined, heads: Sequence[set[str]]) -> Joined:
    """A headless part as it counts beside the nodes that answer, whose names are `heads`."""
    if not joined.headless:
        return joined
    if not heads:
        return Joined(why="no node of the plan was seen to listen on the base URL's port")
    if joined.head and not any(joined.head in names or _loopback(joined.head) for names in heads):
        return Joined(why=f"it is led by {joined.head}, which is no node that answers at the base URL")
    return joined

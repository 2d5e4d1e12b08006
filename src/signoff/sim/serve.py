"""The simulated service as a process: `python -m signoff.sim.serve --port N --root DIR --fault NAME`."""

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop
from msgspec import structs

from signoff.errors import SignoffError
from signoff.sim.faults import settings_with
from signoff.sim.host import write_root
from signoff.sim.host_facts import Host
from signoff.sim.host_faults import host_with
from signoff.sim.http1 import Incoming, Listener, Reply
from signoff.sim.service import Service
from signoff.sim.settings import Settings

LOG = Path("var/log/vllm.log")
READY = "ready"


class Server:
    """A service behind its listener, the launch log beside it."""

    def __init__(self, settings: Settings, host: Host, root: Path) -> None:
        self.settings, self.host, self.root = settings, host, root
        self.service: Service | None = None
        self.listener = Listener(self._handle, self._answered)
        self.over = asyncio.Event()

    async def _handle(self, incoming: Incoming, reply: Reply) -> None:
        assert self.service is not None
        await self.service.handle(incoming, reply)

    def _answered(self, incoming: Incoming, reply: Reply, seconds: float) -> None:
        if self.service is not None and reply.status is not None:
            self.service.metrics.answered(
                incoming.method, incoming.path, reply.status, seconds, len(incoming.body), reply.sent_bytes
            )

    async def start(self, port: int) -> None:
        self.service = Service(self.settings)
        self._run = asyncio.get_running_loop().create_task(self.service.engine.run())
        await self.listener.start(port)

    async def stop(self) -> None:
        if self.service is not None:
            self.service.engine.stop()
        await self.listener.stop()


def host_of(faults: Sequence[str]) -> Host:
    """The host that the faults make of a healthy one."""
    return host_with([name.partition("=")[0] for name in faults])


async def run(faults: Sequence[str], *, port: int, gateway_port: int, root: Path, seed: int) -> int:
    """Serve until told to stop; returns the exit code."""
    host = host_of(faults)
    settings = structs.replace(
        settings_with(faults, seed=seed), version=host.wheels.get("vllm", "0.32.0"), root=host.model
    )
    server = Server(settings, host, root)
    await server.start(port)
    write_root(root, host, pid=os.getpid(), port=server.listener.port, started_s=time.time())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.over.set)
    print(f"{READY} {server.listener.port} 0", flush=True)
    await server.over.wait()
    await server.stop()
    return 0


def serve_forever(faults: Sequence[str], port: int, *, gateway_port: int = 0, root: Path, seed: int = 1) -> int:
    """Run the service in this process until SIGTERM or SIGINT; returns the exit code."""
    return uvloop.run(run(faults, port=port, gateway_port=gateway_port, root=root, seed=seed))


def free_port() -> int:
    """A port that was free a moment ago."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m signoff.sim.serve")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--gateway-port", type=int, default=0)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args(arguments)
    try:
        return serve_forever(given.fault, given.port, gateway_port=given.gateway_port, root=given.root, seed=given.seed)
    except SignoffError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

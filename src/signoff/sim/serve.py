"""The simulated service as a process: `python -m signoff.sim.serve --port N --root DIR --fault NAME`."""

import argparse
import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path

import numpy as np
import uvloop
from msgspec import structs

from signoff.core.workload import rng, words
from signoff.errors import SignoffError
from signoff.sim.engine_faults import RESTART
from signoff.sim.failing import LOAD_FAULTS, engine_death, failed_launch, hung_step
from signoff.sim.gateway import Gateway
from signoff.sim.host import write_root
from signoff.sim.host_facts import Host
from signoff.sim.http1 import Incoming, Listener, Reply
from signoff.sim.launch import launched
from signoff.sim.launch_log import LaunchLog
from signoff.sim.service import Service
from signoff.sim.settings import Settings
from signoff.sim.stats_line import StatsLine
from signoff.sim.tokens import encode

LOG = Path("var/log/vllm.log")
READY, FAILED = "ready", "failed"
EXIT_AFTER_DEATH_S, RESTART_S = 0.7, 1.0
FOREIGN_TOKENS = 40


class Server:
    """The server process: a service behind its listener, its launch log, its fake host, and the gateway before it."""

    def __init__(self, settings: Settings, host: Host, root: Path, *, lay_root: bool = True) -> None:
        self.settings, self.host, self.root = settings, host, root
        self._lay_root = lay_root
        self.pid = os.getpid()
        self.port = 0
        self.service: Service | None = None
        self.listener: Listener | None = None
        self.log: LaunchLog | None = None
        self.over = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, port: int) -> None:
        """Launch: the fake host, the log, the engine, the listener."""
        self.listener = Listener(self._handle, self._answered)
        await self.listener.start(port)
        self.port = self.listener.port
        if self._lay_root:
            write_root(self.root, self.host, pid=self.pid, port=self.port, started_s=time.time())
        self.log = LaunchLog(self.root / LOG, self.settings, self.host, pid=self.pid, port=self.port)
        failing = [name for name in LOAD_FAULTS if name in self.settings.faults]
        if failing:
            await self._close_door()
            failed_launch(self.log, failing[0])
            self._forget_processes()
            return
        self.service = Service(self.settings)
        self.service.engine.on_death = self._died
        self.service.engine.on_hang = lambda: hung_step(self._log())
        self.log.launch()
        self._go(self.service.engine.run())
        self._go(self._stats(self.service))
        if "soak-foreign-traffic" in self.settings.faults:
            self._go(self._foreign(self.service))

    async def stop(self) -> None:
        if self.service is not None:
            self.service.engine.stop()
        await self._close_door()
        for task in list(self._tasks):
            task.cancel()
        if self.log is not None:
            if self.service is not None and not self.service.engine.dead:
                self.log.stop()
            self.log.close()
            self.log = None

    def _log(self) -> LaunchLog:
        assert self.log is not None
        return self.log

    async def _handle(self, incoming: Incoming, reply: Reply) -> None:
        if self.service is None:
            reply.reset()
            return
        await self.service.handle(incoming, reply)

    def _answered(self, incoming: Incoming, reply: Reply, seconds: float) -> None:
        if self.service is not None and reply.status is not None:
            self.service.metrics.answered(
                incoming.method, incoming.path, reply.status, seconds, len(incoming.body), reply.sent_bytes
            )

    def _go(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _close_door(self) -> None:
        if self.listener is not None:
            await self.listener.stop()
            self.listener = None

    def _died(self, why: str) -> None:
        """The engine is dead: the server follows it soon, or the whole process is gone at once and comes back."""
        assert self.service is not None
        scheduler = self.service.engine.scheduler
        if why == RESTART:
            self._go(self._restart())
            return
        engine_death(
            self._log(),
            why,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            usage=scheduler.pool.usage,
        )
        self._go(self._exit())

    async def _exit(self) -> None:
        await asyncio.sleep(EXIT_AFTER_DEATH_S)
        self._log().stop()
        await self._close_door()
        self._forget_processes()

    async def _restart(self) -> None:
        await self._close_door()
        self._log().close()
        self._forget_processes()
        await asyncio.sleep(RESTART_S)
        faults = {name: strength for name, strength in self.settings.faults.items() if name != "soak-restart"}
        self.settings = structs.replace(self.settings, faults=faults)
        self.pid += 100
        await self.start(self.port)

    def _forget_processes(self) -> None:
        """The processes of the server are gone from the fake host."""
        for pid in range(self.pid, self.pid + 2 + len(self.host.gpus)):
            shutil.rmtree(self.root / "proc" / str(pid), ignore_errors=True)

    async def _stats(self, service: Service) -> None:
        line = StatsLine(service.metrics)
        while not service.engine.dead:
            await asyncio.sleep(self.settings.stats_s)
            line.write(self._log(), service.engine.scheduler, self.settings.stats_s)

    async def _foreign(self, service: Service) -> None:
        """Somebody else's requests, evenly spread."""
        pause = 1 / self.settings.faults["soak-foreign-traffic"]
        draw = rng("foreign", self.settings.seed)
        answer = encode(words(FOREIGN_TOKENS, "foreign"))[:FOREIGN_TOKENS].tolist()
        while not service.engine.dead:
            await asyncio.sleep(pause)
            prompt = np.array([draw.getrandbits(31) for _ in range(draw.randint(200, 900))], dtype=np.int64)
            service.unheard(prompt, answer)


Announce = Callable[[bool, int, int, Path], None]
"""Told once: whether it serves, its port, the gateway's port (0: none), the fake root."""


def announce_to_people(serves: bool, port: int, gateway_port: int, root: Path) -> None:
    if serves:
        print(f"simulated vLLM on http://127.0.0.1:{port}, gateway on http://127.0.0.1:{gateway_port}", flush=True)
    else:
        print("the simulated server failed to start, as its fault wants", flush=True)
    print(f"host root {root}, launch log {root / LOG}", flush=True)


def announce_to_parent(serves: bool, port: int, gateway_port: int, root: Path) -> None:
    print(f"{READY if serves else FAILED} {port} {gateway_port}", flush=True)


async def run(faults: Sequence[str], *, port: int, gateway_port: int, root: Path, seed: int, announce: Announce) -> int:
    """Serve until told to stop; returns the exit code, 1 when the launch failed."""
    settings, host = launched(faults, seed)
    server = Server(settings, host, root)
    await server.start(port)
    if server.service is None:
        announce(False, server.port, 0, root)
        await server.stop()
        return 1
    gateway = Gateway(settings, f"http://127.0.0.1:{server.port}")
    front = Listener(gateway.handle)
    await gateway.start()
    await front.start(gateway_port)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.over.set)
    announce(True, server.port, front.port, root)
    await server.over.wait()
    await front.stop()
    await gateway.stop()
    await server.stop()
    return 0


def serve_forever(
    faults: Sequence[str],
    port: int,
    *,
    gateway_port: int = 0,
    root: Path | None = None,
    seed: int = 1,
    announce: Announce = announce_to_people,
) -> int:
    """Run the service in this process until SIGTERM or SIGINT; returns the exit code.

    Without `root` the fake host lies in a temporary folder that goes with the process. SignoffError for an unknown
    fault or a port that is taken.
    """
    with tempfile.TemporaryDirectory(prefix="signoff-sim-") as folder:
        place = root or Path(folder) / "root"
        try:
            return uvloop.run(
                run(faults, port=port, gateway_port=gateway_port, root=place, seed=seed, announce=announce)
            )
        except OSError as error:
            raise SignoffError(f"port {port} or {gateway_port}: {error}", "Give another port, or 0.") from None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m signoff.sim.serve")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--gateway-port", type=int, default=0)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fault", action="append", default=[])
    given = parser.parse_args(arguments)
    try:
        return serve_forever(
            given.fault,
            given.port,
            gateway_port=given.gateway_port,
            root=given.root,
            seed=given.seed,
            announce=announce_to_parent,
        )
    except SignoffError as error:
        print(error, file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())

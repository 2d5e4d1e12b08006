"""Starting the simulated service as a process of its own, and stopping it."""

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from signoff.errors import SignoffError
from signoff.sim.faults import parse
from signoff.sim.serve import LOG, READY

START_S_MAX = 30.0
STOP_S_MAX = 5.0


class Simulated:
    """A running simulated service, or one that failed to start: then `alive` is False and the log says why."""

    def __init__(
        self, process: "subprocess.Popen[bytes]", *, port: int, gateway_port: int, root: Path, faults: Sequence[str]
    ) -> None:
        self._process = process
        self.base_url = f"http://127.0.0.1:{port}"
        self.gateway_url: str | None = f"http://127.0.0.1:{gateway_port}" if gateway_port else None
        self.root = root
        """The fake root of the host it runs on."""
        self.log = root / LOG
        """Its launch log."""
        self.pid = process.pid
        self.faults = tuple(faults)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process, gently first; safe to call twice."""
        if self.alive:
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> "Simulated":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(faults: Sequence[str] = (), *, seed: int = 1, port: int = 0, gateway_port: int = 0, root: Path) -> Simulated:
    """Run `python -m signoff.sim.serve` and return when it answers, or when it has died of a load fault.

    SignoffError for an unknown fault or when it does neither in time.
    """
    for name in faults:
        parse(name)
    root.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-m", "signoff.sim.serve", "--root", str(root), "--seed", str(seed)]
    words += ["--port", str(port), "--gateway-port", str(gateway_port)]
    words += [word for name in faults for word in ("--fault", name)]
    stderr = root.parent / f"{root.name}.stderr"
    with stderr.open("wb") as errors:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL)
    assert process.stdout is not None
    told = _announcement(process, process.stdout)
    if told is None:
        process.kill()
        process.wait()
        said = stderr.read_text(errors="replace")[-2000:]
        raise SignoffError(f"the simulated service did not start: {said}", f"Its errors are in {stderr}.", 1)
    simulated = Simulated(process, port=told[1], gateway_port=told[2], root=root, faults=faults)
    if not told[0]:
        process.wait(STOP_S_MAX)
    return simulated


def _announcement(process: "subprocess.Popen[bytes]", stdout: IO[bytes]) -> tuple[bool, int, int] | None:
    """Whether it serves, its port and its gateway's port, from the line it prints; `None`: it ended without one."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        line = stdout.readline()
        if not line:
            return None
        parts = line.decode(errors="replace").split()
        if len(parts) == 3:
            return parts[0] == READY, int(parts[1]), int(parts[2])
    return None

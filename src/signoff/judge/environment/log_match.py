"""Whether a launch log is of the start that runs: its version, model, arguments, process numbers and time against the
probed process. A log of another start proves nothing about this one, however good it looks."""

import re

from signoff.core.instants import civil
from signoff.judge.environment.options import of_arguments, of_command, same
from signoff.judge.environment.scene import NodeView, ReadLog, Scene
from signoff.judge.environment.versions import base, whole
from signoff.read.launch_log import LaunchLog
from signoff.read.probe import Server

DEFAULTS = {
    "port": "8000",
    "tensor-parallel-size": "1",
    "pipeline-parallel-size": "1",
    "data-parallel-size": "1",
}
"""Options that say which start it was, with vLLM's defaults: the log leaves out what is default."""
ELSEWHERE = ("config",)
"""Options by which a command line takes others from a file, so that what it does not say is not default."""
START_DAYS = 1.5
"""A log's stamps are local time without a year: this far they may lie from the start of the process."""
_STAMP = re.compile(r"(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)", re.ASCII)
_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)
DAY_S, YEAR_DAYS = 86_400, 365.25


def of_another(scene: Scene, view: NodeView, entry: ReadLog) -> str:
    """What shows that a log is not of the server that answers, empty when nothing does."""
    log = entry.log
    if scene.version is not None and log.version is not None and base(log.version) != base(scene.version):
        return f"vLLM {log.version} in the log, {scene.version} answers"
    names = log.arguments.get("served_model_name", "")
    wanted = scene.plan.service.model
    if names and wanted is not None and scene.models and wanted in scene.models and wanted not in names:
        return f"it serves {names[:100]}"
    server = view.server
    return _of_other_start(server, entry) if server is not None else ""


def _of_other_start(server: Server, entry: ReadLog) -> str:
    return _arguments(server, entry.log) or _pids(server, entry) or _time(server, entry.log)


def _arguments(server: Server, log: LaunchLog) -> str:
    """Options of the log that are not those of the running command line."""
    if not log.arguments or len(server.command) < 2:
        return ""
    logged, running = of_arguments(log.arguments), of_command(server.command)
    whole_line = _is_serve(server.command) and not any(name in running for name in ELSEWHERE)
    for name, default in DEFAULTS.items():
        one, other = logged.get(name), running.get(name)
        if one is None and other is None:
            continue
        if not whole_line and other is None:
            continue
        one, other = one or default, other or default
        if not same(one, other):
            return f"--{name} {one[:40]} in the log, {other[:40]} runs"
    model, wanted = _model_of(logged), _model_of(running) or _positional(server.command)
    if model and wanted and model != wanted:
        return f"model {model[:100]} in the log, {wanted[:100]} runs"
    return ""


def _is_serve(words: tuple[str, ...]) -> bool:
    return "serve" in words or any("entrypoints" in word for word in words)


def _model_of(options: dict[str, str]) -> str:
    return options.get("model-tag") or options.get("model") or ""


def _positional(words: tuple[str, ...]) -> str:
    """The model that follows `serve`, empty when an option does."""
    for index, word in enumerate(words[:-1]):
        if word == "serve":
            return "" if words[index + 1].startswith("-") else words[index + 1]
    return ""


def _pids(server: Server, entry: ReadLog) -> str:
    """Process numbers as the log shows them, against those inside the container where they are known, else those of
    the node where no container is between."""
    inside = {p.pid_inside for p in server.processes if p.pid_inside is not None}
    contained = bool(server.fact("container_runtime").readings or server.fact("image").readings)
    known = inside or (set() if contained else {p.pid for p in server.processes})
    if not entry.pids or not known or known & entry.pids:
        return ""
    return f"its processes are {_few(entry.pids)}, and {_few(known)} run"


def _few(pids: set[int] | frozenset[int]) -> str:
    return ", ".join(str(pid) for pid in sorted(pids)[:3])


def _time(server: Server, log: LaunchLog) -> str:
    """The first stamp of the log's last start against the start of the process; a year's turn is looked across."""
    stamp = next((mark.stamp for mark in log.phases if mark.stamp), "")
    started = next((p.started_unix_s for p in server.processes if p.pid == server.pid), None)
    found = _STAMP.match(stamp)
    if found is None or started is None or not 0 <= started < 1e11:
        return ""
    month, day, hour, minute, second = (whole(part) or 0 for part in found.groups())
    if not 1 <= month <= 12:
        return ""
    logged = _BEFORE_MONTH[month - 1] + day - 1 + (hour * 3600 + minute * 60 + second) / DAY_S
    days, rest = divmod(int(started), DAY_S)
    _, start_month, start_day = civil(days)
    began = _BEFORE_MONTH[start_month - 1] + start_day - 1 + rest / DAY_S
    apart = abs(logged - began)
    if min(apart, YEAR_DAYS - apart) <= START_DAYS:
        return ""
    return f"it begins at {stamp}, and the process started on {start_month:02d}-{start_day:02d} (UTC)"

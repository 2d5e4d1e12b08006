"""Clues of log lines: the first failure of every log, what it is worth, and what only looks bad."""

from signoff.core.words import Cause, Phase, Severity, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless
from signoff.judge.lean.out_of_memory import memory_clue
from signoff.read.case_file import CaseFile
from signoff.read.launch_log import LogNote

_REWORK, _SCALE, _LIMITED, _GO = VerdictName.REWORK, VerdictName.SCALE, VerdictName.LIMITED, VerdictName.GO
_VERDICTS = {
    "kv_window_too_long": _SCALE,
    "kv_window_too_long_tokens": _SCALE,
    "state_slots_capped": _LIMITED,
    "window_reduced": _SCALE,
    "client_bad_request": _GO,
    "client_timeout": VerdictName.INCOMPLETE,
    "retry": VerdictName.INCOMPLETE,
    "tool_choice_off": _REWORK,
    "window_over_model": _REWORK,
}
_BY_CAUSE = {
    Cause.PREFIX_CACHE: _LIMITED,
    Cause.MODEL_PARSER: _LIMITED,
    Cause.GATEWAY: _LIMITED,
    Cause.CONCURRENCY: _SCALE,
    Cause.CLIENT: VerdictName.INCOMPLETE,
}
_PHASES = {
    "nccl_nvls": Phase.WARMUP,
    "no_kernel_image": Phase.WARMUP,
    "arch_unsupported": Phase.LOAD,
    "unsupported_ptx": Phase.WARMUP,
    "nccl_shm": Phase.LOAD,
    "nccl_shm_full": Phase.LOAD,
    "abi_mismatch": Phase.LOAD,
    "upstream_timeout": Phase.AGENT,
}
_SERVING_PHASE = {
    Cause.SUSTAINED: Phase.SOAK,
    Cause.HARDWARE: Phase.SOAK,
    Cause.LONG_INPUT: Phase.LONG_INPUT,
    Cause.MODEL_PARSER: Phase.AGENT,
    Cause.PREFIX_CACHE: Phase.PREFIX,
    Cause.CLIENT: Phase.SOAK,
    Cause.GATEWAY: Phase.AGENT,
}
_WEIGHTS = {
    "nccl_warn_other": 55,
    "nvml_broken": 80,
    "upstream_timeout": 75,
    "client_timeout": 45,
    "client_bad_request": 45,
    "tool_parser_error": 75,
    "tool_arguments": 85,
    "host_oom": 75,
    "disk_full": 70,
    "files_limit": 70,
    "permission": 60,
    "template": 65,
    "connector": 70,
    "cache_assert": 85,
    "xid_memory": 130,
    "xid_gone": 130,
    "xid_link": 125,
    "xid_recovery": 110,
    "xid_software": 115,
    "xid_other": 105,
    "uncorrectable_ecc": 130,
    "arguments": 80,
    "probe_failed": 62,
    "start_timeout": 85,
}
_WEAK_WEIGHTS = {
    "preempted": 58,
    "transfer_expired": 30,
    "window_reduced": 62,
    "state_slots_capped": 70,
    "prefix_off": 60,
    "prefix_coarse": 45,
    "retry": 30,
    "guided_ignored": 35,
}
PAST = 15
"""Percent of a rule's weight for a start that failed before one that came up: said, and does not decide."""
_OOM = {"oom", "oom_allocator", "oom_load", "oom_capture", "oom_sampler"}


def log_clues(case: Case) -> list[Clue]:
    """Every note of every log, the first failure of each log heaviest."""
    out: list[Clue] = []
    for file in case.files:
        log = file.log
        first = log.first_error
        seen: set[str] = set()
        for note in log.notes:
            if first is not None and note == first:
                continue
            past = log.ready and note.line < log.boot_line and note.phase in (Phase.LOAD, Phase.WARMUP)
            weigh = PAST if past else 0 if note.kind in seen else _after(note, first)
            out.append(_note(case, file, note, weigh))
            seen.add(note.kind)
        if first is not None:
            out.append(_note(case, file, first, weigh=100))
        out += _answers(file) + _waits(file)
    return out


def _waits(file: CaseFile) -> list[Clue]:
    """A log that ends in waiting ranks, with nothing after it: the server hangs, at its start or while serving."""
    waits = [note for note in file.log.notes if note.kind == "shm_wait"]
    last = max((mark.line for mark in file.log.phases), default=0)
    serving = any(row.line > waits[-1].line for row in file.log.stats) if waits else True
    if len(waits) < 3 or waits[-1].line < last or serving or file.log.first_error is not None:
        return []
    cause, phase = (Cause.SUSTAINED, Phase.SOAK) if file.log.ready else (Cause.ENVIRONMENT, Phase.WARMUP)
    why = "The log ends with ranks waiting for minutes and no progress after it: one rank hangs."
    place = (file.name, waits[-1].line, waits[-1].text, why)
    return [failing("hang", cause, phase, _REWORK, 48, *place)]


def _after(note: LogNote, first: LogNote | None) -> int:
    """Percent of a rule's weight for a note that is not the log's first failure."""
    if note.envelope:
        return 30
    return 70 if first is not None and note.line > first.line else 85


def _note(case: Case, file: CaseFile, note: LogNote, weigh: int) -> Clue:
    if note.family == "noise":
        return harmless(note.kind, _noise_phase(note), file.name, note.line, note.text, note.why)
    if note.family in ("fallback", "exposure"):
        return Clue(
            kind=note.kind, severity=Severity.WARN, file=file.name, line=note.line, text=note.text, why=note.why
        )
    if note.family == "degradation":
        return _weak(file, note)
    if note.family == "unknown":
        return _unknown(file, note, weigh)
    if note.kind in _OOM:
        return memory_clue(case, file, note, weigh)
    cause, phase = _placed(case, file, note)
    verdict = _VERDICTS.get(note.kind) or _BY_CAUSE.get(cause, _REWORK)
    weight = _WEIGHTS.get(note.kind, 95) * weigh // 100
    if note.envelope:
        weight, cause = min(weight, 40), cause if cause is not Cause.NONE else _after_ready(file, note)
        phase = _SERVING_PHASE.get(cause, Phase.LOAD)
    return failing(note.kind, cause, phase, verdict, weight, file.name, note.line, note.text, note.why)


def _placed(case: Case, file: CaseFile, note: LogNote) -> tuple[Cause, Phase]:
    """Cause and phase of a failure, seen with the rest of the case."""
    cause, phase = note.cause, note.phase
    early = phase in (Phase.LOAD, Phase.WARMUP)
    if note.kind in ("nccl_shm_full", "disk_full") and case.restarts() > 1:
        return Cause.SUSTAINED, Phase.SOAK
    if note.kind in ("illegal_access", "rpc_timeout", "nccl_watchdog", "connector") and early:
        cause = Cause.ENVIRONMENT
    if note.kind == "host_oom" and early and not case.restarts():
        cause = Cause.TOPOLOGY
    if note.kind in ("nccl_network", "nccl_peer", "nccl_shm") and phase is Phase.CONCURRENCY:
        return Cause.SUSTAINED if file.log.ready else cause, Phase.SOAK
    if note.kind in _PHASES and phase in (Phase.NA, Phase.LOAD):
        phase = _PHASES[note.kind]
    elif phase in (Phase.NA, Phase.CONCURRENCY):
        at_start = Phase.LOAD if cause in (Cause.ENVIRONMENT, Cause.TOPOLOGY) else Phase.NA
        phase = _SERVING_PHASE.get(cause, at_start if phase is Phase.NA else phase)
    return cause, phase


def _after_ready(file: CaseFile, note: LogNote) -> Cause:
    """An envelope alone: the start failed for an unseen reason, or the server died while serving."""
    starts = {"engine_init", "engine_start"}
    return Cause.ENVIRONMENT if note.kind in starts and not file.log.ready else Cause.SUSTAINED


def _weak(file: CaseFile, note: LogNote) -> Clue:
    weight = _WEAK_WEIGHTS.get(note.kind, 0)
    if note.kind == "shm_wait":
        weight = 15
    verdict = _VERDICTS.get(note.kind) or _BY_CAUSE.get(note.cause, _LIMITED)
    phase = note.phase if note.phase is not Phase.NA else _SERVING_PHASE.get(note.cause, Phase.NA)
    cause = note.cause if weight else Cause.NONE
    return failing(note.kind, cause, phase, verdict, weight, file.name, note.line, note.text, note.why)


_RAISED = (
    (("ImportError", "ModuleNotFoundError", "OSError", "CUDA", "driver", "cuInit"), Cause.ENVIRONMENT),
    (
        ("NotImplementedError", "AssertionError", "ValueError", "KeyError", "AttributeError", "IndexError"),
        Cause.TOPOLOGY,
    ),
)


def _unknown(file: CaseFile, note: LogNote, weigh: int) -> Clue:
    """An unexplained line. The one that ended a start is placed by what kind of exception it is; a warning never is."""
    why = "No rule explains this line; a named reviewer must."
    if note.level == "WARNING" or weigh != 100:
        return Clue(kind="unknown", severity=Severity.WARN, file=file.name, line=note.line, text=note.text, why=why)
    names = {mark.name for mark in file.log.phases}
    died = any(other.envelope for other in file.log.notes)
    if not died and (names & {"ready", "stats"} or "Error: " not in note.text):
        return Clue(kind="unknown", severity=Severity.WARN, file=file.name, line=note.line, text=note.text, why=why)
    serving = bool(names & {"ready", "stats"})
    cause = Cause.SUSTAINED
    if not serving:
        cause = next((c for parts, c in _RAISED if any(part in note.text for part in parts)), Cause.ENVIRONMENT)
    warm = bool(names & {"profile", "kv_cache", "capture", "warmup"})
    phase = Phase.SOAK if serving else Phase.WARMUP if warm else Phase.LOAD
    return failing("unknown", cause, phase, _REWORK, 45, file.name, note.line, note.text, why)


_WARM_NOISE = {"shm_wait", "graph_memory", "graph_mode", "autotune", "compile_cache", "padding"}


def _noise_phase(note: LogNote) -> Phase:
    if note.kind in _WARM_NOISE:
        return Phase.WARMUP
    return Phase.NA if note.kind in ("teardown", "request_error", "python_warning") else Phase.LOAD


_OURS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses", "/generate")


def _answers(file: CaseFile) -> list[Clue]:
    """Refused answers of the access log: paths that the server never had, and real ones."""
    out: list[Clue] = []
    served = file.log.answers_ok
    for count in file.log.http:
        text = f'"{count.method} {count.path}" {count.status}, {count.count} times'
        if count.status >= 500:
            many = count.path in _OURS and count.count * 50 > served
            why = "The server answered with an error."
            clue = failing(
                "server_errors",
                Cause.SUSTAINED,
                Phase.SOAK,
                _REWORK,
                40 if many else 10,
                file.name,
                count.line,
                text,
                why,
            )
            out.append(clue)
        elif count.path in _OURS:
            why = "Requests that the server refused; the answer's body says why."
            out.append(
                Clue(kind="refused", severity=Severity.WARN, file=file.name, line=count.line, text=text, why=why)
            )
        else:
            why = "A probe or browser asks for a path that the server does not have; leave it out of error rates."
            out.append(harmless("unserved_path", Phase.NA, file.name, count.line, text, why))
    return out

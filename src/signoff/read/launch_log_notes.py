"""Lines that want an explanation: matched by the rule table, grouped with their traceback, weighed by what follows."""

import re2

from signoff.core.words import Cause, Phase
from signoff.read.launch_log_rule import DEGRADATION, FAILURE, NOISE, Rule
from signoff.read.launch_log_rules_capacity import LAYOUT, MEMORY, WEIGHTS
from signoff.read.launch_log_rules_environment import COLLECTIVES, CUDA, HARDWARE, HOST
from signoff.read.launch_log_rules_noise import NOISE as NOISE_RULES
from signoff.read.launch_log_rules_noise import SPECIAL, WEAKNESSES
from signoff.read.launch_log_rules_serving import ENVELOPES, SERVING
from signoff.read.launch_log_scan import Line, options, pattern, spaced, texts
from signoff.read.launch_log_types import LogNote, PhaseMark

KNOWN_MAX = 4096
NOTES_MAX, NOISE_MAX, TEXT_MAX, FRAMES_MAX = 2000, 800, 500, 12
RULES: tuple[Rule, ...] = (
    *SPECIAL, *HARDWARE, *CUDA, *MEMORY, *WEIGHTS, *LAYOUT, *COLLECTIVES, *SERVING, *ENVELOPES, *NOISE_RULES,
    *WEAKNESSES, *HOST,
)  # fmt: skip
MARKERS = (
    r"\b(?:WARNING|WARN|ERROR|CRITICAL|FATAL)\b|\[[EWF]\d{3,4} |\[(?:error|crit|alert|emerg)\]|"
    r"Traceback \(most recent call last\)|\b[A-Z]\w*(?:Error|Exception|Timeout|Interrupt): |panicked at|core dumped"
)
_FRAME = pattern(
    r"(profile_run|profile_cudagraph|_dummy_run|_dummy_sampler_run|determine_available_memory|"
    r"determine_num_available_blocks|capture_model|kernel_warmup|compile_or_warm_up_model|load_model|load_weights|"
    r"safetensors_weights_iterator|init_device|init_worker_distributed_environment|execute_model|sample_tokens|"
    r"get_response|allocate_kv_cache|initialize_kv_cache|sampler|logits_sort|logits\.sort|create_weights)"
)
_LAST_LINE = re2.compile(
    r"^(?:\[rank\d+\]:? ?)?[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Timeout|Warning)?(?::|$)"
)
_ANSWERED = pattern(r"HTTP/[\d.]+\"? \d\d\d")
_ECHOES = (b"non-default args: ", b"with config", b"Received request ")
"""Echoed arguments and logged prompts: what they quote is not the server speaking. Nor are paths of the access log."""
_SPOKEN = {"shm_wait", "graph_memory", "autotune", "environment_name", "kv_scale"}
"""Noise that alarms people although its level is only INFO."""
_CARETS = re2.compile(r"^[\s~^]*$")


def _compiled() -> tuple[re2.Set, list[re2._Regexp | None]]:
    every = re2.Set.SearchSet(options())
    captures: list[re2._Regexp | None] = []
    for rule in RULES:
        every.Add(spaced(rule.pattern).encode())
        captures.append(pattern(rule.pattern) if "(?P<" in rule.pattern else None)
    every.Compile()
    return every, captures


_SET, _CAPTURES = _compiled()
_BEFORE_READY = {"start", "engine_init", "weights"}
_HANGS = {"rpc_timeout", "engine_fatal", "worker_died", "nccl_watchdog", "engine_dead", "start_timeout"}


def matched(data: bytes) -> tuple[Rule, dict[str, str]] | None:
    """The first rule of the table that matches, with its named figures."""
    hits = _SET.Match(data)
    if not hits:
        return None
    index = min(hits)
    values: dict[str, str] = {}
    capture = _CAPTURES[index]
    if capture is not None and (found := capture.search(data)):
        values = {name: value[:80] for name, value in texts(found).items()}
    return RULES[index], values


class Notes:
    """The notes taken so far, in file order."""

    def __init__(self) -> None:
        self.kept: list[LogNote] = []
        self.dropped = self._noise = 0
        self._known: dict[str, tuple[Rule, dict[str, str]] | None] = {}
        """Messages already matched; logs repeat them by the thousand."""
        self._frames: dict[str, list[str]] = {}
        self.open_traceback = False

    def take(self, line: Line) -> None:
        data = line.data
        if any(echo in data for echo in _ECHOES) or (b"HTTP/" in data and _ANSWERED.search(data)):
            return
        if line.message in self._known:
            found = self._known[line.message]
        else:
            found = matched(data)
            if len(self._known) < KNOWN_MAX:
                self._known[line.message] = found
        message = line.message
        quiet = line.level in ("INFO", "DEBUG")
        if found is not None and found[0].family == NOISE and quiet and found[0].kind not in _SPOKEN:
            return
        if found is None and self._in_traceback(line, message):
            return
        if found is None and line.level in ("", "INFO", "DEBUG") and not _LAST_LINE.match(message):
            return
        if found is None and line.level in ("INFO", "DEBUG"):
            return
        if found is not None and found[0].family != NOISE and message.startswith("  ") and found[0].envelope:
            return
        self._add(line, found)

    def _in_traceback(self, line: Line, message: str) -> bool:
        """Whether the line belongs to a traceback and says nothing by itself; its frames are kept for the last line."""
        header = "Traceback (most recent call last)" in message or "the following exception" in message
        inside = message.startswith("  ") and line.level in ("ERROR", "CRITICAL", "")
        blank = line.level == "ERROR" and (not message.strip() or bool(_CARETS.match(message)))
        if inside or header:
            frames = self._frames.setdefault(line.process, [])
            if (frame := _FRAME.search(line.data)) and len(frames) < FRAMES_MAX:
                name = frame[1].decode()
                frames.extend([name] if name not in frames else [])
        self.open_traceback = inside or header
        return inside or header or blank

    def _add(self, line: Line, found: tuple[Rule, dict[str, str]] | None) -> None:
        noise = found is not None and found[0].family == NOISE
        if len(self.kept) >= NOTES_MAX or (noise and self._noise >= NOISE_MAX):
            self.dropped += 1
            return
        self._noise += noise
        self.open_traceback = False
        values: dict[str, str] = dict(found[1]) if found else {}
        frames = self._frames.pop(line.process, None) if not noise else None
        if frames:
            values["frames"] = ",".join(frames)
        rule = found[0] if found else None
        self.kept.append(
            LogNote(
                line=line.number,
                text=line.text.strip()[:TEXT_MAX],
                process=line.process,
                level=line.level,
                kind=rule.kind if rule else "unknown",
                family=rule.family if rule else "unknown",
                cause=rule.cause if rule else Cause.NONE,
                phase=rule.phase if rule else Phase.NA,
                why=rule.why if rule else "",
                values=values,
                envelope=rule.envelope if rule else False,
            )
        )


def phase_before(line: int, marks: list[PhaseMark], frames: str) -> Phase:
    """Where a boot stood when a line was written, by the last mark before it, else by the traceback's frames."""
    last = ""
    for mark in marks:
        if mark.line > line:
            break
        last = mark.name
    if last in ("ready", "stats"):
        return Phase.CONCURRENCY
    warm = (
        "profile_run",
        "dummy",
        "capture_model",
        "determine_",
        "warm",
        "sampler",
        "logits",
        "allocate_kv",
        "cudagraph",
    )
    if any(part in frames for part in warm) or last in ("profile", "kv_cache", "capture", "warmup"):
        return Phase.WARMUP
    if "execute_model" in frames or "sample_tokens" in frames:
        return Phase.CONCURRENCY
    return Phase.LOAD if last in _BEFORE_READY or "load_" in frames else Phase.NA


def weighed(notes: list[LogNote], marks: list[PhaseMark]) -> list[LogNote]:
    """The notes again, each seen with what follows it: harmless when the server then came up, else a symptom."""
    ready = [mark.line for mark in marks if mark.name in ("ready", "stats")]
    starts = [mark.line for mark in marks if mark.name == "start"]
    mesh = [note.line for note in notes if note.kind in ("gloo_mesh", "rendezvous")]
    hangs = [note.line for note in notes if note.kind in _HANGS]
    out = []
    for note in notes:
        changes: dict[str, object] = {}
        if note.kind == "gloo_loopback" and any(line > note.line for line in mesh):
            changes = {"family": FAILURE, "cause": Cause.ENVIRONMENT, "phase": Phase.LOAD}
            changes["why"] = "Gloo took the loopback address, and ranks on another node could then not connect to it."
        elif note.kind == "shm_wait":
            later = min((line for line in hangs if line > note.line), default=0)
            if later and not any(note.line < line < later for line in ready):
                changes = {"family": DEGRADATION, "cause": Cause.SUSTAINED}
                changes["why"] = "A rank had stopped answering; the time-out that followed shows it."
        elif note.family == FAILURE and not note.envelope and note.level not in ("ERROR", "CRITICAL", "FATAL"):
            came_up = min((line for line in ready if line > note.line), default=0)
            if came_up and not any(note.line < line <= came_up for line in starts):
                changes = {"family": DEGRADATION, "cause": Cause.NONE}
                changes["why"] = f"{note.why} The server came up all the same."
        if note.phase is Phase.NA and note.family == FAILURE and not {"phase", "family"} & set(changes):
            changes["phase"] = phase_before(note.line, marks, note.values.get("frames", ""))
        out.append(_with(note, changes) if changes else note)
    return out


def _with(note: LogNote, changes: dict[str, object]) -> LogNote:
    fields = {name: getattr(note, name) for name in note.__struct_fields__}
    return LogNote(**{**fields, **changes})


def first_failure(notes: list[LogNote], from_line: int) -> LogNote | None:
    """The first real failure from a line on; an envelope or an unexplained error only when nothing better is there."""
    of_boot = [note for note in notes if note.line >= from_line]
    real = [note for note in of_boot if note.family == FAILURE and not note.envelope]
    if real:
        return real[0]
    unknown = [note for note in of_boot if note.kind == "unknown" and note.level in ("ERROR", "CRITICAL", "FATAL", "")]
    raised = [note for note in unknown if "Error: " in note.text or "Exception: " in note.text]
    wrapped = [note for note in of_boot if note.family == FAILURE]
    return next(iter([*raised, *wrapped, *unknown]), None)

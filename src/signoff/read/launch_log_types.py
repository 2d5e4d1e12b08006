"""The facts of a launch log, as frozen nouns. `read.launch_log` reads them and hands the names on."""

from msgspec import Struct

from signoff.core.words import Cause, Phase


class PhaseMark(Struct, frozen=True, kw_only=True):
    """The first line that shows a phase was reached."""

    name: str
    """`start`, `engine_init`, `weights`, `profile`, `kv_cache`, `capture`, `warmup`, `ready`, `stats`, `shutdown`."""
    line: int
    stamp: str = ""
    """`MM-DD HH:MM:SS` as logged, empty when the line has none."""


class Rank(Struct, frozen=True, kw_only=True):
    rank: int
    world_size: int
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    line: int


class LogNote(Struct, frozen=True, kw_only=True):
    """A line that wants an explanation, classified by what it says and by what follows it."""

    line: int
    text: str
    """The line, colours and control characters removed, to 500 characters."""
    process: str
    """`APIServer`, `EngineCore_DP0`, `Worker_TP3`, empty when the line names none."""
    level: str
    """`ERROR`, `WARNING`, `INFO`, empty for text without a level."""
    kind: str
    """Name of the rule that matched; `unknown` when none did."""
    family: str
    """`failure`, `fallback`, `degradation`, `exposure`, `noise`, `unknown`."""
    cause: Cause = Cause.NONE
    phase: Phase = Phase.NA
    why: str = ""
    """What it means, in a sentence; empty for unknown lines."""
    values: dict[str, str] = {}
    """Named figures of the rule (`needed_gib`, `code`), and `frames`: what the traceback above ran through."""
    envelope: bool = False
    """The line only says that something failed elsewhere; never a first error when another is there."""


class StatsLine(Struct, frozen=True, kw_only=True):
    """One periodic statistics line of the engine (vLLM or SGLang)."""

    line: int
    stamp: str
    engine: str
    running: int
    waiting: int
    kv_perc: float | None = None
    """0 to 100."""
    tokens: int | None = None
    """Tokens held, where the server prints them (SGLang)."""
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    hit_perc: float | None = None
    """0 to 100; `None`: the line has no hit-rate field, which is how a server with caching off prints."""
    preemptions: int | None = None


class RequestMark(Struct, frozen=True, kw_only=True):
    """A request was taken in or given up, as logged."""

    line: int
    stamp: str
    what: str
    """`added`, `aborted`, `finished`."""
    id: str


class HttpCount(Struct, frozen=True, kw_only=True):
    """Answers of the access log of one method, path and status."""

    method: str
    path: str
    status: int
    count: int
    line: int
    """Where the first one stands."""


class LaunchLog(Struct, frozen=True, kw_only=True):
    """What one log file says. `None` and empty mean that the log does not say."""

    lines: int
    boots: int
    """How many process starts the file holds; facts are of the last one."""
    boot_line: int = 1
    """Where the last boot begins."""
    version: str | None = None
    model: str | None = None
    architecture: str | None = None
    arguments: dict[str, str] = {}
    """`non-default args`, values as logged (Python repr)."""
    engine_config: dict[str, str] = {}
    """The `with config:` line, key to value as logged."""
    ranks: tuple[Rank, ...] = ()
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    nccl: tuple[str, ...] = ()
    """Distinct NCCL versions that were loaded."""
    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    prefix_caching: bool | None = None
    attention_block_tokens: int | None = None
    """`Setting attention block size to N tokens`: the prefix unit of a hybrid model."""
    attention_backend: str | None = None
    weights_gib: float | None = None
    weights_s: float | None = None
    load_s: float | None = None
    """`Model loading took ... seconds`."""
    compile_s: float | None = None
    capture_s: float | None = None
    engine_init_s: float | None = None
    kv_gib: float | None = None
    kv_tokens: int | None = None
    kv_concurrency: float | None = None
    """`Maximum concurrency for N tokens per request`."""
    phases: tuple[PhaseMark, ...] = ()
    notes: tuple[LogNote, ...] = ()
    """Every note, in file order; at most 2,000, the rest counted in `notes_dropped`."""
    notes_dropped: int = 0
    first_error: LogNote | None = None
    """The first failure of the last boot, not its envelope."""
    stats: tuple[StatsLine, ...] = ()
    """The periodic statistics, at most 20,000."""
    requests: tuple[RequestMark, ...] = ()
    """Requests given up and, when there are such, requests taken in; at most 20,000."""
    http: tuple[HttpCount, ...] = ()
    """Answers other than 2xx, by path without query; at most 500 kinds."""
    answers_ok: int = 0
    """Answers with status 200 in the access log."""
    ready: bool = False
    truncated: bool = False
    """The file begins or ends in the middle of a line or boot."""

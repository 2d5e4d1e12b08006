"""Facts of a launch log that a line states: identity, layout, phases, capacity, statistics, requests, answers."""

import re
from collections.abc import Callable

import re2

from signoff.read.launch_log_scan import Line, options, pattern, spaced, texts
from signoff.read.launch_log_types import HttpCount, PhaseMark, Rank, RequestMark, StatsLine

IDLE_MAX = 4096
_IDENTITY_WORDS = (b"version", b"LLM engine", b"model", b"args:", b"nccl==", b"world size", b"model_path")
ROWS_MAX, HTTP_KINDS_MAX, TEXT_MAX = 20_000, 500, 200

PHASES: tuple[tuple[str, str], ...] = (
    ("start", r"vLLM API server version|█ version \d|non-default args: \{|server_args=ServerArgs\("),
    ("engine_init", r"Initializing an? (?:V1 )?LLM engine"),
    ("weights", r"Starting to load model|Loading model from scratch|Loading safetensors checkpoint shards|"
                r"Loading (?:pt|bin) checkpoint shards|Load weight begin"),
    ("profile", r"[Mm]odel loading took [\d.]+|Load weight end|Loading model weights took"),
    ("kv_cache", r"Available KV cache memory: -?[\d.]+|KV cache size: [\d,]+ tokens|# (?:GPU|CUDA|cuda|CPU) blocks: \d"
                 r"|KV Cache is allocated|Memory pool end"),
    ("capture", r"Capturing (?:CUDA graphs?|cudagraphs|the model for CUDA graphs|batches)|Capture cuda graph begin"),
    ("warmup", r"Graph capturing finished in|Capture cuda graph end|[Aa]utotun(?:er|ing)\]?:? ?(?:Tuning|starts?|pro)|"
               r"init engine \(profile"),
    ("ready", r"Application startup complete|The server is fired up and ready|vLLM server is ready|"
              r"Uvicorn running on|(?:vllm|server|http)\S{0,30} listening on "),
    ("shutdown", r"Shutting down|\[shutdown\]|[Rr]eceived (?:signal[ =]?)?SIG(?:TERM|INT)|"
                 r"Application shutdown complete|signal=SIGTERM|shutting down gracefully"),
)  # fmt: skip
SERVED = r"Avg prompt throughput: |Decode batch[,.]? "
OTHERS = (
    r"rank \d+ in world size \d+ is assigned as |using nccl==|Resolved architecture: |Using max model len |"
    r"max_num_batched_tokens ?= ?\d|Setting attention block size to \d+|Loading weights took [\d.]+|"
    r"torch\.compile[^\n]{0,20} took [\d.]+|Using [\w ]+ attention backend|Using \w+ backend\.|"
    r"Maximum concurrency for [\d,]+ tokens|Aborted request|enable_prefix_caching ?= ?(?:True|False)"
)
REFUSED = r"HTTP/[\d.]+\"? ?[345]\d\d\b"

_VERSION = pattern(r"(?:version\s+|LLM engine \()v?(?P<version>\d[\w.+-]*)")
_MODEL = pattern(r"(?:model='|'model_tag': '|'model': '|█\s+model\s+|model_path=')(?P<model>[^'\s]+)")
_CONFIG_PAIR = pattern(r"(?:^|[\s(,{])(?P<key>[a-z_]\w*)=(?P<value>'[^']*'|\{[^{}]*\}|\[[^\]]*\]|[^,\s)]+)")
_ARGUMENT = pattern(
    r"'(?P<key>\w+)': (?P<value>'(?:[^'\\]|\\.)*'|\"[^\"]*\"|\[[^\]]*\]|\{[^{}]*\}|\w+\([^()]*\)|[^,{}\[\]]+)"
)
_RANK = pattern(
    r"rank (?P<rank>\d+) in world size (?P<world>\d+) is assigned as DP rank (?P<dp>\w+|N/A), PP rank (?P<pp>\w+|N/A),"
    r"(?: PCP rank \S+,)? TP rank (?P<tp>\w+|N/A)(?:, (?:ETP rank \S+, )?EP rank (?P<ep>\w+|N/A))?"
)
_NCCL = pattern(r"using nccl==(?P<version>[\w.+]+)")
_STATS = pattern(
    r"(?:Engine (?P<engine>\d+):|(?P<engines>\d+) Engines Aggregated:)?\s*"
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s,.*?Avg generation throughput: (?P<generation>[\d.]+) tokens/s,"
    r".*?Running: (?P<running>\d+) reqs,.*?(?:Waiting|Pending): (?P<waiting>\d+) reqs"
    r"(?:.*?Preemptions: (?P<preemptions>\d+))?(?:.*?KV cache usage: (?P<kv>[\d.]+)%)?"
    r"(?:.*?[^l] [Pp]refix cache hit rate: (?:GPU: )?(?P<hit>[\d.]+)%)?"
)
_DECODE = pattern(
    r"Decode batch[,.]? .*?#running-req: (?P<running>\d+)(?:.*?#(?:full )?token: (?P<tokens>\d+))?"
    r"(?:.*?token usage: (?P<usage>[\d.]+))?(?:.*?gen throughput \(token/s\): (?P<generation>[\d.]+))?"
    r"(?:.*?#queue-req: (?P<waiting>\d+))?"
)
_REQUEST = pattern(r"(?P<what>Added|Aborted) request(?:\(s\))?:? (?P<id>[\w.:/-]+)")
_HTTP = pattern(r"\"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+\"? (?P<status>\d\d\d)")
_NUMBERS: tuple[tuple[str, Callable[[str], float | int | str | bool], str], ...] = (
    ("architecture", str, r"Resolved architectures?: (\w+)"),
    ("max_model_len", int, r"Using max model len (\d+)"),
    ("max_num_batched_tokens", int, r"max_num_batched_tokens ?= ?(\d+)"),
    ("attention_block_tokens", int, r"Setting attention block size to (\d+) tokens"),
    ("weights_gib", float, r"[Mm]odel loading took ([\d.]+) (?:GiB|GB)"),
    ("load_s", float, r"[Mm]odel loading took [\d.]+ (?:GiB|GB)(?: memory)? and ([\d.]+) s"),
    ("weights_s", float, r"Loading weights took ([\d.]+) s"),
    ("compile_s", float, r"torch\.compile[^\n]{0,20} took ([\d.]+) s"),
    ("capture_s", float, r"Graph capturing finished in ([\d.]+) s"),
    ("engine_init_s", float, r"init engine \(profile[^)]*\) took ([\d.]+) s"),
    ("kv_gib", float, r"Available KV cache memory: (-?[\d.]+) GiB"),
    ("kv_tokens", lambda text: int(text.replace(",", "")), r"KV cache size: ([\d,]+) tokens"),
    ("kv_concurrency", float, r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"),
    ("attention_backend", str, r"Using ([\w ]+?) (?:attention )?backend(?: out of|\.)"),
    ("prefix_caching", lambda text: text == "True", r"enable_prefix_caching ?= ?(True|False)"),
)
_CAPTURES = [re.compile(spaced(text).encode()) for _, _, text in _NUMBERS]  # short and bounded: quicker than re2


def _which() -> re2.Set:
    """Says of one line which phases and numbers it states, in one pass."""
    made = re2.Set.SearchSet(options(64))
    for _, text in (*PHASES, *((name, text) for name, _, text in _NUMBERS)):
        made.Add(spaced(text).encode())
    made.Compile()
    return made


_WHICH = _which()


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 12 else None


def _number(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        return None


class Facts:
    """What has been read so far of the boot in hand, and what runs through all boots."""

    def __init__(self) -> None:
        self.boots, self.boot_line, self.args_seen, self.version_seen = 0, 1, False, False
        self.stats: list[StatsLine] = []
        self.requests: list[RequestMark] = []
        self.http: dict[tuple[str, str, int], list[int]] = {}
        self.marks: list[PhaseMark] = []
        """Every mark of every boot, in file order."""
        self.boot_mark = 0
        self._idle: set[str] = set()
        """Messages that state nothing; logs repeat them by the thousand."""
        self._clear()

    def _clear(self) -> None:
        self.scalars: dict[str, float | int | str | bool] = {}
        self._args_line = self._config_line = b""
        self.ranks: dict[int, Rank] = {}
        self.nccl: dict[str, None] = {}
        self.seen: set[str] = set()

    def take(self, line: Line) -> None:
        data = line.data
        if b"throughput" in data or b"Decode batch" in data:
            self._mark("stats", line)
            self._statistics(line)
        elif b"request" in data and self.request(line):
            return
        elif b"HTTP/" in data and (found := _HTTP.search(data)):
            got = texts(found)
            key = (got["method"], got["path"].split("?")[0][:TEXT_MAX], int(got["status"]))
            if key in self.http:
                self.http[key][0] += 1
            elif len(self.http) < HTTP_KINDS_MAX:
                self.http[key] = [1, line.number]
        elif line.message not in self._idle:
            hits = sorted(_WHICH.Match(data) or ())
            if hits and hits[0] < len(PHASES):
                self._phase(PHASES[hits[0]][0], line)
            if not self._identity(line) and not hits and len(self._idle) < IDLE_MAX:
                self._idle.add(line.message)
            for index in hits:
                if index >= len(PHASES):
                    self._put(index - len(PHASES), data)

    def request(self, line: Line) -> bool:
        """Takes a request taken in or given up; whether the line is about one."""
        found = _REQUEST.search(line.data)
        if found is not None and len(self.requests) < ROWS_MAX:
            got = texts(found)
            name = got["id"].rstrip(".")[:TEXT_MAX]
            self.requests.append(RequestMark(line=line.number, stamp=line.stamp, what=got["what"].lower(), id=name))
        return found is not None

    def _put(self, index: int, data: bytes) -> None:
        name, kind, _ = _NUMBERS[index]
        found = None if name in self.scalars else _CAPTURES[index].search(data)  # the first says it: ranks repeat it
        if found is None or len(found[1]) > TEXT_MAX:
            return
        try:
            self.scalars[name] = kind(found[1].decode("utf-8", "replace"))
        except ValueError:
            return

    def _phase(self, name: str, line: Line) -> None:
        if name == "start":
            self._start(line)
        self._mark(name, line)

    def _start(self, line: Line) -> None:
        is_args = "non-default args" in line.text
        again = self.args_seen if is_args else self.version_seen
        if self.boots == 0 or again or "ready" in self.seen:
            if self.boots:
                self._clear()
            self.boots += 1
            self.boot_line, self.boot_mark = line.number, len(self.marks)
            self.args_seen = self.version_seen = False
        self.args_seen |= is_args
        self.version_seen |= not is_args

    def _mark(self, name: str, line: Line) -> None:
        if name not in self.seen:
            self.seen.add(name)
            self.marks.append(PhaseMark(name=name, line=line.number, stamp=line.stamp))

    def _identity(self, line: Line) -> bool:
        """Takes what the line says of version, model, arguments, configuration, ranks; whether it speaks of any."""
        data = line.data
        if not any(word in data for word in _IDENTITY_WORDS):
            return False
        versioned = b"API server version" in data or b"LLM engine" in data or "█" in line.text
        if versioned and "version" not in self.scalars and (found := _VERSION.search(data)):
            self.scalars.setdefault("version", texts(found)["version"][:TEXT_MAX])
        if "model" not in self.scalars and b"model" in data and (found := _MODEL.search(data)):
            self.scalars.setdefault("model", texts(found)["model"][:TEXT_MAX])
        if b"non-default args:" in data:
            self._args_line = data
        if b"LLM engine" in data and b"config:" in data:
            self._config_line = data
        if b"nccl==" in data and (found := _NCCL.search(data)):
            self.nccl[texts(found)["version"][:40]] = None
        if b"world size" in data and (found := _RANK.search(data)):
            got = texts(found)
            rank = _whole(got["rank"])
            if rank is not None and len(self.ranks) < 4096:
                sizes = {name: _whole(got.get(name)) for name in ("tp", "pp", "dp", "ep")}
                self.ranks[rank] = Rank(rank=rank, world_size=_whole(got["world"]) or 0, line=line.number, **sizes)
        return True

    def _statistics(self, line: Line) -> None:
        if len(self.stats) >= ROWS_MAX:
            return
        found = _STATS.search(line.data) or _DECODE.search(line.data)
        if found is None:
            return
        got = texts(found)
        usage = _number(got.get("usage"))
        self.stats.append(
            StatsLine(
                line=line.number,
                stamp=line.stamp,
                engine=got.get("engine", ""),
                running=_whole(got.get("running")) or 0,
                waiting=_whole(got.get("waiting")) or 0,
                kv_perc=_number(got.get("kv")) if usage is None else usage * 100,
                tokens=_whole(got.get("tokens")),
                prompt_tokens_per_s=_number(got.get("prompt")),
                generation_tokens_per_s=_number(got.get("generation")),
                hit_perc=_number(got.get("hit")),
                preemptions=_whole(got.get("preemptions")),
            )
        )

    def arguments(self) -> dict[str, str]:
        """The last boot's `non-default args`."""
        found = _ARGUMENT.finditer(self._args_line.partition(b"non-default args:")[2])
        return {got["key"]: got.get("value", "").strip()[:TEXT_MAX] for got in map(texts, found)}

    def config(self) -> dict[str, str]:
        """The last boot's engine configuration."""
        found = _CONFIG_PAIR.finditer(self._config_line.partition(b"config:")[2])
        return {got["key"]: got.get("value", "").rstrip(",")[:TEXT_MAX] for got in map(texts, found)}

    def answers(self) -> tuple[HttpCount, ...]:
        return tuple(
            HttpCount(method=method, path=path, status=status, count=count, line=line)
            for (method, path, status), (count, line) in self.http.items()
        )

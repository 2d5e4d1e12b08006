"""Facts of a launch log that a line states: identity, layout, phases, capacity, statistics, requests, answers."""

from collections.abc import Callable

import re2

from signoff.read.launch_log_scan import Line, spaced
from signoff.read.launch_log_types import HttpCount, PhaseMark, Rank, RequestMark, StatsLine

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
              r"Uvicorn running on"),
    ("shutdown", r"Shutting down|\[shutdown\]|[Rr]eceived (?:signal[ =]?)?SIG(?:TERM|INT)|"
                 r"Application shutdown complete|signal=SIGTERM|shutting down gracefully"),
)  # fmt: skip
SERVED = r"Avg prompt throughput: |Decode batch[,.]? "
OTHERS = (
    r"rank \d+ in world size \d+ is assigned as |using nccl==|Resolved architecture: |Using max model len |"
    r"max_num_batched_tokens ?= ?\d|Setting attention block size to \d+|Loading weights took [\d.]+|"
    r"torch\.compile[^\n]{0,20} took [\d.]+|Using [\w ]+ attention backend|Using \w+ backend\.|"
    r"Aborted request|Added request |enable_prefix_caching ?= ?(?:True|False)"
)
REFUSED = r"HTTP/[\d.]+\"? ?[345]\d\d\b"

_PHASE = [(name, re2.compile(spaced(pattern))) for name, pattern in PHASES]
_VERSION = re2.compile(r"(?:version\s+|LLM engine \()v?(?P<version>\d[\w.+-]*)")
_MODEL = re2.compile(r"(?:model='|'model_tag': '|'model': '|█\s+model\s+|model_path=')(?P<model>[^'\s]+)")
_CONFIG_PAIR = re2.compile(r"(?:^|[\s(,{])(?P<key>[a-z_]\w*)=(?P<value>'[^']*'|\{[^{}]*\}|\[[^\]]*\]|[^,\s)]+)")
_ARGUMENT = re2.compile(
    r"'(?P<key>\w+)': (?P<value>'(?:[^'\\]|\\.)*'|\"[^\"]*\"|\[[^\]]*\]|\{[^{}]*\}|\w+\([^()]*\)|[^,{}\[\]]+)"
)
_RANK = re2.compile(
    r"rank (?P<rank>\d+) in world size (?P<world>\d+) is assigned as DP rank (?P<dp>\w+|N/A), PP rank (?P<pp>\w+|N/A),"
    r"(?: PCP rank \S+,)? TP rank (?P<tp>\w+|N/A)(?:, (?:ETP rank \S+, )?EP rank (?P<ep>\w+|N/A))?"
)
_NCCL = re2.compile(r"using nccl==(?P<version>[\w.+]+)")
_STATS = re2.compile(
    r"(?:Engine (?P<engine>\d+):|(?P<engines>\d+) Engines Aggregated:)?\s*"
    r"Avg prompt throughput: (?P<prompt>[\d.]+) tokens/s,.*?Avg generation throughput: (?P<generation>[\d.]+) tokens/s,"
    r".*?Running: (?P<running>\d+) reqs,.*?(?:Waiting|Pending): (?P<waiting>\d+) reqs"
    r"(?:.*?Preemptions: (?P<preemptions>\d+))?(?:.*?KV cache usage: (?P<kv>[\d.]+)%)?"
    r"(?:.*?[^l] [Pp]refix cache hit rate: (?:GPU: )?(?P<hit>[\d.]+)%)?"
)
_DECODE = re2.compile(
    r"Decode batch[,.]? .*?#running-req: (?P<running>\d+)(?:.*?#(?:full )?token: (?P<tokens>\d+))?"
    r"(?:.*?token usage: (?P<usage>[\d.]+))?(?:.*?gen throughput \(token/s\): (?P<generation>[\d.]+))?"
    r"(?:.*?#queue-req: (?P<waiting>\d+))?"
)
_REQUEST = re2.compile(r"(?P<what>Added|Aborted) request(?:\(s\))?:? (?P<id>[\w.:/-]+)")
_HTTP = re2.compile(r"\"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+\"? (?P<status>\d\d\d)")
_NUMBERS: tuple[tuple[str, Callable[[str], float | int | str | bool], re2._Regexp], ...] = tuple(
    (name, kind, re2.compile(spaced(pattern)))
    for name, kind, pattern in (
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
)
_CONFIG_SIZES = (("tp", "tensor_parallel_size"), ("pp", "pipeline_parallel_size"), ("dp", "data_parallel_size"))


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdigit() and len(text) < 12 else None


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
        self._clear()

    def _clear(self) -> None:
        self.scalars: dict[str, float | int | str | bool] = {}
        self.arguments: dict[str, str] = {}
        self.config: dict[str, str] = {}
        self.ranks: dict[int, Rank] = {}
        self.nccl: dict[str, None] = {}
        self.seen: set[str] = set()

    def take(self, line: Line) -> None:
        text = line.text
        self._phase(line)
        if "throughput" in text or "Decode batch" in text:
            self._statistics(line)
        elif "request" in text and (found := _REQUEST.search(text)) and len(self.requests) < ROWS_MAX:
            what = found["what"].lower()
            self.requests.append(
                RequestMark(line=line.number, stamp=line.stamp, what=what, id=found["id"].rstrip(".")[:TEXT_MAX])
            )
        elif "HTTP/" in text and (found := _HTTP.search(text)):
            key = (found["method"], found["path"].split("?")[0][:TEXT_MAX], int(found["status"]))
            if key in self.http:
                self.http[key][0] += 1
            elif len(self.http) < HTTP_KINDS_MAX:
                self.http[key] = [1, line.number]
        else:
            self._identity(line)
            for name, kind, pattern in _NUMBERS:
                if found := pattern.search(text):
                    self._put(name, kind, found[1])

    def _put(self, name: str, kind: Callable[[str], float | int | str | bool], text: str) -> None:
        if name in self.scalars or len(text) > TEXT_MAX:  # the first says it: other ranks repeat it
            return
        try:
            self.scalars[name] = kind(text)
        except ValueError:
            return

    def _phase(self, line: Line) -> None:
        if "throughput" in line.text or "Decode batch" in line.text:
            self._mark("stats", line)
            return
        for name, pattern in _PHASE:
            if pattern.search(line.text):
                if name == "start":
                    self._start(line)
                self._mark(name, line)
                return

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

    def _identity(self, line: Line) -> None:
        text = line.text
        if (found := _VERSION.search(text)) and ("█" in text or "API server version" in text or "LLM engine" in text):
            self.scalars.setdefault("version", found["version"][:TEXT_MAX])
        if found := _MODEL.search(text):
            self.scalars.setdefault("model", found["model"][:TEXT_MAX])
        if "non-default args:" in text:
            part = text.partition("non-default args:")[2]
            self.arguments |= {m["key"]: m["value"].strip()[:TEXT_MAX] for m in _ARGUMENT.finditer(part)}
        if "LLM engine" in text and "config:" in text:
            part = text.partition("config:")[2]
            self.config |= {m["key"]: m["value"].rstrip(",")[:TEXT_MAX] for m in _CONFIG_PAIR.finditer(part)}
        if found := _NCCL.search(text):
            self.nccl[found["version"][:40]] = None
        if (found := _RANK.search(text)) and (rank := _whole(found["rank"])) is not None and len(self.ranks) < 4096:
            self.ranks[rank] = Rank(
                rank=rank,
                world_size=_whole(found["world"]) or 0,
                tp=_whole(found["tp"]),
                pp=_whole(found["pp"]),
                dp=_whole(found["dp"]),
                ep=_whole(found["ep"]),
                line=line.number,
            )

    def _statistics(self, line: Line) -> None:
        if len(self.stats) >= ROWS_MAX:
            return
        if found := _STATS.search(line.text):
            self.stats.append(
                StatsLine(
                    line=line.number,
                    stamp=line.stamp,
                    engine=found["engine"] or "",
                    running=_whole(found["running"]) or 0,
                    waiting=_whole(found["waiting"]) or 0,
                    kv_perc=_number(found["kv"]),
                    prompt_tokens_per_s=_number(found["prompt"]),
                    generation_tokens_per_s=_number(found["generation"]),
                    hit_perc=_number(found["hit"]),
                    preemptions=_whole(found["preemptions"]),
                )
            )
        elif found := _DECODE.search(line.text):
            usage = _number(found["usage"])
            self.stats.append(
                StatsLine(
                    line=line.number,
                    stamp=line.stamp,
                    engine="",
                    running=_whole(found["running"]) or 0,
                    waiting=_whole(found["waiting"]) or 0,
                    kv_perc=None if usage is None else usage * 100,
                    tokens=_whole(found["tokens"]),
                    generation_tokens_per_s=_number(found["generation"]),
                )
            )

    def layout(self, name: str, config_key: str) -> int | None:
        """A parallel size: as the engine resolved it, else as it was asked for."""
        return _whole(self.config.get(config_key)) or _whole(self.arguments.get(config_key))

    def sizes(self) -> dict[str, int | None]:
        return {name: self.layout(name, key) for name, key in _CONFIG_SIZES}

    def answers(self) -> tuple[HttpCount, ...]:
        return tuple(
            HttpCount(method=method, path=path, status=status, count=count, line=line)
            for (method, path, status), (count, line) in self.http.items()
        )

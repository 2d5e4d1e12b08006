"""The result of a load test by another tool: vllm bench (text and JSON), and JSON of the same kind.

Names are brought to one form, unit last: `ttft_ms_p99`, `output_tokens_per_s`. Such a result says nothing about
what the server answered; it is second-class evidence.
"""

from collections.abc import Mapping

import msgspec
import re2
from msgspec import Struct

BYTES_MAX, VALUES_MAX = 64 << 20, 2000


class Benchmark(Struct, frozen=True, kw_only=True):
    """Figures by name; empty when the text is no result."""

    tool: str = ""
    """`vllm bench` or `json`."""
    values: Mapping[str, float] = {}
    texts: Mapping[str, str] = {}
    lines: Mapping[str, int] = {}
    """Where each figure stands."""


_ROW = re2.compile(
    r"^\s*(?P<label>[A-Z][\w ().,/-]*?)\s*(?P<unit>\([^)]*\))?:\s+(?P<value>-?[\d.]+(?:e[+-]?\d+)?|inf|nan)\s*$"
)
_STATISTIC = re2.compile(r"^(?P<statistic>mean|median|std|p\d+(?:\.\d+)?)[_ ](?P<what>ttft|tpot|itl|e2el)(?:_ms)?$")
_REVERSED = re2.compile(
    r"^(?P<what>ttft|tpot|itl|e2el|latency)_?(?P<unit>ms|s)?_(?P<statistic>mean|median|p\d+)(?:_ms|_s)?$"
)
_NAMES = {
    "successful requests": "requests_ok",
    "completed": "requests_ok",
    "failed requests": "requests_failed",
    "failed": "requests_failed",
    "num_prompts": "requests",
    "requests": "requests",
    "benchmark duration": "duration_s",
    "duration": "duration_s",
    "total input tokens": "input_tokens",
    "total_input_tokens": "input_tokens",
    "total generated tokens": "output_tokens",
    "total_output_tokens": "output_tokens",
    "request throughput": "requests_per_s",
    "request_throughput": "requests_per_s",
    "output token throughput": "output_tokens_per_s",
    "output_throughput": "output_tokens_per_s",
    "total token throughput": "tokens_per_s",
    "total_token_throughput": "tokens_per_s",
    "max_concurrency": "concurrency",
    "maximum request concurrency": "concurrency",
    "peak concurrent requests": "concurrency_peak",
    "kv_cache_tokens": "kv_tokens",
    "num_preemptions": "preemptions",
    "preemption_count": "preemptions",
}


def read_benchmark(raw: bytes) -> Benchmark:
    """The figures of a result; any bytes are accepted."""
    raw = raw[:BYTES_MAX]
    if raw.lstrip()[:1] == b"{":
        return _json(raw)
    text = raw.decode("utf-8", "replace")
    if "Benchmark" not in text and "TTFT" not in text and "Request throughput" not in text:
        return Benchmark()
    values: dict[str, float] = {}
    lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if (found := _ROW.match(line)) and len(values) < VALUES_MAX:
            name = _named(found["label"])
            try:
                values.setdefault(name, float(found["value"]))
            except ValueError:
                continue
            lines.setdefault(name, number)
    return Benchmark(tool="vllm bench" if len(values) > 3 else "", values=values, lines=lines)


def _json(raw: bytes) -> Benchmark:
    try:
        found = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return Benchmark()
    if not isinstance(found, dict):
        return Benchmark()
    values: dict[str, float] = {}
    texts: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key, value in list(found.items())[:VALUES_MAX]:
        if isinstance(value, bool):
            continue
        name = _named(str(key))
        if isinstance(value, int | float):
            values[name] = float(value)
            at = raw.find(b'"' + str(key).encode("utf-8", "replace") + b'"')
            lines[name] = raw.count(b"\n", 0, max(at, 0)) + 1
        elif isinstance(value, str):
            texts[name] = value[:200]
    marks = ("ttft_ms_p99", "ttft_ms_median", "ttft_ms_mean", "ttft_ms_p50", "output_tokens_per_s", "requests_per_s")
    return (
        Benchmark(tool="json", values=values, texts=texts, lines=lines)
        if any(m in values for m in marks)
        else Benchmark()
    )


def _named(label: str) -> str:
    low = label.strip().lower()
    if low in _NAMES:
        return _NAMES[low]
    if found := _STATISTIC.match(low):
        return f"{found['what']}_ms_{found['statistic']}"
    if found := _REVERSED.match(low):
        return f"{found['what']}_{found['unit'] or 'ms'}_{found['statistic']}"
    return low.replace(" ", "_").replace("-", "_")[:100]

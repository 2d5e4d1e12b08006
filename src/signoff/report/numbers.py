"""How a measured value is written: the one place where a number gets its unit, its digits and its interval.

The unit stands in the name (`ttft_ms_p99`, `weights_gib`, `error_share`), so a value needs no table to be shown.
"""

import math
from collections.abc import Mapping

from signoff.core.evidence import Value
from signoff.core.instants import iso_utc

MISSING = "—"
TEXT_MAX = 1200
"""Characters of a foreign text that a report shows."""
_MINUS = "\u2212"
_NBSP = "\u00a0"
_STATISTICS = {"p50", "p90", "p95", "p99", "mean", "median", "min", "max", "low", "high", "sum", "total", "peak"}
_STATISTICS |= {
    "measured",
    "high_water",
    "before",
    "after",
    "first",
    "last",
    "target",
    "floor",
    "limit",
    "cold",
    "warm",
}
_PLAIN_UNITS = {
    "tokens": "tokens", "requests": "requests", "gpus": "GPUs", "streams": "streams", "blocks": "blocks",
    "days": "d", "hours": "h", "minutes": "min", "us": "µs", "celsius": "°C", "watts": "W",
    "mhz": "MHz", "gbps": "Gbit/s",
}  # fmt: skip
_SAID_BY_LABEL = {"tokens", "requests", "gpus", "streams", "blocks"}
_SHARES = {"share", "ratio", "usage", "fraction", "rate"}
_BYTES = {"bytes": 0, "kib": 1, "mib": 2, "gib": 3, "tib": 4}
_ACRONYMS = {
    part: part.upper() for part in ("ttft", "itl", "kv", "gpu", "cpu", "cuda", "nccl", "url", "id", "http", "tp")
}
_ACRONYMS |= {"e2e": "end to end", "gpus": "GPUs", "xid": "Xid", "vllm": "vLLM"}
_SCALES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def unit_of(name: str) -> str:
    """The unit that `name` carries: the last part that is one, statistics like `p99` skipped; empty when none."""
    parts = name.split("_")
    if parts[0] == "kv" and len(parts) > 1 and parts[-1] not in {"tokens", "blocks", *_BYTES}:
        return "usage"  # vLLM tells cache use as a share
    while len(parts) > 1 and (parts[-1] in _STATISTICS or parts[-1].isdigit()):
        parts.pop()
    if parts[-2:] == ["per", "s"]:
        return "per_s"
    if parts[-2:] == ["per", "hour"]:
        return "per_hour"
    last = parts[-1]
    known = last in _PLAIN_UNITS or last in _BYTES or last in _SHARES or last in {"ms", "s", "ns", "percent"}
    return last if known else ""


def label_of(name: str) -> str:
    """`name` as words, its unit left out: `queue_ms_p99` is `queue p99`."""
    unit = unit_of(name)
    parts = base_of(name).split("_")
    if unit in {"ms", "s", "ns", "us", "percent", *_BYTES} and unit in parts and len(parts) > 1:
        parts.remove(unit)
    return " ".join(_ACRONYMS.get(part, part) for part in parts)


def quantity(name: str, value: Value) -> str:
    """`value` with the unit that `name` carries."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]} …"
    if isinstance(value, float) and not math.isfinite(value):
        return MISSING
    unit = unit_of(name)
    if unit in _SHARES and 0 <= value <= 1:
        return percent(value)
    if unit == "percent":
        return f"{digits(value)}{_NBSP}%"
    if unit in {"ms", "s", "ns"}:
        return duration(value / {"s": 1, "ms": 1e3, "ns": 1e9}[unit])
    if unit in _BYTES:
        return size(value, _BYTES[unit])
    if unit in {"per_s", "per_hour"}:
        return f"{digits(value)}{_NBSP}/{'s' if unit == 'per_s' else 'h'}"
    if unit in _PLAIN_UNITS:
        return f"{digits(value)}{_NBSP}{_PLAIN_UNITS[unit]}"
    return digits(value)


def beside_label(name: str, value: Value) -> str:
    """As `quantity`, but without a unit that `label_of` says already: tokens, requests, rounds."""
    if unit_of(name) in _SAID_BY_LABEL and isinstance(value, int | float) and not isinstance(value, bool):
        return digits(value) if math.isfinite(value) else MISSING
    return quantity(name, value)


def interval(name: str, values: Mapping[str, Value]) -> str:
    """The interval of `values[name]`, empty when none stands beside it."""
    ends = bounds_of(name, values)
    if ends is None or values.get(name) is None:
        return ""
    low, high = (None if values[end] is None else beside_label(name, values[end]) for end in ends)
    if low and high:
        return f"{low} – {high}"
    return f"≥ {low}" if low else (f"≤ {high}" if high else "")


def base_of(name: str) -> str:
    """The name that intervals and limits of `name` go by: `ttft_ms_p99_measured` is `ttft_ms_p99`."""
    return name.removesuffix("_measured")


def bounds_of(name: str, values: Mapping[str, Value]) -> tuple[str, str] | None:
    """The names of the interval's ends that stand beside `values[name]`: of the name itself, its base or its unit."""
    for stem in (name, base_of(name), unit_of(name)):
        if stem and f"{stem}_low" in values and f"{stem}_high" in values:
            return f"{stem}_low", f"{stem}_high"
    return None


def with_interval(name: str, values: Mapping[str, Value]) -> str:
    """`values[name]`, followed by its interval when both ends stand beside it."""
    told = interval(name, values)
    return beside_label(name, values.get(name)) + (f" ({told})" if told else "")


def is_empty(name: str, value: Value) -> bool:
    """Whether a value says nothing: an empty text, or an absent one that is no measurement."""
    return value == "" or (value is None and not unit_of(name))


def digits(value: float) -> str:
    """At most three significant digits after the decimal point's need, whole numbers whole, thousands grouped."""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}".replace("-", _MINUS)
    size_ = abs(value)
    if size_ >= 1000:
        text = f"{value:,.0f}"
    elif size_ >= 100:
        text = f"{value:.0f}"
    elif size_ >= 0.001:
        text = f"{value:.3g}"
    else:
        text = f"{value:.2e}"
    return text.replace("-", _MINUS)


def percent(share: float) -> str:
    """A share of 0 to 1 as percent; small shares keep two digits, and nothing below 1 rounds up to all."""
    hundredths = share * 100
    if hundredths in (0, 100):
        return f"{int(hundredths)}{_NBSP}%"
    if hundredths >= 99.95:
        return f">{_NBSP}99.9{_NBSP}%"
    return f"{hundredths:.2g}{_NBSP}%" if hundredths < 9.95 else f"{hundredths:.1f}".removesuffix(".0") + f"{_NBSP}%"


def duration(seconds: float) -> str:
    """Seconds in the unit that reads best."""
    span = abs(seconds)
    if span == 0:
        return f"0{_NBSP}s"
    if span < 1e-3:
        return f"{digits(seconds * 1e6)}{_NBSP}µs"
    if span < 1:
        return f"{digits(seconds * 1e3)}{_NBSP}ms"
    if span < 120:
        return f"{digits(float(f'{seconds:.4g}'))}{_NBSP}s"
    minutes, rest = divmod(round(span), 60)
    hours, minutes = divmod(minutes, 60)
    sign = _MINUS if seconds < 0 else ""
    if hours:
        return f"{sign}{hours:,}{_NBSP}h" + (f" {minutes}{_NBSP}min" if minutes else "")
    return f"{sign}{minutes}{_NBSP}min" + (f" {rest}{_NBSP}s" if rest else "")


def size(value: float, power: int = 0) -> str:
    """`value` times 1024**power bytes."""
    while abs(value) >= 1024 and power < len(_SCALES) - 1:
        value, power = value / 1024, power + 1
    return f"{digits(value)}{_NBSP}{_SCALES[power]}"


def instant(unix_ns: int) -> str:
    """`2026-12-01 03:41:07 UTC` of Unix nanoseconds."""
    return iso_utc(unix_ns).replace("T", " ").replace("Z", " UTC")


def short_digest(text: str) -> str:
    """The first twelve hex digits of a digest, for the eye; the whole stands in the bundle."""
    scheme, _, rest = text.rpartition(":")
    return f"{scheme}:{rest[:12]}…" if scheme and len(rest) > 12 else (f"{text[:12]}…" if len(text) > 12 else text)

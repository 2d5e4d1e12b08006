"""Metric families and their text, as a Python server's Prometheus client writes them, `_created` gauges included."""

import bisect
import time
from collections.abc import Callable, Sequence

Labels = tuple[tuple[str, str], ...]


def labels(**pairs: str) -> Labels:
    return tuple(sorted(pairs.items()))


def number(value: float) -> str:
    """A sample value as Go and the Python client write it: `1.0`, `1.8e+09`, `+Inf`."""
    if value in (float("inf"), float("-inf")) or value != value:
        return {float("inf"): "+Inf", float("-inf"): "-Inf"}.get(value, "NaN")
    text = repr(float(value))
    point = text.find(".")
    if value > 0 and point > 6 and "e" not in text:
        digits = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{digits}e+0{point - 1}" if point < 11 else f"{digits}e+{point - 1}"
    return text


def _series(name: str, pairs: Labels, value: float) -> str:
    inner = ",".join(
        f'{key}="{text}"'
        for key, text in ((k, v.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')) for k, v in pairs)
    )
    return f"{name}{{{inner}}} {number(value)}" if inner else f"{name} {number(value)}"


class Family:
    """A gauge or counter with labels. A counter is named without `_total` and shown with it, as the client does."""

    def __init__(self, name: str, kind: str, says: str, *known: Labels) -> None:
        self.name, self.kind, self.says = name, kind, says
        self.values: dict[Labels, float] = dict.fromkeys(known, 0.0)
        self.created: dict[Labels, float] = dict.fromkeys(known, time.time())

    def add(self, amount: float, pairs: Labels) -> None:
        if pairs not in self.values:
            self.values[pairs], self.created[pairs] = 0.0, time.time()
        self.values[pairs] += amount

    def set(self, value: float, pairs: Labels) -> None:
        self.values[pairs] = value

    def lines(self) -> list[str]:
        shown = self.name + "_total" if self.kind == "counter" else self.name
        made = [f"# HELP {shown} {self.says}", f"# TYPE {shown} {self.kind}"]
        made += [_series(shown, pairs, value) for pairs, value in self.values.items()]
        if self.kind == "counter" and self.created:
            made += created_lines(self.name, self.says, self.created)
        return made


def created_lines(name: str, says: str, created: dict[Labels, float]) -> list[str]:
    made = [f"# HELP {name}_created {says}", f"# TYPE {name}_created gauge"]
    return made + [_series(f"{name}_created", pairs, at) for pairs, at in created.items()]


class Histogram:
    """A histogram with one upper bound list for all its labels; bounds exclude infinity."""

    def __init__(self, name: str, says: str, bounds: Sequence[float], *known: Labels) -> None:
        self.name, self.says, self.bounds = name, says, tuple(bounds)
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}
        self.created: dict[Labels, float] = {}
        for pairs in known:
            self._open(pairs)

    def _open(self, pairs: Labels) -> None:
        self.counts[pairs] = [0] * (len(self.bounds) + 1)
        self.sums[pairs], self.created[pairs] = 0.0, time.time()

    def observe(self, value: float, pairs: Labels, times: int = 1) -> None:
        if pairs not in self.counts:
            self._open(pairs)
        self.counts[pairs][bisect.bisect_left(self.bounds, value)] += times
        self.sums[pairs] += value * times

    def lines(self) -> list[str]:
        made = [f"# HELP {self.name} {self.says}", f"# TYPE {self.name} histogram"]
        for pairs, counts in self.counts.items():
            running = 0
            for bound, count in zip((*self.bounds, float("inf")), counts, strict=True):
                running += count
                edge = tuple(sorted((*pairs, ("le", number(bound)))))
                made.append(_series(f"{self.name}_bucket", edge, running))
            made.append(_series(f"{self.name}_count", pairs, running))
            made.append(_series(f"{self.name}_sum", pairs, self.sums[pairs]))
        return made + created_lines(self.name, self.says, self.created)


class Summary:
    """Count and sum, as the client's summaries are."""

    def __init__(self, name: str, says: str) -> None:
        self.name, self.says = name, says
        self.counts: dict[Labels, int] = {}
        self.sums: dict[Labels, float] = {}
        self.created: dict[Labels, float] = {}

    def observe(self, value: float, pairs: Labels) -> None:
        if pairs not in self.counts:
            self.counts[pairs], self.sums[pairs], self.created[pairs] = 0, 0.0, time.time()
        self.counts[pairs] += 1
        self.sums[pairs] += value

    def lines(self) -> list[str]:
        made = [f"# HELP {self.name} {self.says}", f"# TYPE {self.name} summary"]
        for pairs, count in self.counts.items():
            made.append(_series(f"{self.name}_count", pairs, count))
            made.append(_series(f"{self.name}_sum", pairs, self.sums[pairs]))
        return made + created_lines(self.name, self.says, self.created)


Shown = Family | Histogram | Summary


def render(families: Sequence[Shown], before: Callable[[], None] | None = None) -> bytes:
    """The exposition of `families` in order."""
    if before is not None:
        before()
    return ("\n".join(line for family in families for line in family.lines()) + "\n").encode()

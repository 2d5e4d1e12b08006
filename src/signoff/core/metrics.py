"""Scraped series of one server on the run's time axis."""

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Instants = NDArray[np.int64]


class MetricTable(Struct, frozen=True, kw_only=True):
    """All kept series of one server.

    `t_ns` has shape (scrapes,), Unix nanoseconds, rising. Each column has the same shape; NaN where that scrape did
    not hold the series, which is not zero. `failed` holds instants of scrapes that got no answer.
    Keys are exposition names with sorted labels, for instance `vllm:num_requests_running{engine="0",model_name="m"}`.
    """

    server: str
    t_ns: Instants
    columns: Mapping[str, Floats]
    failed: Instants

    def series(self, name: str) -> dict[str, Floats]:
        """Every column whose metric name (before the labels) is `name`; empty when the server has none."""
        return {key: self.columns[key] for key in self.columns if key.split("{", 1)[0] == name}

    def total(self, name: str, **labels: str) -> Floats | None:
        """The sum over engines of `name` with the given labels, NaN where any is absent; `None` when it has none."""
        wanted = [(f'{{{label}="{value}"', f',{label}="{value}"') for label, value in labels.items()]
        chosen = [c for key, c in self.series(name).items() if all(a in key or b in key for a, b in wanted)]
        return np.sum(chosen, axis=0) if chosen else None

    def highest(self, name: str) -> Floats | None:
        """The largest over engines, per scrape, NaN ignored unless all are; `None` when it has none."""
        chosen = list(self.series(name).values())
        return np.fmax.reduce(chosen) if chosen else None

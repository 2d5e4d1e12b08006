"""Scraped columns: read back as tables, and closed from append-only lines to zstd Parquet.

metrics/<n>-<host>.rows.jsonl     changes, one scrape a line, written by the scraper
metrics/<n>-<host>.parquet        the same, closed: `@t_ns`, `@failed`, and a column a series
metrics/<n>-<host>.scrapes.zst    every body as received
"""

import bisect
import os
from array import array
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from signoff.core.metric_rows import ROWS_SUFFIX, MetricHead, MetricMiss, MetricRow, decode_line
from signoff.core.metrics import Floats, Instants, MetricTable
from signoff.errors import OWN_FAULT, SignoffError

GROUP_ROWS = 3600
_T, _FAILED = "@t_ns", "@failed"  # no exposition name begins like this


class _Series:
    """One series as changes: the scrape from which a value holds, NaN from where it is absent."""

    __slots__ = ("places", "values")

    def __init__(self) -> None:
        self.places = array("q")
        self.values = array("d")

    def put(self, place: int, value: float) -> None:
        self.places.append(place)
        self.values.append(value)

    def span(self, start: int, stop: int) -> Floats:
        """Its values at scrapes `start` to `stop`, each carried on from the last change."""
        low = max(0, bisect.bisect_right(self.places, start) - 1)
        high = bisect.bisect_left(self.places, stop)
        places = np.array(self.places[low:high], dtype=np.int64)
        values = np.array(self.values[low:high], dtype=np.float64)
        last = np.searchsorted(places, np.arange(start, stop), side="right") - 1
        return (
            np.where(last >= 0, values[np.maximum(last, 0)], np.nan) if len(values) else np.full(stop - start, np.nan)
        )


class _Rows(Mapping[str, Floats]):
    """The columns of one lines file; each is spread out only when it is asked for."""

    def __init__(self, path: Path) -> None:
        self.server: str | None = None
        self.t_ns = array("q")
        self.missed: list[tuple[int, str]] = []
        self._keys: list[str] = []
        self._series: dict[str, _Series] = {}
        with path.open("rb") as lines:
            for raw in lines:
                self._take(raw)

    def _take(self, raw: bytes) -> None:
        line = decode_line(raw)
        if isinstance(line, MetricHead):
            self.server = line.server
        elif isinstance(line, MetricMiss):
            self.missed.append((line.t_ns, line.why))
        elif isinstance(line, MetricRow) and (not self.t_ns or line.t_ns > self.t_ns[-1]):
            place = len(self.t_ns)
            self.t_ns.append(line.t_ns)
            for key in line.new:
                self._keys.append(key)
                self._series[key] = _Series()
            for at, value in zip(line.at, line.values, strict=False):
                if 0 <= at < len(self._keys):
                    self._series[self._keys[at]].put(place, float(value))
            for at in line.gone:
                if 0 <= at < len(self._keys):
                    self._series[self._keys[at]].put(place, float("nan"))

    def span(self, key: str, start: int, stop: int) -> Floats:
        return self._series[key].span(start, stop)

    def __getitem__(self, key: str) -> Floats:
        return self._series[key].span(0, len(self.t_ns))

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class _Closed(Mapping[str, Floats]):
    """The columns of one Parquet file; each is read only when it is asked for, and then kept.

    The file stays open: its footer names every column of every group, and is worth reading once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = pq.ParquetFile(path)
        schema = self._file.schema_arrow
        self.server = str((schema.metadata or {})[b"server"], "utf-8")
        stamps = self._file.read(columns=[_T, _FAILED])
        self._whole = stamps[_FAILED].is_null().to_numpy(zero_copy_only=False)
        at = stamps[_T].to_numpy()
        self.t_ns = at[self._whole]
        self.failed = at[~self._whole]
        self._keys = [name for name in schema.names if name not in (_T, _FAILED)]
        self._known = set(self._keys)
        self._read: dict[str, Floats] = {}

    def __getitem__(self, key: str) -> Floats:
        if key not in self._known:
            raise KeyError(key)
        if key not in self._read:
            try:
                column = self._file.read(columns=[key])[key]
            except (pa.ArrowException, OSError, ValueError) as error:
                raise _damaged(self._path, error) from None
            self._read[key] = column.to_numpy()[self._whole]
        return self._read[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


class _Joined(Mapping[str, Floats]):
    """Several files of one server, one after another; a series that a file lacks is NaN there."""

    def __init__(self, parts: list[tuple[Instants, Mapping[str, Floats]]], order: Instants) -> None:
        self._parts = parts
        self._order = order
        self._keys = list(dict.fromkeys(key for _, columns in parts for key in columns))

    def __getitem__(self, key: str) -> Floats:
        if not any(key in columns for _, columns in self._parts):
            raise KeyError(key)
        pieces = [columns[key] if key in columns else np.full(len(t_ns), np.nan) for t_ns, columns in self._parts]
        return np.concatenate(pieces)[self._order]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def read_metrics(folder: Path) -> dict[str, MetricTable]:
    """Every server's table by its metrics URL, also of a folder whose scraper was killed; empty without a folder.

    Columns are spread out when they are looked up: a day of seconds of a thousand series does not fit in memory."""
    tables: dict[str, list[MetricTable]] = {}
    for path in sorted(folder.glob("*.parquet")) if folder.is_dir() else ():
        try:
            closed = _Closed(path)
        except (pa.ArrowException, OSError, KeyError, ValueError) as error:
            raise _damaged(path, error) from None
        table = MetricTable(server=closed.server, t_ns=closed.t_ns, columns=closed, failed=closed.failed)
        tables.setdefault(closed.server, []).append(table)
    for path in sorted(folder.glob("*" + ROWS_SUFFIX)) if folder.is_dir() else ():
        if _parquet_of(path).exists():  # killed after closing, before removing
            continue
        rows = _Rows(path)
        if rows.server is not None:
            failed = np.array([at for at, _ in rows.missed], dtype=np.int64)
            t_ns = np.array(rows.t_ns, dtype=np.int64)
            table = MetricTable(server=rows.server, t_ns=t_ns, columns=rows, failed=failed)
            tables.setdefault(rows.server, []).append(table)
    return {server: parts[0] if len(parts) == 1 else _join(parts) for server, parts in tables.items()}


def _damaged(path: Path, error: Exception) -> SignoffError:
    return SignoffError(f"{path}: not readable: {str(error)[:200]}", "The bundle was changed or damaged.")


def _join(parts: list[MetricTable]) -> MetricTable:
    t_ns = np.concatenate([part.t_ns for part in parts])
    order = np.argsort(t_ns, kind="stable")
    return MetricTable(
        server=parts[0].server,
        t_ns=t_ns[order],
        columns=_Joined([(part.t_ns, part.columns) for part in parts], order),
        failed=np.sort(np.concatenate([part.failed for part in parts])),
    )


def close_metrics(folder: Path) -> None:
    """Every lines file to Parquet. A lines file is removed only after its Parquet was read back and is the same."""
    for path in sorted(folder.glob("*" + ROWS_SUFFIX)) if folder.is_dir() else ():
        target = _parquet_of(path)
        if not target.exists():
            rows = _Rows(path)
            if rows.server is None:
                continue
            written = target.with_suffix(".parquet.part")
            _write(rows, written)
            _check(rows, written)
            os.replace(written, target)
        path.unlink()


def _parquet_of(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(ROWS_SUFFIX) + ".parquet")


def _write(rows: _Rows, path: Path) -> None:
    fields = [pa.field(_T, pa.int64()), pa.field(_FAILED, pa.string()), *(pa.field(key, pa.float64()) for key in rows)]
    schema = pa.schema(fields, metadata={"server": rows.server or "", "format": "signoff/metrics/1"})
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(rows.t_ns), GROUP_ROWS):
            stop = min(start + GROUP_ROWS, len(rows.t_ns))
            columns = [np.array(rows.t_ns[start:stop]), pa.nulls(stop - start, pa.string())]
            columns += [rows.span(key, start, stop) for key in rows]
            writer.write_table(pa.Table.from_arrays([pa.array(column) for column in columns], schema=schema))
        if rows.missed:
            count = len(rows.missed)
            missed = [pa.array([at for at, _ in rows.missed], pa.int64()), pa.array([why for _, why in rows.missed])]
            blank = pa.array(np.full(count, np.nan))
            writer.write_table(pa.Table.from_arrays([*missed, *[blank] * len(rows)], schema=schema))


def _check(rows: _Rows, path: Path) -> None:
    """The file read back says what the lines say, value for value."""
    closed = _Closed(path)
    same = closed.server == rows.server and list(closed) == list(rows)
    same = same and np.array_equal(closed.t_ns, np.array(rows.t_ns, dtype=np.int64))
    same = same and closed.failed.tolist() == [at for at, _ in rows.missed]
    with pq.ParquetFile(path) as file:
        for group in range(file.num_row_groups if same else 0):
            start = group * GROUP_ROWS
            stop = min(start + GROUP_ROWS, len(rows.t_ns))
            table = file.read_row_group(group)
            for index, key in enumerate(rows):
                wanted = rows.span(key, start, stop) if stop > start else np.full(len(table), np.nan)
                same = same and np.array_equal(table.column(index + 2).to_numpy(), wanted, equal_nan=True)
    if not same:
        raise SignoffError(f"{path}: does not hold what was scraped", exit_code=OWN_FAULT)

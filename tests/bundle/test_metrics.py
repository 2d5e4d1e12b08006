"""Scraped columns come back value for value: while written, after a kill, and closed."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.bundle import metrics
from signoff.bundle.metrics import close_metrics, read_metrics
from signoff.core.metric_rows import MetricHead, MetricMiss, MetricRow, encode_line
from signoff.errors import SignoffError

URL = "http://10.0.0.1:8000/metrics"
KV = 'vllm:kv_cache_usage_perc{engine="0"}'
LINES = [
    MetricHead(URL, 1.0),
    MetricRow(10, [KV, "b"], [0, 1], [0.5, 3], []),
    MetricRow(20, [], [1], [4], []),
    MetricMiss(25, "no answer within 10 s"),
    MetricRow(30, [], [], [], [0]),
    MetricRow(40, ["c"], [0, 2], [0.25, "inf"], []),
]
WANTED = {KV: [0.5, 0.5, math.nan, 0.25], "b": [3, 4, 4, 4], "c": [math.nan, math.nan, math.nan, math.inf]}


def write(folder: Path, lines: list, name: str = "000-h-80") -> Path:
    path = folder / f"{name}.rows.jsonl"
    path.write_bytes(b"".join(encode_line(line) for line in lines))
    return path


def check(folder: Path) -> None:
    table = read_metrics(folder)[URL]
    assert table.t_ns.tolist() == [10, 20, 30, 40]
    assert table.failed.tolist() == [25]
    for key, column in WANTED.items():
        np.testing.assert_array_equal(table.columns[key], column)
    assert set(table.columns) == set(WANTED)


def test_absent_is_not_zero_and_unchanged_is_carried_on(tmp_path: Path) -> None:
    write(tmp_path, LINES)
    check(tmp_path)


def test_closing_keeps_every_value_and_removes_the_lines(tmp_path: Path) -> None:
    path = write(tmp_path, LINES)
    close_metrics(tmp_path)
    assert not path.exists()
    assert [p.name for p in tmp_path.iterdir()] == ["000-h-80.parquet"]
    check(tmp_path)
    close_metrics(tmp_path)
    check(tmp_path)


def test_a_half_last_line_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, [*LINES, MetricRow(50, [], [0], [0.75], [])])
    path.write_bytes(path.read_bytes()[:-9])
    check(tmp_path)
    close_metrics(tmp_path)
    check(tmp_path)


def test_killed_between_closing_and_removing(tmp_path: Path) -> None:
    raw = write(tmp_path, LINES).read_bytes()
    close_metrics(tmp_path)
    (tmp_path / "000-h-80.rows.jsonl").write_bytes(raw)
    check(tmp_path)
    close_metrics(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_wrong_parquet_never_replaces_the_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, LINES)
    good = metrics._write

    def bad(rows: metrics._Rows, target: Path) -> None:
        rows._series["b"].values[1] = 5.0
        good(rows, target)
        rows._series["b"].values[1] = 4.0

    monkeypatch.setattr(metrics, "_write", bad)
    with pytest.raises(SignoffError, match="does not hold"):
        close_metrics(tmp_path)
    assert path.exists()
    check(tmp_path)


def test_two_scrapers_of_one_server_are_one_table(tmp_path: Path) -> None:
    write(tmp_path, LINES)
    close_metrics(tmp_path)
    write(tmp_path, [MetricHead(URL, 1.0), MetricMiss(55, "x"), MetricRow(60, ["d"], [0], [1], [])], "001-h-80")
    table = read_metrics(tmp_path)[URL]
    assert table.t_ns.tolist() == [10, 20, 30, 40, 60]
    assert table.failed.tolist() == [25, 55]
    np.testing.assert_array_equal(table.columns["d"], [math.nan] * 4 + [1])
    np.testing.assert_array_equal(table.columns["b"], [3, 4, 4, 4, math.nan])
    with pytest.raises(KeyError):
        table.columns["nope"]


def test_nothing_there(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / "none") == {}
    close_metrics(tmp_path / "none")
    (tmp_path / "000-h.rows.jsonl").write_bytes(b"\x00garbage\n[]\n")
    assert read_metrics(tmp_path) == {}
    close_metrics(tmp_path)


def test_only_misses_is_a_table_without_scrapes(tmp_path: Path) -> None:
    write(tmp_path, [MetricHead(URL, 1.0), MetricMiss(5, "refused")])
    for _ in range(2):
        table = read_metrics(tmp_path)[URL]
        assert (len(table.t_ns), table.failed.tolist(), dict(table.columns)) == (0, [5], {})
        close_metrics(tmp_path)


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcdefg"), st.floats(width=32) | st.just(math.inf), max_size=5), max_size=12
    )
)
@settings(max_examples=60)
def test_any_sequence_of_scrapes(tmp_path_factory: pytest.TempPathFactory, scrapes: list[dict[str, float]]) -> None:
    folder = tmp_path_factory.mktemp("rows")
    lines: list = [MetricHead(URL, 1.0)]
    places: dict[str, int] = {}
    last: dict[str, float] = {}
    for t_ns, series in enumerate(scrapes):
        new = [key for key in series if key not in places]
        places.update({key: len(places) + place for place, key in enumerate(new)})
        changed = [key for key in series if last.get(key) != series[key]]
        shown = [v if math.isfinite(v := series[key]) else str(v) for key in changed]
        gone = [places[key] for key in last if key not in series]
        lines.append(MetricRow(t_ns, new, [places[key] for key in changed], shown, gone))
        last = series
    write(folder, lines)
    for _ in range(2):
        table = read_metrics(folder)[URL]
        for key in places:
            np.testing.assert_array_equal(table.columns[key], [s.get(key, math.nan) for s in scrapes])
        close_metrics(folder)


def test_more_scrapes_than_a_row_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "GROUP_ROWS", 3)
    rows = [
        MetricRow(k, ["a"] if k == 0 else [], [0] if k % 4 == 0 else [], [k] if k % 4 == 0 else [], [])
        for k in range(10)
    ]
    write(tmp_path, [MetricHead(URL, 1.0), *rows, MetricMiss(11, "x")])
    close_metrics(tmp_path)
    table = read_metrics(tmp_path)[URL]
    assert table.columns["a"].tolist() == [0, 0, 0, 0, 4, 4, 4, 4, 8, 8]
    assert table.failed.tolist() == [11]


def test_names_with_dots_and_commas(tmp_path: Path) -> None:
    keys = ['a_bucket{le="0.1",m="x, y.z"}', 'a_bucket{le="0.1"}', "a.b"]
    write(tmp_path, [MetricHead(URL, 1.0), MetricRow(1, keys, [0, 1, 2], [1, 2, 3], [])])
    close_metrics(tmp_path)
    table = read_metrics(tmp_path)[URL]
    assert [table.columns[key][0] for key in keys] == [1, 2, 3]

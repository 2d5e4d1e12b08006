"""The scrape reader against prometheus_client's own parsers, and against bytes that are no scrape at all."""

import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from signoff.read.scrape import read_scrape

VALUES = st.text(st.characters(blacklist_categories=("Cs",)), max_size=12)


def key(name: str, labels: dict[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")

    inside = ",".join(f'{label}="{escaped(labels[label])}"' for label in sorted(labels))
    return f"{name}{{{inside}}}" if inside else name


def registry(label: str, value: float) -> CollectorRegistry:
    made = CollectorRegistry()
    Gauge("vllm:kv_cache_usage_perc", "KV use", ["model_name", "engine"], registry=made).labels(label, "0").set(value)
    Counter("vllm:prompt_tokens", "Tokens", ["model_name"], registry=made).labels(label).inc(abs(value) % 1e9)
    Histogram("vllm:e2e_seconds", "Latency", ["model_name"], registry=made).labels(label).observe(0.3)
    Summary("http_request_size_bytes", "Size", registry=made).observe(12)
    Info("vllm:build", "Build", registry=made).info({"version": label})
    Gauge("plain", "No labels", registry=made).set(value)
    return made


@given(VALUES, st.floats(allow_nan=False, allow_infinity=False))
def test_same_as_the_reference_parser(label: str, value: float) -> None:
    made = registry(label, value)
    for raw, parse in ((generate_latest(made), parse_text), (generate_openmetrics(made), parse_openmetrics)):
        seen = read_scrape(raw)
        wanted = {key(s.name, s.labels): s.value for family in parse(raw.decode()) for s in family.samples}
        made_at = {k: v for k, v in wanted.items() if k.partition("{")[0].endswith("_created")}
        assert seen.series == {k: v for k, v in wanted.items() if k not in made_at}
        assert len(seen.created) == len(made_at)
        assert seen.faults == 0


def test_types_and_end() -> None:
    seen = read_scrape(generate_openmetrics(registry("m", 1)))
    assert seen.ended
    assert seen.types["vllm:e2e_seconds"] == "histogram"
    assert not read_scrape(generate_latest(registry("m", 1))).ended


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ('a{b="1",a="2"} 3', 'a{a="2",b="1"}', 3),
        ('a{b="1", a="2",} 3', 'a{a="2",b="1"}', 3),
        ("a 3 1700000000000", "a", 3),
        ("a\t3", "a", 3),
        ("  a   3  ", "a", 3),
        ("a{} 3", "a", 3),
        ('a{b="} 7"} 3', 'a{b="} 7"}', 3),
        ('a{b="\\"} 7"} 3\r', 'a{b="\\"} 7"}', 3),
        ('a_bucket{le="1"} 8 # {trace_id="x"} 0.6 1700000000.1', 'a_bucket{le="1"}', 8),
        ('a_bucket{le="1"} 8 # {trace_id="x"} 0.6', 'a_bucket{le="1"}', 8),
        ("a +Inf", "a", math.inf),
        ("a -Inf", "a", -math.inf),
        ("a 1e-3", "a", 0.001),
    ],
)
def test_lines(line: str, key: str, value: float) -> None:
    seen = read_scrape(line.encode())
    assert seen.series == {key: value}
    assert seen.faults == 0


@pytest.mark.parametrize("line", ["a", "a x", "a 1_0", "1a 3", 'a{b="1} 3', 'a{b="1",b="2"} 3', "a{b=1} 3", "<html>"])
def test_faults_are_counted_not_raised(line: str) -> None:
    seen = read_scrape(line.encode())
    assert seen.series == {}
    assert seen.faults == 1


def test_not_a_number_is_kept_as_such() -> None:
    assert math.isnan(read_scrape(b"a NaN\n").series["a"])


def test_repeated_series_count_once() -> None:
    seen = read_scrape(b"a 1\na 2\n")
    assert seen.series == {"a": 1}
    assert seen.faults == 1


def test_total_and_highest() -> None:
    seen = read_scrape(b'a{engine="0"} 1\na{engine="1"} 3\nab 9\n')
    assert (seen.total("a"), seen.highest("a"), seen.total("b")) == (4, 3, None)


@given(st.binary(max_size=400))
def test_any_bytes(raw: bytes) -> None:
    read_scrape(raw)


@given(st.text(alphabet='a{}=",\\ #\n1.e_\t', max_size=200))
def test_almost_a_scrape(text: str) -> None:
    read_scrape(text.encode())


def test_labels_that_never_close_do_not_hang() -> None:
    began = time.perf_counter()
    read_scrape(b"a{" + b'b="1",' * 9000)
    read_scrape(b'a{b="' + b"\\" * 60000)
    assert time.perf_counter() - began < 1

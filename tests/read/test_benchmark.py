"""Results of other load tools."""

from hypothesis import given, settings
from hypothesis import strategies as st

from signoff.read.benchmark import read_benchmark

TEXT = b"""
============ Serving Benchmark Result ============
Successful requests:                     64
Failed requests:                         1
Benchmark duration (s):                  20.87
Output token throughput (tok/s):         268.31
---------------Time to First Token----------------
Median TTFT (ms):                        120.5
P99 TTFT (ms):                           461.48
==================================================
"""


def test_text() -> None:
    found = read_benchmark(TEXT)
    assert found.tool == "vllm bench"
    assert (found.values["requests_ok"], found.values["requests_failed"]) == (64, 1)
    assert (found.values["ttft_ms_median"], found.values["ttft_ms_p99"]) == (120.5, 461.48)
    assert (found.values["duration_s"], found.values["output_tokens_per_s"]) == (20.87, 268.31)
    assert found.lines["requests_failed"] == 4


def test_json() -> None:
    found = read_benchmark(b'{"completed": 5, "p99_ttft_ms": 9.5, "output_throughput": 3, "model_id": "m"}')
    assert found.values == {"requests_ok": 5, "ttft_ms_p99": 9.5, "output_tokens_per_s": 3}
    assert found.texts == {"model_id": "m"}


def test_other_text_and_json() -> None:
    assert read_benchmark(b"hello").tool == ""
    assert read_benchmark(b'{"a": 1}').tool == ""
    assert read_benchmark(b"{broken").tool == ""


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes(raw: bytes) -> None:
    read_benchmark(raw)
    read_benchmark(TEXT + raw)
    read_benchmark(b"{" + raw)

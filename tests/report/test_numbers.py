import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.report.numbers import (
    MISSING,
    digits,
    duration,
    instant,
    label_of,
    percent,
    quantity,
    short_digest,
    size,
    unit_of,
    with_interval,
)


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("ttft_ms_p99", 812.34, "812 ms"),
        ("ttft_ms_p99", 1140.2, "1.14 s"),
        ("itl_ms", 0.0431, "43.1 µs"),
        ("soak_s", 86_400, "24 h"),
        ("soak_s", 90, "90 s"),
        ("hold_s", 187, "3 min 7 s"),
        ("window_tokens", 131_072, "131,072 tokens"),
        ("weights_gib", 1400.5, "1.37 TiB"),
        ("error_rate", 0.00213, "0.21 %"),
        ("reuse_share", 1.0, "100 %"),
        ("kv_cache_usage", 0.9712, "97.1 %"),
        ("kv_high", 0.9985, "99.9 %"),
        ("kv_tokens", 4096, "4,096 tokens"),
        ("output_tokens_per_s", 12_345.6, "12,346 /s"),
        ("held", 16, "16"),
        ("held", True, "yes"),
        ("delta_ms", -3.5, "−3.5 ms"),
        ("observed", "580.82.07", "580.82.07"),
        ("ttft_ms_p99", None, MISSING),
        ("ttft_ms_p99", float("inf"), MISSING),
    ],
)
def test_a_value_is_written_with_the_unit_of_its_name(name: str, value: object, text: str) -> None:
    assert plain(quantity(name, value)) == text  # type: ignore[arg-type]


def test_no_share_below_all_is_written_as_all_and_none_above_nothing_as_nothing() -> None:
    assert plain(percent(0.99999)) == "> 99.9 %"
    assert plain(percent(0.0000001)) == "1e-05 %"
    assert plain(percent(0)) == "0 %"


def test_names_become_labels_without_their_units() -> None:
    assert label_of("ttft_ms_p99") == "TTFT p99"
    assert label_of("kv_cache_usage") == "KV cache usage"
    assert label_of("prompt_tokens") == "prompt tokens"
    assert unit_of("output_tokens_per_s") == "per_s"
    assert unit_of("held") == ""


def test_an_interval_stands_with_its_value() -> None:
    values = {"ttft_ms": 100.0, "ttft_ms_low": 90.0, "ttft_ms_high": 1200.0}
    assert plain(with_interval("ttft_ms", values)) == "100 ms (90 ms – 1.2 s)"
    assert plain(with_interval("ttft_ms", {"ttft_ms": 100.0})) == "100 ms"
    measured = {"ttft_ms_p99_measured": 1840.0, "ttft_ms_p99_low": 1800.0, "ttft_ms_p99_high": None}
    assert plain(with_interval("ttft_ms_p99_measured", measured)) == "1.84 s (≥ 1.8 s)"
    share = {"failed_share": 0.025, "share_low": 0.01, "share_high": 0.1}
    assert plain(with_interval("failed_share", share)) == "2.5 % (1 % – 10 %)"


def test_instants_sizes_and_digests() -> None:
    assert instant(1_796_096_467 * 10**9) == "2026-12-01 03:41:07 UTC"
    assert plain(size(1536)) == "1.5 KiB"
    assert short_digest("sha256:" + "ab" * 32) == "sha256:abababababab…"
    assert short_digest("short") == "short"


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12))
def test_every_number_is_written(value: float) -> None:
    for text in (digits(value), duration(value), quantity("x_ms", value), quantity("x_share", value)):
        assert text
        assert "nan" not in text

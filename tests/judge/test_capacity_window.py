"""Counters, gauges and histograms over a stretch of time; absence is never zero."""

import numpy as np
import pytest
from capacity_dossier import BEGIN, S, plan, profile
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from signoff.core.metrics import MetricTable
from signoff.core.words import Outcome
from signoff.judge.capacity import window
from signoff.judge.capacity.level import queue_test
from signoff.judge.capacity.pressure import pressure
from signoff.judge.capacity.sizes import levels, rungs, sizes
from signoff.judge.capacity.soak import shift

NAN = float("nan")


def table(columns, at=None):
    length = len(next(iter(columns.values())))
    t_ns = np.array([BEGIN + i * S for i in range(length)] if at is None else at, dtype=np.int64)
    made = {key: np.array(values, dtype=float) for key, values in columns.items()}
    return MetricTable(server="s", t_ns=t_ns, columns=made, failed=np.array([], dtype=np.int64))


def test_a_counter_grows_between_its_borders():
    found = [table({window.PREEMPTIONS + '{engine="0"}': [1, 2, 5], window.PREEMPTIONS + '{engine="1"}': [0, 0, 1]})]
    assert window.delta(found, window.PREEMPTIONS, BEGIN, BEGIN + 2 * S) == 5


def test_a_counter_that_falls_restarted_and_says_nothing():
    assert window.delta([table({window.HITS: [5, 1]})], window.HITS, BEGIN, BEGIN + S) is None


def test_a_counter_that_first_appears_began_at_zero():
    assert window.delta([table({window.HITS: [NAN, NAN, 4]})], window.HITS, BEGIN, BEGIN + 2 * S) == 4


def test_a_counter_that_was_gone_in_between_says_nothing():
    assert window.delta([table({window.HITS: [3, NAN, 4]})], window.HITS, BEGIN + S, BEGIN + 2 * S) is None
    assert window.delta([table({window.HITS: [3, 4, NAN]})], window.HITS, BEGIN, BEGIN + 2 * S) is None


def test_scrapes_out_of_reach_bound_nothing():
    far = table({window.HITS: [1, 2]}, at=[BEGIN, BEGIN + 100 * S])
    assert window.delta([far], window.HITS, BEGIN + 50 * S, BEGIN + 60 * S) is None


def test_absent_preemptions_are_none_of_them_only_where_the_frontend_publishes_on_first_use():
    python = [table({window.RUNNING: [1, 1], window.STARTED: [9, 9]})]
    rust = [table({window.RUNNING: [1, 1]})]
    assert window.delta(python, window.PREEMPTIONS, BEGIN, BEGIN + S) is None
    assert window.delta(rust, window.PREEMPTIONS, BEGIN, BEGIN + S) == 0
    assert window.delta([], window.PREEMPTIONS, BEGIN, BEGIN + S) is None


@given(st.binary(max_size=300))
def test_any_body_makes_a_table(raw):
    made = window.table_of("s", [(BEGIN, raw), (BEGIN + S, b"")])
    assert len(made.t_ns) == 2


def test_two_tables_on_one_axis():
    one, two = table({"a": [1, 3]}, at=[BEGIN, BEGIN + 2 * S]), table({"b": [2]}, at=[BEGIN + S])
    both = window.merged(one, two)
    assert both.t_ns.tolist() == [BEGIN, BEGIN + S, BEGIN + 2 * S]
    assert np.array_equal(both.columns["a"], [1, NAN, 3], equal_nan=True)


def queue(counts, total_s, at_least=2):
    """A queue-time histogram that grew from nothing to `counts` under 0.3, 1 and infinity."""
    columns = {
        f'{window.QUEUE}_bucket{{le="{le}"}}': [0] * (at_least - 1) + [n]
        for le, n in zip(("0.3", "1.0", "+Inf"), counts, strict=True)
    }
    return [table(columns | {f"{window.QUEUE}_sum": [0] * (at_least - 1) + [total_s]})]


@pytest.mark.parametrize(
    ("counts", "total_s", "ttft_ms", "outcome"),
    [
        ((100, 100, 100), 0.05, None, Outcome.PASS),  # a mean of half a millisecond bounds the tail
        ((100, 100, 100), 20.0, None, Outcome.INCONCLUSIVE),  # all within 300 ms, the limit is 200 ms
        ((100, 100, 100), 20.0, 150.0, Outcome.PASS),  # nobody queues longer than the first token takes
        ((90, 100, 100), 40.0, 900.0, Outcome.FAIL),
        ((0, 0, 0), 0.0, 10.0, Outcome.INCONCLUSIVE),
    ],
)
def test_queue_time_is_bracketed(counts, total_s, ttft_ms, outcome):
    assert queue_test(queue(counts, total_s), 200, ttft_ms, BEGIN, BEGIN + S).outcome is outcome


def test_queue_time_without_metrics_or_limit_is_open():
    assert queue_test([], 200, 10.0, BEGIN, BEGIN + S).outcome is Outcome.INCONCLUSIVE
    assert queue_test(queue((9, 9, 9), 0.1), None, 10.0, BEGIN, BEGIN + S).outcome is Outcome.INCONCLUSIVE


def test_too_few_scrapes_name_no_resource():
    full = table({window.KV_NAMES[0]: [1.0, 1.0], window.RUNNING: [4, 4], window.WAITING: [9, 9]})
    assert pressure([full], BEGIN, BEGIN + 9 * S, 4, None, None).bound == ""


def test_a_fifth_of_the_time_at_its_bound_names_the_cache():
    def bound(*kv):
        gauges = {window.KV_NAMES[0]: kv, window.RUNNING: [4] * len(kv), window.WAITING: [1] * len(kv)}
        return pressure([table(gauges)], BEGIN, BEGIN + 99 * S, 64, None, None).bound

    assert bound(1.0, 0.5, 0.5, 0.5, 0.5) == "kv"
    assert bound(1.0, 0.5, 0.5, 0.5, 0.5, 0.5) == ""
    assert bound(0.94, 0.94, 0.94) == ""


def test_the_older_name_of_cache_use_is_known():
    old = table({window.KV_NAMES[1]: [1.0] * 4, window.RUNNING: [1] * 4, window.WAITING: [0] * 4})
    assert pressure([old], BEGIN, BEGIN + 9 * S, None, None, None).bound == "kv"


def test_full_steps_while_others_wait_name_the_token_budget():
    steps = {
        f'{window.STEP_TOKENS}_bucket{{le="{le}"}}': [0, 0, 0, n] for le, n in (("512", 10), ("1024", 30), ("+Inf", 30))
    }
    gauges = {window.KV_NAMES[0]: [0.2] * 4, window.RUNNING: [9] * 4, window.WAITING: [5] * 4}
    full = table(steps | gauges | {f"{window.STEP_TOKENS}_sum": [0, 0, 0, 20_480]})
    assert pressure([full], BEGIN, BEGIN + 3 * S, 256, 1024, None).bound == "token_budget"
    assert pressure([full], BEGIN, BEGIN + 3 * S, 256, None, None).bound == ""


def test_the_ladders_hold_floor_and_target():
    made = replace(plan(), load=replace(plan().load, concurrency=replace(plan().load.concurrency, steps=())))
    assert levels(made) == (1, 2, 4, 8)
    assert rungs(made, 8192) == (512, 1024, 2048, 4096)
    assert max(rungs(made, 3000)) == 3000
    stepped = replace(made, load=replace(made.load, concurrency=replace(made.load.concurrency, steps=(3,))))
    assert levels(stepped) == (3, 4, 8)


@given(window_=st.integers(64, 2_000_000), asked=st.integers(1, 1_000_000), output=st.integers(1, 10_000))
def test_no_prompt_and_its_output_pass_the_window(window_, asked, output):
    made = plan()
    wanted = replace(made.load.concurrency, input_tokens=asked, output_tokens=output)
    size = sizes(replace(made, load=replace(made.load, concurrency=wanted)), profile(), window_)
    assert 0 < size.input_tokens + size.output_tokens <= window_
    assert 0 <= size.shared_tokens <= size.input_tokens


def test_a_shift_is_seen_and_noise_is_not():
    low, high = [10.0, 11, 12, 10.5, 11.5, 10.2, 11.8, 10.9], [20.0, 21, 22, 20.5, 21.5, 20.2, 21.8, 20.9]
    ratio, z = shift(low, high)
    assert ratio > 1.8
    assert z > 3.3
    assert abs(shift(low, low)[1]) < 0.5
    assert shift([1.0] * 8, [1.0] * 8) == (1.0, 0.0)

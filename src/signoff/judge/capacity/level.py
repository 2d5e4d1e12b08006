"""Level: whether one load held. The loop asks it to choose what comes next, the judge to make findings: one rule.

A test fails only when its samples prove it, passes when what was seen keeps the limit, and is inconclusive between,
when its limit is not in the plan, or when too little was seen. Failed requests stay in every number. Requests of the
first wave, which start together as no traffic does, count for errors and not for latency.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from signoff.core.metrics import MetricTable
from signoff.core.plan import Limits
from signoff.core.record import Record
from signoff.core.rounding import six
from signoff.core.words import Outcome, State
from signoff.judge import summaries
from signoff.judge.capacity import window
from signoff.judge.capacity.honest import WORKED
from signoff.judge.capacity.pressure import Pressure, pressure

RAMP = "ramp"
"""Label `wave` of the first requests of a stage, one for each stream."""
CALLER_STATUS = range(400, 500)
SERVER_OWNED = (408, 429)
"""Answers in the 400s that speak of the server's state, not of our request."""
CALLER_SHARE_MAX = 0.02
DISQUALIFIED_SHARE_MAX = 0.02
REFUSING_STATUS = (429, 503)
DELIVERED_SHARE_MIN = 0.8
"""The least mean of requests in flight over the steady stretch, in shares of the load, or it was not that load."""
PROMPT_SHARE_MIN = 0.5
HELD_SHARE = 0.98
"""Of the hold that the longest attempt must span, from its first request sent to its last ended."""
SPOILED = ("no_requests", "caller_faults")
"""A load with these proves neither way, whatever the client measured."""
SERVERS_OWN = frozenset({"queue_ms_p99", "preempted_share"})
"""Counted by the server itself: a client that was late can only have loaded it less, so a failure stands."""
LIMITS = ("error_rate", "ttft_ms_p99", "itl_ms_p99", "queue_ms_p99", "preempted_share")


class Test(Struct, frozen=True, kw_only=True):
    """One measured number against one limit of the plan. `None`: not measured, or not said."""

    __test__ = False  # for pytest, which collects what is called Test

    name: str
    outcome: Outcome
    limit: float | None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0


class Level(Struct, frozen=True, kw_only=True):
    """One load, held once."""

    stage: str
    streams: int
    outcome: Outcome
    tests: tuple[Test, ...]
    requests: int
    """Own requests that speak of the service: not aborted by us, not faulted by the caller."""
    failed: int
    ttft_samples: int
    caller_faults: int = 0
    stopped: str = ""
    resource: str = ""
    """The named resource at its bound while a limit was missed; empty when none was, or none was missed."""
    pressure: Pressure
    why: str = ""
    """What leaves it open."""
    from_ns: int = 0
    to_ns: int = 0

    def test(self, name: str) -> Test:
        return next(test for test in self.tests if test.name == name)


def caller_fault(record: Record) -> bool:
    """The server rightly refused what we sent; a refusal of what it took before is its own."""
    refused = record.state is State.HTTP_ERROR and record.status in CALLER_STATUS and record.status not in SERVER_OWNED
    return refused and WORKED not in record.labels


def speaks(record: Record) -> bool:
    """Whether the record says anything about the service."""
    return record.state is not State.ABORTED and not caller_fault(record)


def failure(record: Record) -> bool:
    """A request that did not succeed, the service or the way to it being the reason."""
    return record.state is not State.OK and speaks(record)


def spoiled(records: Sequence[Record]) -> bool:
    """Whether the client was its own bottleneck too often to measure anything."""
    return sum(bool(r.disqualified) for r in records) > DISQUALIFIED_SHARE_MAX * len(records)


def unspoiled(records: Sequence[Record]) -> list[Record]:
    """Without the attempts at a load that the client itself spoiled, where another attempt followed them that it did
    not spoil. Failures that had nothing to do with the client stay, whichever attempt they are of."""
    attempts: dict[str, list[Record]] = {}
    for record in records:
        attempts.setdefault(record.labels.get("attempt", ""), []).append(record)
    void = {name for name, own in attempts.items() if spoiled(own)}
    if len(void) == len(attempts):
        return list(records)
    return [
        r
        for r in records
        if r.labels.get("attempt", "") not in void or (r.state is not State.OK and not r.disqualified)
    ]


def error_test(records: Sequence[Record], limit: float | None, requests_min: int) -> Test:
    """Failures of all requests."""
    failed, n = sum(failure(r) for r in records), len(records)
    seen = summaries.rate(failed, n)
    if limit is None or n == 0:
        outcome = Outcome.INCONCLUSIVE
    elif seen.low > limit:
        outcome = Outcome.FAIL
    elif seen.share is not None and seen.share <= limit and n >= requests_min:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
    return Test(name="error_rate", outcome=outcome, limit=limit, value=seen.share, low=seen.low, high=seen.high, n=n)


def latency_test(name: str, seen: summaries.Quantile, limit: float | None, samples_min: int) -> Test:
    """A quantile in which failures are infinitely late."""
    if limit is None or seen.n == 0:
        outcome = Outcome.INCONCLUSIVE
    elif seen.within(limit) is False:
        outcome = Outcome.FAIL
    elif seen.value is not None and seen.value <= limit and seen.n >= samples_min:
        outcome = Outcome.PASS
    else:
        outcome = Outcome.INCONCLUSIVE
    return Test(name=name, outcome=outcome, limit=limit, value=seen.value, low=seen.low, high=seen.high, n=seen.n)


def queue_test(
    tables: Sequence[MetricTable], limit: float | None, ttft_p99_ms: float | None, from_ns: int, to_ns: int
) -> Test:
    """The 99th percentile of the server's queue time, bracketed by its buckets, by its mean and by the first token.

    At most 1 % of samples lie above 100 times their mean (Markov), and no request queues for longer than its first
    token takes: coarse buckets (the first ends at 0.3 s) leave nothing open that those close."""
    buckets = window.histogram(tables, window.QUEUE, from_ns, to_ns)
    n = int(buckets[-1][1]) if buckets else 0
    if not n:
        return Test(name="queue_ms_p99", outcome=Outcome.INCONCLUSIVE, limit=limit)
    low = max((le for le, count in buckets if count < 0.99 * n), default=0.0) * 1000
    uppers = [min(le for le, count in buckets if count >= 0.99 * n) * 1000]
    total_s = window.delta(tables, window.QUEUE + "_sum", from_ns, to_ns)
    if total_s is not None:
        uppers.append(total_s / n * 100 * 1000)
    if ttft_p99_ms is not None:
        uppers.append(max(ttft_p99_ms, low))
    high = min(uppers)
    if limit is None or (low < limit < high):
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS if high <= limit else Outcome.FAIL
    bounded = six(high) if high != float("inf") else None
    return Test(name="queue_ms_p99", outcome=outcome, limit=limit, value=bounded, low=six(low), high=bounded, n=n)


def preemption_test(preemptions: float | None, requests: int, limit: float | None) -> Test:
    """Preemptions for each request."""
    if preemptions is None or requests == 0:
        return Test(name="preempted_share", outcome=Outcome.INCONCLUSIVE, limit=limit, n=requests)
    share = six(preemptions / requests)
    if limit is None:
        outcome = Outcome.INCONCLUSIVE
    else:
        outcome = Outcome.PASS if share <= limit else Outcome.FAIL
    return Test(name="preempted_share", outcome=outcome, limit=limit, value=share, n=requests)


def client_tests(records: Sequence[Record], limits: Limits, requests_min: int, samples_min: int) -> tuple[Test, ...]:
    """The tests that need no metrics: errors, first token, inter-token.

    A client that was late can only have seen answers later than they came: what keeps the limit with all its lateness
    passes, and what fails must fail on the requests during which the client was fit."""
    steady = [r for r in records if r.labels.get("wave") != RAMP and not caller_fault(r)]
    fit = steady or [r for r in records if not caller_fault(r)]
    every = [replace(r, disqualified="") if r.disqualified else r for r in fit]
    ttft = [
        latency_test("ttft_ms_p99", summaries.latency(own).every.p99, limits.ttft_ms_p99, samples_min)
        for own in (every, fit)
    ]
    gaps = [
        latency_test("itl_ms_p99", summaries.inter_token(own).every.p99, limits.itl_ms_p99, samples_min)
        for own in (every, fit)
    ]
    return (
        error_test([r for r in records if speaks(r)], limits.error_rate, requests_min),
        _settled(*ttft),
        _settled(*gaps),
    )


def _settled(every: Test, fit: Test) -> Test:
    """The pass of all samples, else the failure of the fit ones, else open."""
    if every.outcome is Outcome.PASS:
        return every
    return fit if fit.outcome is Outcome.FAIL else replace(fit, outcome=Outcome.INCONCLUSIVE)


def level(
    stage: str,
    streams: int,
    records: Sequence[Record],
    tables: Sequence[MetricTable],
    limits: Limits,
    *,
    requests_min: int,
    samples_min: int,
    hold_s: float = 0.0,
    input_tokens: int = 0,
    slots: int | None = None,
    step_tokens: int | None = None,
    stopped: str = "",
) -> Level:
    """One load judged. `records` are all of its stage, probes left out; `tables` hold scrapes around and inside it."""
    records = unspoiled(records)
    spoken = [r for r in records if speaks(r)]
    faults = sum(caller_fault(r) for r in records)
    begun, ended = _borders(records)
    client = client_tests(records, limits, requests_min, samples_min)
    preemptions = window.delta(tables, window.PREEMPTIONS, begun, ended)
    tests = (
        *client,
        queue_test(tables, limits.queue_ms_p99, client[1].value, begun, ended),
        preemption_test(preemptions, len(spoken), limits.preempted_share),
    )
    steady_from, steady_to = _steady(records, streams)
    seen = pressure(tables, steady_from, steady_to, slots, step_tokens, preemptions)
    refused = sum(r.status in REFUSING_STATUS for r in spoken if failure(r))
    why = _open(records, spoken, faults, streams, stopped, tests, hold_s) or _light(spoken, input_tokens)
    failing = {test.name for test in tests if test.outcome is Outcome.FAIL}
    if failing & SERVERS_OWN or (failing and why not in SPOILED):
        outcome = Outcome.FAIL
    else:
        outcome = Outcome.INCONCLUSIVE if why else Outcome.PASS
    return Level(
        stage=stage,
        streams=streams,
        outcome=outcome,
        tests=tests,
        requests=len(spoken),
        failed=sum(failure(r) for r in spoken),
        ttft_samples=client[1].n,
        caller_faults=faults,
        stopped=stopped,
        resource=_resource(tests, seen, refused) if outcome is Outcome.FAIL else "",
        pressure=seen,
        why=why,
        from_ns=begun,
        to_ns=ended,
    )


def _borders(records: Sequence[Record]) -> tuple[int, int]:
    if not records:
        return 0, 0
    return min(r.sent_ns for r in records), max(r.end_ns for r in records)


def _light(spoken: Sequence[Record], input_tokens: int) -> str:
    """Prompts of far fewer tokens, by the server's own count, than the load was to have are not that load."""
    told = sorted(r.prompt_tokens for r in spoken if r.state is State.OK and r.prompt_tokens is not None)
    light = bool(told) and told[len(told) // 2] < PROMPT_SHARE_MIN * input_tokens
    return "prompts_too_short" if light else ""


def held_s(records: Sequence[Record]) -> float:
    """Seconds of the longest attempt, by its own requests."""
    attempts: dict[str, list[Record]] = {}
    for record in records:
        attempts.setdefault(record.labels.get("attempt", ""), []).append(record)
    return max((six((to - begun) / 1e9) for begun, to in map(_borders, attempts.values())), default=0.0)


def _steady(records: Sequence[Record], streams: int) -> tuple[int, int]:
    """From the instant at which every stream was sending to the last at which a request was sent: what comes after
    only drains."""
    sent = sorted(r.sent_ns for r in records)
    if not sent:
        return 0, 0
    begun = sent[min(streams, len(sent)) - 1]
    last = sent[-1] if len(sent) > streams else max(r.end_ns for r in records)
    return begun, max(begun, last)


def delivered(records: Sequence[Record], streams: int) -> float:
    """Mean requests in flight over the steady stretch, as a share of `streams`."""
    begun, ended = _steady(records, streams)
    if len(records) < streams:
        return 0.0
    if ended <= begun:
        return 1.0
    inside = sum(max(0, min(r.end_ns, ended) - max(r.written_ns or r.sent_ns, begun)) for r in records)
    return six(inside / (ended - begun) / streams)


def _open(
    records: Sequence[Record],
    spoken: Sequence[Record],
    faults: int,
    streams: int,
    stopped: str,
    tests: Sequence[Test],
    hold_s: float,
) -> str:
    """Why a load that missed no limit still cannot be said to have held; empty when it can."""
    if not spoken:
        return "no_requests"
    if faults > CALLER_SHARE_MAX * len(records):
        return "caller_faults"
    if stopped:
        return stopped
    if held_s(spoken) < HELD_SHARE * hold_s:
        return "held_too_short"
    if delivered(records, streams) < DELIVERED_SHARE_MIN:
        return "load_not_delivered"
    undecided = next((f"{t.name}_open" for t in tests if t.outcome is Outcome.INCONCLUSIVE), "")
    return "client_disqualified" if undecided and spoiled(records) else undecided


def _resource(tests: Sequence[Test], seen: Pressure, refused: int) -> str:
    """Saturated: at its bound for a fifth of the steady time while first token or queue miss their
    limit, or preemptions above the plan's share. An answer of 503 or 429 is a queue that was refused."""
    failing = {test.name for test in tests if test.outcome is Outcome.FAIL}
    if "preempted_share" in failing:
        return "kv"
    late = failing & {"ttft_ms_p99", "queue_ms_p99"} or ("error_rate" in failing and refused)
    return seen.bound if late else ""

"""Whether the witnesses can be trusted: they agree, the clock saw the saving, and nobody else used the server."""

from collections import Counter
from collections.abc import Sequence

from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.rounding import six
from signoff.core.words import Outcome, Severity
from signoff.judge.prefix.hits import dead_channels
from signoff.judge.prefix.made import made, rounds_needed
from signoff.judge.prefix.trials import CHANNELS, Trial, View
from signoff.judge.summaries import paired_difference, quantile


def channels_agree(view: View, lost: bool = False) -> Finding:
    """`prefix.channels.agree`: every witness of a request's hits says the same, and none is dead.

    With `lost` the missing hits are proved already, and nothing more is wanted of witnesses that say nothing else."""
    clean = [t for t in view.trials if t.ok and not t.disturbed]
    heard = {name: [t for t in clean if name in t.witnesses] for name in CHANNELS}
    speaking = [name for name in CHANNELS if heard[name]]
    odd = [t for t in clean if len(set(t.witnesses.values())) > 1]
    with_hits = [t for t in clean if any(t.witnesses.values())]
    dead = dead_channels(clean)
    values: dict[str, Value] = {
        "requests": len(clean),
        "channels": ", ".join(speaking),
        "disagreeing": len(odd),
        "dead": ", ".join(dead),
        "reason": "",
    }
    if not clean:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, _first_disturbance(view.trials) or "no_requests"
    elif len(speaking) < 2:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "one_channel" if speaking else "no_channel"
    elif dead:
        outcome, values["reason"] = Outcome.FAIL, "counter_not_wired"
    elif odd:
        outcome, values["reason"] = Outcome.FAIL, "channels_disagree"
    elif not with_hits:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "no_hits"
    elif len({t.round for t in clean} & view.whole) < rounds_needed(view.dossier):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_rounds"
    else:
        outcome = Outcome.PASS
    if odd:
        first = odd[0]
        values |= {f"first_{name}": value for name, value in first.witnesses.items()}
    return made(
        "prefix.channels.agree",
        outcome,
        values,
        limit={"channels_min": 2},
        evidence=view.cite(odd or clean),
        required=not (lost and values["reason"] == "no_hits"),
    )


def _first_disturbance(trials: Sequence[Trial]) -> str:
    return next((t.disturbed for t in trials if t.disturbed), "")


def quiet(view: View) -> Finding:
    """`prefix.quiet`: the counters around every request moved by that request alone."""
    reasons = Counter(t.disturbed for t in view.trials if t.disturbed)
    values: dict[str, Value] = {
        "requests": len(view.trials),
        "disturbed": sum(reasons.values()),
        "other_traffic": reasons["other_traffic"],
        "restarts": reasons["restart"],
        "not_scraped": reasons["not_scraped"],
        "garbled": reasons["garbled"],
        "rounds": len(view.whole),
        "reason": reasons.most_common(1)[0][0] if reasons else "",
    }
    if view.stopped == "not_idle" and not view.trials:
        values["reason"] = "not_idle"
    disturbed = [t for t in view.trials if t.disturbed]
    fine = not disturbed and len(view.whole) >= rounds_needed(view.dossier)
    return made(
        "prefix.quiet",
        Outcome.PASS if fine else Outcome.INCONCLUSIVE,
        values if fine else values | {"reason": values["reason"] or _cut(view)},
        limit={"disturbed": 0, "rounds_min": rounds_needed(view.dossier)},
        evidence=view.cite(disturbed or view.trials),
    )


def _cut(view: View) -> str:
    """Why too little was measured."""
    return "too_few_rounds" if view.trials else view.stopped or "no_requests"


def latency_pairs(view: View) -> list[tuple[Trial, Trial]]:
    """Uncached and cached trials of a round, paired in order: by the tokens they share, not by what was reported."""
    pairs: list[tuple[Trial, Trial]] = []
    for number in sorted({t.round for t in view.trials}):
        timed = [
            t
            for t in view.trials
            if t.round == number
            and t.arm != "gateway"
            and t.ok
            and not t.record.disqualified
            and t.ttft_ms is not None
            and t.expected
        ]
        slow = [t for t in timed if t.expected is not None and t.expected.best == 0]
        fast = [t for t in timed if t.expected is not None and t.expected.least > 0]
        pairs += list(zip(slow, fast, strict=False))
    return pairs


def latency_effect(view: View, lost: bool = False) -> Finding:
    """`prefix.latency.effect`: cached prompts show their first token sooner than uncached ones of the same round.

    With `lost` the missing hits are proved already, and no effect is wanted of hits that are not there."""
    pairs = latency_pairs(view)
    slow = [six(a.ttft_ms) for a, _ in pairs if a.ttft_ms is not None]
    fast = [six(b.ttft_ms) for _, b in pairs if b.ttft_ms is not None]
    gap = paired_difference(slow, fast)
    uncached, cached = quantile(slow, 0.5), quantile(fast, 0.5)
    hits = [b for _, b in pairs if any(b.witnesses.values())]
    values: dict[str, Value] = {
        "pairs": gap.n,
        "ttft_ms_uncached_p50": uncached.value,
        "ttft_ms_cached_p50": cached.value,
        "ttft_ms_saved": None if gap.value is None else six(-gap.value),
        "ttft_ms_saved_low": None if gap.high is None else six(-gap.high),
        "ttft_ms_saved_high": None if gap.low is None else six(-gap.low),
        "reason": "",
        "bound_by": "",
    }
    severity = Severity.FAIL
    if gap.high is None:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "too_few_pairs"
    elif 2 * len(hits) <= len(pairs):
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "no_hits"
    elif gap.high < 0:
        outcome = Outcome.PASS
    elif (bound_by := _bound_elsewhere(pairs)) != "":
        outcome, severity = Outcome.PASS, Severity.WARN
        values |= {"reason": "latency_bound_elsewhere", "bound_by": bound_by}
    else:
        outcome, values["reason"] = Outcome.INCONCLUSIVE, "no_effect_seen"
    return made(
        "prefix.latency.effect",
        outcome,
        values,
        limit={"ttft_ms_saved_low_min": 0},
        evidence=view.cite([t for pair in pairs for t in pair]),
        severity=severity,
        required=view.dossier.profile.cache.caching_required and not lost,
    )


def _bound_elsewhere(pairs: Sequence[tuple[Trial, Trial]]) -> str:
    """Where the first token's time goes when the server's own prefill did get shorter; empty when it did not.

    `queue` when waiting takes half of the cached requests' first-token time by the server's own count; otherwise the
    time passes outside the engine: `outside_engine`."""
    both = [
        (a.moved, b.moved, b.ttft_ms) for a, b in pairs if a.moved and b.moved and not a.disturbed and not b.disturbed
    ]
    prefill = [(a.prefill_s, b.prefill_s) for a, b, _ in both if a.prefill_s is not None and b.prefill_s is not None]
    shorter = paired_difference([a for a, _ in prefill], [b for _, b in prefill])
    if shorter.high is None or shorter.high >= 0:
        return ""
    waits = [(b.queue_s or 0.0) * 1e3 for _, b, _ in both]
    total = sum(ttft or 0.0 for _, _, ttft in both)
    return "queue" if total and sum(waits) >= 0.5 * total else "outside_engine"


def arm_table(view: View) -> list[Finding]:
    """`prefix.arm.measured`, one an arm: the numbers of the report's table. Says, never judges."""
    found = []
    for name in dict.fromkeys(t.name for t in sorted(view.trials, key=lambda t: t.name)):
        trials = [t for t in view.trials if t.name == name]
        ok = [t for t in trials if t.ok]
        decided = [t for t in ok if t.hit is not None and t.expected is not None]
        expected = sum(t.expected.best for t in decided if t.expected is not None)
        hit = sum(t.hit or 0 for t in decided)
        ttft = quantile([six(t.ttft_ms) for t in ok if t.ttft_ms is not None], 0.5)
        values: dict[str, Value] = {
            "n": len(trials),
            "ok": len(ok),
            "decided": len(decided),
            "input_tokens": sum(t.record.prompt_tokens or 0 for t in decided),
            "shared_tokens": sum(t.expected.shared for t in decided if t.expected is not None),
            "expected_tokens": expected,
            "hit_tokens": hit,
            "share": six(hit / expected) if expected else None,
            "ttft_ms_p50": ttft.value,
            "ttft_ms_p50_low": ttft.low,
            "ttft_ms_p50_high": ttft.high,
            "witnesses": ", ".join(sorted({channel for t in decided for channel in t.witnesses})),
        }
        found.append(
            made(
                "prefix.arm.measured",
                Outcome.PASS if decided else Outcome.INCONCLUSIVE,
                values,
                evidence=view.cite(trials),
                subject=name,
                required=False,
                severity=Severity.INFO,
            )
        )
    return found

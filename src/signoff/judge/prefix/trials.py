"""Trials: every request of the gate with what was to be expected of it and what each witness said.

View
  trials    one a request, in order of sending, warm-up and ladder left out
  config    resolved cache configuration, from the server's own scrape
  unit      alignment unit and its source
  rule      the cache model that expectations come from
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence
from signoff.core.record import Record
from signoff.core.words import State
from signoff.judge.prefix.expected import CacheModel, Expected, Ids, Rule, shared_tokens
from signoff.judge.prefix.next_step import Pair, Unit, retention_of, unit_of
from signoff.read.prefix_cache import CacheConfig, CacheCounters, cache_config, cache_counters
from signoff.read.scrape import Scrape, read_scrape
from signoff.read.token_list import unpack

STAGE = "prefix.rounds"
MEASURED_ARMS = ("cold", "warm", "replay", "control", "gateway")
ROUND = ("cold", "warm_1", "warm_2", "warm_3", "replay", "control_head", "control_tools", "control_salt")
"""The requests of a round; through the gateway one more where the plan names one."""
COUNT_MAX = 2.0**53
"""Above this a float no longer counts one by one."""
DIGITS_MAX = 9
"""Digits of a round's number."""
CHANNELS = ("cached_tokens", "hits", "local_cache_hit", "prompt_cached")
"""Witnesses of one request's hits: the answer's usage, and three counters of the server."""


class Moved(Struct, frozen=True, kw_only=True):
    """By how much the counters moved around one request, summed over servers; `None`: not offered."""

    queries: float | None = None
    hits: float | None = None
    local_cache_hit: float | None = None
    prompt_cached: float | None = None
    external_hits: float | None = None
    """Hits beyond the local ones, from a KV connector."""
    prompt_tokens: float | None = None
    requests_finished: float | None = None
    prefill_s: float | None = None
    queue_s: float | None = None
    preemptions: float | None = None
    served_by: str = ""
    """Server and engine whose prompt tokens moved; empty when none or several did."""
    busy_before: float = 0.0
    busy_after: float = 0.0
    restarted: bool = False
    garbled: bool = False
    """Some value is no number that could be counted: NaN, infinite, negative, beyond exactness."""


class Trial(Struct, frozen=True, kw_only=True):
    """One request. Token counts are tokens."""

    record: Record
    arm: str
    round: int
    control: str = ""
    ids: Ids | None
    shared_cold: int | None
    """Longest common token prefix with the cold prompt of its round, whatever its key."""
    expected: Expected | None
    moved: Moved | None
    """`None`: no scrape on both sides."""
    disturbed: str
    """Why its counters are not its own: `other_traffic`, `restart`, `not_scraped`, `garbled`; empty when they are."""

    @property
    def ok(self) -> bool:
        return self.record.state is State.OK

    @property
    def witnesses(self) -> dict[str, int]:
        """What each channel that speaks says of the hits; counters only in an undisturbed window.

        Two counters speak of local hits alone; what a KV connector brought is added to them."""
        said: dict[str, int] = {}
        if self.record.cached_tokens is not None:
            said["cached_tokens"] = self.record.cached_tokens
        if self.moved is not None and not self.disturbed:
            for name in CHANNELS[1:]:
                value = getattr(self.moved, name)
                if value is not None:
                    more = 0.0 if name == "prompt_cached" else self.moved.external_hits or 0.0
                    said[name] = round(value + more)
        return said

    @property
    def hit(self) -> int | None:
        """What two channels agree on; `None` when no two do."""
        return agreed(self.witnesses)

    @property
    def ttft_ms(self) -> float | None:
        return None if self.record.ttft_ns is None else self.record.ttft_ns / 1e6

    @property
    def name(self) -> str:
        """`cold`, `warm_1`, `replay`, `control_head`."""
        extra = self.record.labels.get("warm_index", "") or self.control
        return f"{self.arm}_{extra}" if extra else self.arm


def agreed(said: Mapping[str, int]) -> int | None:
    """What the answer's own count and a counter both say; without the answer's count, what two counters say.

    The counters come from one place, so however many they are, they do not outvote the answer."""
    counted = [value for name, value in said.items() if name != "cached_tokens"]
    own = said.get("cached_tokens")
    if own is not None:
        return own if own in counted else None
    votes = Counter(counted).most_common(2)
    if not votes or votes[0][1] < 2 or (len(votes) > 1 and votes[1][1] == votes[0][1]):
        return None
    return votes[0][0]


class View(Struct, frozen=True, kw_only=True):
    dossier: Dossier
    trials: tuple[Trial, ...]
    config: CacheConfig | None
    unit: Unit
    rule: Rule | None
    """`None` while the unit is not known."""
    scrapes: tuple[Evidence, ...]
    tokens: tuple[Evidence, ...]
    stopped: str
    echo: tuple[Record, ...]
    """Requests that asked the server for the prompt's token ids as it rendered them."""
    held: int | None
    """Hits of a prompt that another request was just holding; `None` when that was not tried or not told."""
    offered: frozenset[str]
    """Counter series that the server ever showed."""

    @property
    def whole(self) -> frozenset[int]:
        """Rounds of which every request is there, once: what was lost must not make a round look better."""
        url = self.dossier.plan.service.gateway_url
        names = (*ROUND, "gateway") if url is not None and url != "none" else ROUND
        seen = Counter((t.round, t.name) for t in self.trials)
        return frozenset(k for k, _ in seen if all(seen[k, name] == 1 for name in names))

    def of(self, *arms: str) -> list[Trial]:
        return [t for t in self.trials if t.arm in arms]

    def cite(self, trials: Sequence[Trial], most: int = 12) -> tuple[str, ...]:
        """Citations of the records behind `trials`, and of the first one's token ids and scrapes."""
        first = trials[0].record.id if trials else ""
        cards = [e for e in (*self.tokens, *self.scrapes) if e.digest and e.conditions.get("record") == first and first]
        return (*(f"record:{t.record.id}" for t in trials[:most]), *(f"sha256:{e.digest}" for e in cards))


def read_view(dossier: Dossier) -> View:
    """Everything the checks of this gate look at."""
    scrapes = [e for e in dossier.of_kind("scrape") if e.stage == STAGE]
    tokens = [e for e in dossier.of_kind("tokenize") if e.stage == STAGE]
    read = {e.digest: _scrape(dossier, e) for e in scrapes if e.digest}
    config = next((c for c in (cache_config(s.series) for s in read.values()) if c is not None), None)
    series = {digest: cache_counters(s.series, s.created) for digest, s in read.items()}
    moves = _moves(scrapes, series)
    records = dossier.of_stage(STAGE)
    unit = unit_of(config, dossier.profile, _pairs(records, moves))
    rule = None
    counters = list(series.values())
    if unit.tokens is not None:
        rule = Rule(
            unit=unit.tokens,
            retention=retention_of(config, dossier.profile),
            may_drop_unit=any(c.drafting for c in counters),
        )
    finished = dossier.finished(STAGE)
    return View(
        dossier=dossier,
        trials=_trials(records, rule, _token_ids(dossier, tokens), moves),
        config=config,
        unit=unit,
        rule=rule,
        scrapes=tuple(scrapes),
        tokens=tuple(tokens),
        echo=tuple(r for r in records if r.labels.get("arm") == "echo"),
        stopped=finished.stopped if finished is not None else "unfinished",
        held=_held(records, moves),
        offered=frozenset(
            name for c in counters for name in CacheCounters.__struct_fields__ if getattr(c, name) is not None
        ),
    )


def _scrape(dossier: Dossier, card: Evidence) -> Scrape:
    try:
        return read_scrape(dossier.blob(card.digest))
    except KeyError:
        return Scrape(series={})


def _token_ids(dossier: Dossier, cards: Sequence[Evidence]) -> dict[str, Ids]:
    """Token ids by record."""
    raws: dict[str, bytes] = {}
    for card in cards:
        record = card.conditions.get("record")
        if card.digest and isinstance(record, str):
            try:
                raws[record] = dossier.blob(card.digest)
            except KeyError:
                continue
    found = {record: unpack(raw, raws.get) for record, raw in raws.items()}
    arrays = {record: _array(ids) for record, ids in found.items() if ids is not None}
    return {record: ids for record, ids in arrays.items() if ids is not None}


def _array(ids: Sequence[int]) -> Ids | None:
    """`None` when an id is none: no vocabulary is larger than 64 bits."""
    try:
        return np.asarray(ids, dtype=np.int64)
    except OverflowError:
        return None


def _moves(scrapes: Sequence[Evidence], series: Mapping[str, CacheCounters]) -> dict[str, Moved]:
    """Counter movements by record, over the servers that were scraped on both sides of it."""
    sides: dict[tuple[str, str], dict[str, CacheCounters]] = {}
    missing: set[str] = set()
    for card in scrapes:
        record, when = card.conditions.get("record"), card.conditions.get("when")
        if not isinstance(record, str) or not isinstance(when, str):
            continue
        if card.missing or card.digest not in series:
            missing.add(record)
            continue
        sides.setdefault((record, when), {})[card.where] = series[card.digest]
    moves: dict[str, Moved] = {}
    for record in sorted({r for r, _ in sides} - missing):
        before, after = sides.get((record, "before"), {}), sides.get((record, "after"), {})
        if before and set(before) == set(after):
            moved = _moved([(before[url], after[url]) for url in sorted(before)])
            served = [
                f"{url}#{engine}"
                for url in sorted(after)
                for engine, tokens in sorted(after[url].prompt_by_engine.items())
                if tokens > before[url].prompt_by_engine.get(engine, 0.0)
            ]
            moves[record] = replace(moved, served_by=served[0] if len(served) == 1 else "")
    return moves


def _moved(pairs: Sequence[tuple[CacheCounters, CacheCounters]]) -> Moved:
    fields = ("queries", "hits", "local_cache_hit", "prompt_cached", "prompt_tokens", "requests_finished")
    steps = {
        name: _step([(getattr(b, name), getattr(a, name)) for b, a in pairs])
        for name in (*fields, "external_hits", "prefill_s", "queue_s", "preemptions")
    }
    restarted = any(value is not None and value < 0 for value in steps.values()) or any(
        b.started_s is not None and a.started_s is not None and b.started_s != a.started_s for b, a in pairs
    )
    moved = Moved(
        busy_before=sum((b.running or 0.0) + (b.waiting or 0.0) for b, _ in pairs),
        busy_after=sum((a.running or 0.0) + (a.waiting or 0.0) for _, a in pairs),
        restarted=restarted,
        garbled=any(not _countable(v) for pair in pairs for side in pair for v in _numbers(side)),
    )
    return replace(moved, **steps)


def _numbers(counters: CacheCounters) -> list[float]:
    values = [getattr(counters, name) for name in CacheCounters.__struct_fields__]
    return [v for v in values if isinstance(v, float)]


def _countable(value: float) -> bool:
    return math.isfinite(value) and 0 <= value <= COUNT_MAX


def _step(pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    """The sum of differences; a series that appears only afterwards began at 0 (lazy series).

    `None` too where a value is no count: NaN, infinite, negative or too large to be exact."""
    known = [(before or 0.0, after) for before, after in pairs if after is not None]
    if not known or not all(_countable(value) for pair in known for value in pair):
        return None
    return sum(after - before for before, after in known)


def _pairs(records: Sequence[Record], moves: Mapping[str, Moved]) -> list[Pair]:
    """Prompt and hit tokens of the ladder's replays."""
    pairs: list[Pair] = []
    for record in records:
        if record.labels.get("arm") != "ladder" or record.labels.get("turn") != "again":
            continue
        hit: float | None = record.cached_tokens
        if hit is None and record.id in moves:
            hit = moves[record.id].hits
        if record.state is State.OK and record.prompt_tokens is not None and hit is not None:
            pairs.append((record.prompt_tokens, round(hit)))
    return pairs


def _held(records: Sequence[Record], moves: Mapping[str, Moved]) -> int | None:
    for record in records:
        if record.labels.get("arm") == "held" and record.labels.get("turn") == "second" and record.state is State.OK:
            if record.cached_tokens is not None:
                return record.cached_tokens
            counted = moves[record.id].hits if record.id in moves else None
            return None if counted is None else round(counted)
    return None


def _trials(
    records: Sequence[Record], rule: Rule | None, ids: Mapping[str, Ids], moves: Mapping[str, Moved]
) -> tuple[Trial, ...]:
    """Trials in order of sending; the model is told of each prompt after it was asked about it."""
    model = CacheModel(rule) if rule is not None else None
    cold: dict[str, Ids] = {}
    trials = []
    for record in sorted(records, key=lambda r: r.sent_ns):
        labels, prompt = record.labels, ids.get(record.id)
        arm, number = labels.get("arm", ""), labels.get("round", "")
        if arm not in MEASURED_ARMS or not _small_number(number):
            continue
        if prompt is not None and arm == "cold":
            cold[number] = prompt
        key = f"{labels.get('rank', '')}|{record.id if labels.get('control') == 'salt' else ''}"
        trials.append(
            Trial(
                record=record,
                arm=arm,
                round=int(number),
                control=labels.get("control", ""),
                ids=prompt,
                shared_cold=shared_tokens(prompt, cold[number]) if prompt is not None and number in cold else None,
                expected=model.expect(prompt, key) if model is not None and prompt is not None else None,
                moved=moves.get(record.id),
                disturbed=_disturbed(record, moves.get(record.id)),
            )
        )
        if model is not None and prompt is not None:
            model.send(prompt, key, record.state is State.OK)
    return tuple(trials)


def _small_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX


def _disturbed(record: Record, moved: Moved | None) -> str:
    """Whether the counters around a request moved by that request alone."""
    if moved is None:
        return "not_scraped"
    if moved.garbled:
        return "garbled"
    if moved.restarted:
        return "restart"
    if moved.busy_before > 0 or moved.busy_after > 0:
        return "other_traffic"
    if moved.requests_finished is not None and moved.requests_finished > 1:
        return "other_traffic"
    tokens = record.prompt_tokens
    for counted in (moved.prompt_tokens, moved.queries):
        if tokens is not None and counted is not None and counted > tokens:
            return "other_traffic"
    return ""

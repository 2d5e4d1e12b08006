"""Clues of prefix caching: off by a flag, too coarse for the prompts, broken by a changing head, or lost."""

import math
from itertools import pairwise
from typing import Any

import msgspec
import re2

from signoff.core.words import Cause, Phase, Severity, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with
from signoff.judge.lean.load import in_order
from signoff.read.answer import mapping_of
from signoff.read.case_file import CaseFile
from signoff.read.scrape import Scrape

_PREFIX, _PHASE, _LIMITED = Cause.PREFIX_CACHE, Phase.PREFIX, VerdictName.LIMITED
QUERIES_MIN = 10_000
"""Queried tokens below which no hits prove nothing: a handful of prompts, or prompts under one block."""
K3_UNIT_TOKENS = 1536
"""Hit unit of Kimi K3 unless `--prefix-match-unit` makes it finer (recipe, resolved on Blackwell TP8)."""
_ROW = re2.compile(
    r"(?i)\b(?:in|input|prompt|prompt_tokens|input_tokens|n_prompt)[=: ]+(?P<input>\d{3,})\b[^\n]{0,80}?"
    r"\b(?:cache\w*|cached\w*|hits?|reused)[=: ]+(?P<cached>\d+)"
)
_SHARED = re2.compile(
    r"(?i)(?:shares?|common|matche[sd]|reuse[sd]?)[^\n]{0,40}?first (?P<at>\d+) of (?P<of>\d+)[^\n]{0,60}token|"
    r"diverge\w*[^\n]{0,30}?(?:at|position|token)\D{0,10}(?P<at2>\d+)"
)
_SHARED_PREFIX = re2.compile(r"(?i)shared[_ ]prefix(?:[_ ](?:tokens|len\w*))?\W{1,3}(?P<n>\d+)")
_REPEATS = re2.compile(r"(?i)(?:same|identical|repeat)[^\n]{0,80}cached_tokens\W{1,3}(?P<cached>[\d, ]+)")


def prefix_clues(case: Case) -> list[Clue]:
    return _flags(case) + _scrapes(case) + _usage(case) + _texts(case) + _bodies(case)


def _flags(case: Case) -> list[Clue]:
    """Off in the running engine, whatever the flags say."""
    file, launch = case.launch()
    out: list[Clue] = []
    for log in case.of("log"):
        rows = [row for row in log.log.stats if (row.prompt_tokens_per_s or 0) > 1000 and row.hit_perc is not None]
        if len(rows) >= 4 and all((row.hit_perc or 0) < 1 for row in rows) and log.log.prefix_caching is not False:
            why = "Prompts are prefilled all the time and none hits the cache."
            place = (log.name, rows[-1].line, line_with(log.text, "hit rate")[1], why)
            out.append(failing("no_hits", _PREFIX, _PHASE, _LIMITED, 30, *place))
    for key in ("no-enable-prefix-caching", "disable-radix-cache", "no-prefix-caching"):
        if key in launch.flags and file is not None and file.kind == "launch":
            line, text = line_with(file.text, key)
            why = "The launch switches prefix caching off."
            out.append(failing("prefix_off", _PREFIX, _PHASE, _LIMITED, 66, file.name, line, text, why))
    for log in case.of("log"):
        busy = [row for row in log.log.stats if (row.prompt_tokens_per_s or 0) > 1000]
        idle = not any((row.hit_perc or 0) > 0 for row in log.log.stats)
        if log.log.prefix_caching is False and busy and idle:
            line, text = line_with(log.text, "enable_prefix_caching")
            why = "The engine resolved prefix caching to off, so every turn is prefilled from the start."
            out.append(failing("prefix_off", _PREFIX, _PHASE, _LIMITED, 64, log.name, line, text, why))
        elif busy and idle and len(busy) > 1 and all(row.hit_perc is None for row in log.log.stats):
            why = "The statistics have no hit-rate field: prefix caching is off."
            line = busy[0].line
            out.append(failing("prefix_off", _PREFIX, _PHASE, _LIMITED, 32, log.name, line, "", why))
    return out


def _scrapes(case: Case) -> list[Clue]:
    files = [file for file in case.of("scrape") if file.scrape is not None]
    files = in_order(files)
    if len(files) >= 2:
        return _between(files[0], files[-1])
    out: list[Clue] = []
    for file in files:
        scrape = file.scrape
        assert scrape is not None
        queries, hits = _counters(scrape)
        if queries is None or hits is None:
            continue
        line, text = _sample(file, "hits_total" if "hits_total" in file.text else "hits")
        if queries == 0 and (scrape.total("vllm:prompt_tokens_total") or 0) > QUERIES_MIN:
            why = "Prompts were served and none was looked up: prefix caching is off."
            out.append(failing("prefix_off", _PREFIX, _PHASE, _LIMITED, 70, file.name, line, text, why))
        elif hits == 0 and queries >= QUERIES_MIN and _faster(case):
            why = "No hit is counted, yet a repeated prompt answers several times sooner: the counter is not connected."
            clue = Clue(kind="sample_small", phase=_PHASE, verdict=VerdictName.INCOMPLETE, file=file.name, line=line,
                        text=text, why=why)  # fmt: skip
            out.append(clue)
        elif hits == 0 and queries >= QUERIES_MIN:
            why = f"None of {queries:.0f} queried tokens hit the cache."
            out.append(failing("no_hits", _PREFIX, _PHASE, _LIMITED, 62, file.name, line, text, why))
        elif hits == 0:
            why = f"Only {queries:.0f} tokens were ever queried: too little to say anything."
            clue = Clue(kind="sample_small", phase=_PHASE, verdict=VerdictName.INCOMPLETE, file=file.name, line=line,
                        text=text, why=why, severity=Severity.INFO)  # fmt: skip
            out.append(clue)
        elif queries >= 5 * QUERIES_MIN and hits < 0.3 * queries and _engines(scrape) >= 4:
            why = (
                f"{hits / queries:.0%} of tokens hit over {_engines(scrape)} engines: sessions do not return to theirs."
            )
            out.append(failing("scattered", _PREFIX, _PHASE, _LIMITED, 35, file.name, line, text, why))
        else:
            why = f"{hits / max(queries, 1):.0%} of queried tokens hit."
            out.append(harmless("hits", _PHASE, file.name, line, text, why))
    return out


def _engines(scrape: Scrape) -> int:
    return sum(key.startswith("vllm:prefix_cache_queries_total{") for key in scrape.series)


_TTFTS = re2.compile(r"(?i)ttft\w*[^\n\d]{0,20}(?P<s>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)?")


def _faster(case: Case) -> bool:
    """Whether some text tells a first-token time that falls to a third or less on a repeat."""
    for file in case.of("text", "log", "json"):
        values = [
            float(match["s"]) / (1000 if match["unit"] == "ms" else 1) for match in _TTFTS.finditer(file.text[:100_000])
        ]
        if len(values) >= 2 and 0 < min(values[1:]) <= values[0] / 3:
            return True
    return False


def _counters(scrape: Scrape) -> tuple[float | None, float | None]:
    queries = scrape.total("vllm:prefix_cache_queries_total")
    hits = scrape.total("vllm:prefix_cache_hits_total")
    if queries is None:
        queries, hits = (
            scrape.total("vllm:gpu_prefix_cache_queries_total"),
            scrape.total("vllm:gpu_prefix_cache_hits_total"),
        )
    return queries, hits


def _sample(file: CaseFile, part: str) -> tuple[int, str]:
    for number, row in enumerate(file.text.split("\n"), 1):
        if "prefix_cache" in row and part in row and not row.startswith("#"):
            return number, row.strip()[:500]
    return 0, ""


def _between(first: CaseFile, last: CaseFile) -> list[Clue]:
    """Two scrapes: a cache that once hit and no longer does has degraded."""
    assert first.scrape is not None
    assert last.scrape is not None
    (queries_a, hits_a), (queries_b, hits_b) = _counters(first.scrape), _counters(last.scrape)
    if queries_a is None or queries_b is None or hits_a is None or hits_b is None:
        return []
    line, text = _sample(last, "hits")
    asked, hit = queries_b - queries_a, hits_b - hits_a
    if asked < 0 or hit < 0:
        why = "Counters fell: the server was restarted between the scrapes."
        return [Clue(kind="restarted", severity=Severity.WARN, file=last.name, line=line, text=text, why=why)]
    before = hits_a / queries_a if queries_a else 0.0
    if asked >= QUERIES_MIN and hit == 0 and before > 0.05:
        why = f"{before:.0%} of tokens hit before, none of the {asked:.0f} since: the cache broke while serving."
        args = (Cause.SUSTAINED, Phase.SOAK, VerdictName.REWORK, 90, last.name, line, text, why)
        return [failing("hits_frozen", *args)]
    if asked >= QUERIES_MIN and hit == 0:
        why = f"None of {asked:.0f} queried tokens hit the cache."
        return [failing("no_hits", _PREFIX, _PHASE, _LIMITED, 66, last.name, line, text, why)]
    if asked >= QUERIES_MIN and before > 0.2 and hit / asked < before / 4:
        why = f"The share of hits fell from {before:.0%} to {hit / asked:.0%}."
        return [
            failing("hits_falling", Cause.SUSTAINED, Phase.SOAK, VerdictName.REWORK, 60, last.name, line, text, why)
        ]
    return [harmless("hits", _PHASE, last.name, line, text, "Hits grow with queries.")]


def _figure(row: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = row.get(name)
        if value is None:
            value = mapping_of(row.get("usage")).get(name)
        if value is None:
            details = mapping_of(row.get("prompt_tokens_details")) or mapping_of(
                mapping_of(row.get("usage")).get("prompt_tokens_details")
            )
            value = details.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
    return None


def _usage(case: Case) -> list[Clue]:
    """Usage of successive requests: how much of each prompt came from the cache."""
    out: list[Clue] = []
    for file in case.of("records"):
        pairs = []
        for row in file.records[:10_000]:
            prompt = _figure(row, "prompt_tokens", "input_tokens")
            cached = _figure(row, "cached_tokens", "cache_read_input_tokens")
            if prompt is not None and cached is not None:
                pairs.append((prompt, cached))
        if len(pairs) >= 3:
            out += _judged(case, file, pairs, '"cached')
    return out


def _judged(case: Case, file: CaseFile, pairs: list[tuple[int, int]], part: str) -> list[Clue]:
    line, text = line_with(file.text, part)
    later = pairs[1:]
    total, hit = sum(p for p, _ in later), sum(c for _, c in later)
    if hit == 0 and total >= QUERIES_MIN:
        why = f"No token of {total} hit the cache after the first request."
        return [failing("no_hits", _PREFIX, _PHASE, _LIMITED, 72, file.name, line, text, why)]
    unit = math.gcd(*(cached for _, cached in pairs if cached)) if hit else 0
    multiples = len({cached for _, cached in pairs if cached})
    if unit > K3_UNIT_TOKENS and multiples >= 2:
        line, text = line_with(file.text, str(next(cached for _, cached in pairs if cached)))
        lost = sum(min(p - c, unit) for p, c in later)
        why = (
            f"Hits are always a multiple of {unit} tokens, several times the model's own block: block sizes that do "
            f"not divide each other. {lost // len(later)} tokens a request are prefilled again."
        )
        return [failing("unit_coarse", _PREFIX, _PHASE, _LIMITED, 84, file.name, line, text, why)]
    edge = _boundary(pairs, unit)
    if edge:
        line, text = line_with(file.text, str(edge))
        why = f"A prompt of {edge} tokens misses while others hit whole blocks: a fault at the block's edge."
        return [failing("boundary", _PREFIX, _PHASE, _LIMITED, 74, file.name, line, text, why)]
    grows = all(b >= a for (a, _), (b, _) in zip(pairs, later, strict=False))
    flat = max(c for _, c in pairs) < min(p for p, _ in pairs) / 3
    if grows and flat and pairs[-1][0] > 1.5 * pairs[0][0] and hit / total < 0.3:
        why = (
            "Prompts grow turn by turn and the cached part does not: their head changes, so that nothing after it hits."
        )
        return [failing("head_changes", _PREFIX, _PHASE, _LIMITED, 86, file.name, line, text, why)]
    if hit / max(total, 1) < 0.1 and total >= QUERIES_MIN * 3:
        why = f"Only {hit / total:.0%} of prompt tokens came from the cache."
        return [failing("hits_low", _PREFIX, _PHASE, _LIMITED, 50, file.name, line, text, why)]
    why = f"{hit / max(total, 1):.0%} of prompt tokens came from the cache."
    return [harmless("hits", _PHASE, file.name, line, text, why)]


def _boundary(pairs: list[tuple[int, int]], unit: int) -> int:
    """The prompt length that misses at the edge of a block, when others hit whole blocks; else 0."""
    unit = unit if unit >= 128 else K3_UNIT_TOKENS
    hit = [cached for _, cached in pairs if cached]
    if not hit or any(cached % 128 for cached in hit):
        return 0
    for (before, _), (prompt, cached) in pairwise(pairs):
        if cached == 0 and prompt >= unit and (before % unit == 0 or prompt % unit == 0):
            return prompt
    return 0


def _texts(case: Case) -> list[Clue]:
    out: list[Clue] = []
    unit, told = _unit(case)
    for file in case.of("text", "log"):
        head = file.text[:500_000]
        pairs = [(int(m["input"][:9]), int(m["cached"][:9])) for m in _ROW.finditer(head)]
        if len(pairs) >= 3:
            out += _judged(case, file, pairs, _first(_ROW, head))
        out += _creep(file, head)
        if (found := _SHARED_PREFIX.search(head)) and unit and int(found["n"][:9]) < unit:
            line, text = line_with(head, found[0])
            why = f"The shared prefix is shorter than one hit unit of {unit} tokens{told}, so that it can never hit."
            out.append(failing("unit_coarse", _PREFIX, _PHASE, _LIMITED, 90, file.name, line, text, why))
        if found := _REPEATS.search(head):
            values = [part.strip() for part in found["cached"].split(",") if part.strip()]
            if len(values) >= 2 and all(value == "0" for value in values):
                line, text = line_with(head, found[0])
                why = "An identical prompt, sent again, does not hit."
                out.append(failing("repeat_misses", _PREFIX, _PHASE, _LIMITED, 68, file.name, line, text, why))
    return out


def _first(pattern: re2._Regexp, text: str) -> str:
    found = pattern.search(text)
    return str(found[0])[:80] if found else ""


def _unit(case: Case) -> tuple[int, str]:
    """Tokens of one hit unit, as logged, set or known of the model; with where that is from."""
    _, launch = case.launch()
    wanted = launch.flags.get("prefix-match-unit", "")
    if wanted.isdigit():
        return int(wanted), ", as launched"
    for file in case.of("log"):
        if file.log.attention_block_tokens:
            return file.log.attention_block_tokens, ", as logged"
    if "kimi-k3" in f"{launch.model} {launch.image}".lower():
        return K3_UNIT_TOKENS, " (Kimi K3)"
    return 0, ""


def _creep(file: CaseFile, head: str) -> list[Clue]:
    """The place of divergence moves by the same step in each request: a counter inside the prompt."""
    at = [int((m["at"] or m["at2"])[:9]) for m in _SHARED.finditer(head)]
    steps = {b - a for a, b in pairwise(at)}
    if len(at) < 3:
        return []
    line, text = line_with(head, _first(_SHARED, head))
    if len(steps) == 1 and 0 < next(iter(steps)) < 256:
        why = f"The point of divergence moves by {next(iter(steps))} tokens a request: something in the head counts."
    elif len(set(at)) == 1:
        why = "Every request diverges at the same place: something there changes each time."
    else:
        return []
    return [failing("head_changes", _PREFIX, _PHASE, _LIMITED, 88, file.name, line, text, why)]


def _bodies(case: Case) -> list[Clue]:
    """Successive request bodies that part near the start and agree after it: a nonce at the head."""
    out: list[Clue] = []
    for file in case.of("records"):
        bodies = [row for row in file.records[:200] if "messages" in row or "system" in row or "prompt" in row]
        texts = [_prompt(row) for row in bodies]
        for number, (one, two) in enumerate(pairwise(texts), 1):
            at = common_prefix(one, two)
            if at == len(one) or at == len(two):
                continue
            tail = common_prefix(one[at:][::-1], two[at:][::-1])
            if tail > at / 2 and tail >= 20 and at < 0.8 * len(one):
                line, text = line_with(file.text, one[max(0, at - 12) : at + 4]) if at else (number, "")
                why = "Two successive requests differ near the head and agree after it: nothing behind it can hit."
                clue = failing("head_changes", _PREFIX, _PHASE, _LIMITED, 85, file.name, line or number, text, why)
                out.append(clue)
                break
    return out


def common_prefix(one: str, two: str) -> int:
    """Characters that two texts share from the front, by halving: comparing slices is quick."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _prompt(row: dict[str, Any]) -> str:
    """The text of a request in the order in which a server renders it: system, tools, messages."""
    parts = [row.get("system"), row.get("tools"), row.get("prompt"), row.get("messages")]
    return "".join(msgspec.json.encode(part).decode("utf-8", "replace") for part in parts if part is not None)[:200_000]

"""Clues of load: statistics lines, scrapes, benchmark results, requests given up, memory that grows."""

import re
from itertools import pairwise

import re2

from signoff.core.words import Cause, Phase, VerdictName
from signoff.judge.lean.callers import seconds_of
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, harmless, line_with
from signoff.read.case_file import CaseFile
from signoff.read.launch_log import StatsLine
from signoff.read.scrape import Scrape

_CONC, _SOAK, _SCALE, _REWORK = Cause.CONCURRENCY, Cause.SUSTAINED, VerdictName.SCALE, VerdictName.REWORK
WAITING_MIN = 5
"""A queue of fewer is a moment, not a state."""
KV_FULL, KV_LOW = 0.95, 0.8


_DIGITS = re.compile(r"(\d+)")


def load_clues(case: Case) -> list[Clue]:
    out: list[Clue] = []
    for file in case.files:
        out += _statistics(file)
    out += _scrapes(case)
    for file in case.of("benchmark"):
        out += _benchmark(file)
    return out + _memory(case)


def _queue(kv: float, waiting: float, running: float) -> tuple[str, str]:
    """Which bound makes requests wait, and in words."""
    if running <= 2 and waiting > running and kv < KV_FULL:
        return "head_of_line", "One long request holds the pool and the next cannot be admitted."
    if kv >= KV_FULL:
        return "kv_bound", "The cache is full and requests queue behind it."
    if kv < KV_LOW:
        return "prefill_bound", "Requests queue while the cache is far from full: prefill or slots are the bound."
    return "queue", "Requests queue."


def _statistics(file: CaseFile) -> list[Clue]:
    rows = file.log.stats
    if not rows:
        return []
    leak = _leak(file, rows)
    if leak:
        return leak
    queued = [row for row in rows if row.waiting >= WAITING_MIN]
    if queued and len(queued) * 2 >= len(rows):
        worst = max(queued, key=lambda row: row.waiting)
        kv = max((row.kv_perc or 0.0) for row in queued) / 100
        kind, why = _queue(min(kv, (worst.kv_perc or 0) / 100) if kv < KV_FULL else kv, worst.waiting, worst.running)
        _, text = _row(file, worst.line)
        weight = 82 if len(queued) > 1 else 60
        return [failing(kind, _CONC, Phase.CONCURRENCY, _SCALE, weight, file.name, worst.line, text, why)]
    full = [row for row in rows if row.running in (1, 2) and (row.kv_perc or 0) >= 95]
    if full and len(full) * 2 >= len(rows):
        _, text = _row(file, full[-1].line)
        why = "One or two requests alone fill the cache: their length, not their number, is the bound."
        args = (Cause.LONG_INPUT, Phase.LONG_INPUT, _SCALE, 58, file.name, full[-1].line, text, why)
        return [failing("kv_one_request", *args)]
    slower = _slower(file, rows)
    if slower:
        return slower
    preempted = [row for row in rows if (row.preemptions or 0) > 0]
    if preempted:
        last = preempted[-1]
        _, text = _row(file, last.line)
        why = f"{last.preemptions} preemptions: the cache does not hold what runs."
        return [failing("preemptions", _CONC, Phase.CONCURRENCY, _SCALE, 55, file.name, last.line, text, why)]
    busiest = max(rows, key=lambda row: (row.running, row.kv_perc or 0.0))
    _, text = _row(file, busiest.line)
    why = "Requests run, none wait for long, and the cache is not exhausted."
    return [harmless("serving", Phase.AGENT, file.name, busiest.line, text, why)]


def _row(file: CaseFile, number: int) -> tuple[int, str]:
    rows = file.text.split("\n", number)
    return number, rows[number - 1].strip()[:500] if len(rows) >= number else ""


def _leak(file: CaseFile, rows: tuple[StatsLine, ...]) -> list[Clue]:
    """Tokens or use that grow while fewer requests run, or that stay when none does."""
    counted = [row for row in rows if row.tokens is not None]
    first, last = (counted[0], counted[-1]) if len(counted) > 1 else (None, None)
    grown = first and last and (last.tokens or 0) > (first.tokens or 0) and last.running < first.running
    if first and last and grown and last.waiting >= first.waiting and (last.kv_perc or 0) > 85:
        _, text = _row(file, last.line)
        why = "Held tokens grow while fewer requests run: finished requests keep their cache."
        return [failing("kv_held", _SOAK, Phase.SOAK, _REWORK, 84, file.name, last.line, text, why)]
    idle = [row for row in rows if row.running == 0 and row.waiting == 0]
    held = [row for row in idle if (row.kv_perc or 0.0) > 5]
    if len(idle) >= 2 and len(held) == len(idle):
        _, text = _row(file, held[-1].line)
        why = "The cache stays occupied although nothing runs."
        return [failing("kv_held", _SOAK, Phase.SOAK, _REWORK, 80, file.name, held[-1].line, text, why)]
    stuck = [row for row in rows if row.running > 0 and not row.generation_tokens_per_s and not row.prompt_tokens_per_s]
    if len(stuck) >= 3 and stuck[-1] is rows[-1] and file.log.first_error is None:
        _, text = _row(file, stuck[-1].line)
        why = "Requests run and no token is made for three lines in a row: the engine hangs."
        return [failing("hang", _SOAK, Phase.SOAK, _REWORK, 78, file.name, stuck[-1].line, text, why)]
    return []


def _slower(file: CaseFile, rows: tuple[StatsLine, ...]) -> list[Clue]:
    """The same load, fewer tokens, over half an hour and more."""
    busy = [row for row in rows if row.running > 0 and row.generation_tokens_per_s]
    first, last = (seconds_of(busy[0].stamp), seconds_of(busy[-1].stamp)) if len(busy) >= 6 else (None, None)
    if first is None or last is None or last - first < 1800:
        return []
    third = len(busy) // 3
    rates = [
        [(row.generation_tokens_per_s or 0) / row.running for row in part] for part in (busy[:third], busy[-third:])
    ]
    loads = [sum(row.running for row in part) / third for part in (busy[:third], busy[-third:])]
    before, after = (sum(part) / third for part in rates)
    if after < before / 2 and loads[1] <= loads[0] * 1.3:
        _, text = _row(file, busy[-1].line)
        why = f"A request gets {after:.1f} tokens/s after {before:.1f} at the start, under the same load."
        return [failing("degrading", _SOAK, Phase.SOAK, _REWORK, 60, file.name, busy[-1].line, text, why)]
    return []


def _scrapes(case: Case) -> list[Clue]:
    out: list[Clue] = []
    files = in_order(case.of("scrape"))
    for file in files:
        if file.scrape is not None:
            out += _one_scrape(file, file.scrape) + _gpu_series(file, file.scrape)
    return out + (_over_time(files[0], files[-1]) if len(files) > 1 else [])


def in_order(files: list[CaseFile]) -> list[CaseFile]:
    """By the numbers in their names, as people number what they save."""
    return sorted(files, key=lambda file: [(int(p), "") if p.isdigit() else (-1, p) for p in _DIGITS.split(file.name)])


def _over_time(first: CaseFile, last: CaseFile) -> list[Clue]:
    """What changed from the first scrape to the last: another process, or memory that only grew."""
    if first.scrape is None or last.scrape is None:
        return []
    out: list[Clue] = []
    begun = [file.scrape.total("process_start_time_seconds") for file in (first, last) if file.scrape]
    if None not in begun and begun[0] != begun[1]:
        line, text = _metric(last, "process_start_time_seconds")
        why = "The server process was started anew between the scrapes."
        out.append(failing("restarted", _SOAK, Phase.SOAK, _REWORK, 52, last.name, line, text, why))
    before, after = (file.scrape.total("process_resident_memory_bytes") or 0 for file in (first, last) if file.scrape)
    if before and after > before * 1.2 and after - before > 1e9 and not out:
        line, text = _metric(last, "process_resident_memory_bytes")
        why = f"Resident memory grew by {(after - before) / 1e9:.1f} GB between the scrapes."
        out.append(failing("host_leak", _SOAK, Phase.SOAK, _REWORK, 58, last.name, line, text, why))
    return out


def _gpu_series(file: CaseFile, scrape: Scrape) -> list[Clue]:
    """What the GPU exporter says of broken hardware."""
    out: list[Clue] = []
    for name, why in (
        ("DCGM_FI_DEV_XID_ERRORS", "The last GPU error event (Xid) is not 0."),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "A GPU could not remap a bad memory row."),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "A GPU returned uncorrectable memory errors."),
    ):
        if (scrape.highest(name) or 0) > 0:
            rows = [row for row in file.text.split("\n") if row.startswith(name) and not row.rstrip().endswith(" 0")]
            line, text = line_with(file.text, rows[0]) if rows else _metric(file, name)
            software = name.endswith("XID_ERRORS") and scrape.highest(name) in (13.0, 31.0, 43.0, 45.0)
            cause = _SOAK if software else Cause.HARDWARE
            out.append(failing("gpu_errors", cause, Phase.SOAK, _REWORK, 96, file.name, line, text, why))
    return out


def _one_scrape(file: CaseFile, scrape: Scrape) -> list[Clue]:
    running, waiting = scrape.total("vllm:num_requests_running"), scrape.total("vllm:num_requests_waiting")
    kv = scrape.highest("vllm:kv_cache_usage_perc")
    kv = scrape.highest("vllm:gpu_cache_usage_perc") if kv is None else kv
    preempted = scrape.total("vllm:num_preemptions_total") or 0.0
    out: list[Clue] = []
    if waiting is not None and waiting >= WAITING_MIN and (running or 0) > 0:
        kind, why = _queue(kv or 0.0, waiting, running or 0.0)
        line, text = line_with(file.text, "\nvllm:num_requests_waiting")
        line, text = (
            line_with(file.text, text) if text.startswith("vllm:") else _metric(file, "vllm:num_requests_waiting")
        )
        weight = 82 if waiting >= 2 * WAITING_MIN else 50
        out.append(failing(kind, _CONC, Phase.CONCURRENCY, _SCALE, weight, file.name, line, text, why))
    if preempted >= 50:
        line, text = _metric(file, "vllm:num_preemptions_total")
        why = f"{preempted:.0f} preemptions: requests lose their cache and are prefilled again."
        out.append(failing("preemptions", _CONC, Phase.CONCURRENCY, _SCALE, 64, file.name, line, text, why))
    if running == 0 and waiting == 0 and kv is not None and kv > 0.05:
        line, text = _metric(file, "vllm:kv_cache_usage_perc")
        why = "The cache is occupied although nothing runs or waits: blocks are held."
        out.append(failing("kv_held", _SOAK, Phase.SOAK, _REWORK, 78, file.name, line, text, why))
    if not out and running and waiting is not None and waiting < WAITING_MIN and (kv or 0.0) < KV_FULL:
        line, text = _metric(file, "vllm:num_requests_running")
        why = "Requests run, none wait for long, and the cache is not exhausted."
        out.append(harmless("serving", Phase.CONCURRENCY, file.name, line, text, why))
    out += _ends(file, scrape)
    if (scrape.total("vllm:corrupted_requests_total") or 0) > 0:
        line, text = _metric(file, "vllm:corrupted_requests_total")
        why = "The model computed numbers that are none."
        out.append(failing("nan_output", _SOAK, Phase.SOAK, _REWORK, 88, file.name, line, text, why))
    return out


def _ends(file: CaseFile, scrape: Scrape) -> list[Clue]:
    """How requests ended: given up by callers, or failed in the engine."""
    ended: dict[str, float] = {}
    for key, value in scrape.series.items():
        if key.startswith("vllm:request_success_total{") and 'finished_reason="' in key:
            reason = key.split('finished_reason="')[1].split('"')[0]
            ended[reason] = ended.get(reason, 0.0) + value
    total = sum(ended.values())
    if total < 20:
        return []
    line, text = _metric(file, "vllm:request_success_total")
    if ended.get("error", 0.0) > 0.02 * total:
        why = f"{ended['error']:.0f} of {total:.0f} requests ended in an error."
        return [failing("server_errors", _SOAK, Phase.SOAK, _REWORK, 62, file.name, line, text, why)]
    if ended.get("abort", 0.0) > 0.25 * total:
        why = f"{ended['abort']:.0f} of {total:.0f} requests were given up by their callers."
        args = (Cause.CLIENT, Phase.SOAK, VerdictName.INCOMPLETE, 56, file.name, line, text, why)
        return [failing("client_aborts", *args)]
    return []


def _metric(file: CaseFile, name: str) -> tuple[int, str]:
    """The first sample line of a metric."""
    for number, row in enumerate(file.text.split("\n"), 1):
        if row.startswith(name) and row[len(name) : len(name) + 1] in ("{", " "):
            return number, row.strip()[:500]
    return 0, ""


def _benchmark(file: CaseFile) -> list[Clue]:
    values, lines = file.benchmark.values, file.benchmark.lines

    def place(name: str) -> tuple[str, int, str]:
        return file.name, lines.get(name, 0), _row(file, lines.get(name, 1))[1]

    out: list[Clue] = []
    requests = values.get("requests_ok", values.get("requests", 0.0))
    preempted = values.get("preemptions", 0.0)
    if preempted > max(20.0, requests * 0.1):
        why = f"{preempted:.0f} preemptions in {requests:.0f} requests: the cache does not hold what runs."
        out.append(failing("preemptions", _CONC, Phase.CONCURRENCY, _SCALE, 80, *place("preemptions"), why))
    failed = values.get("requests_failed", 0.0)
    if failed > max(1.0, requests * 0.02):
        why = f"{failed:.0f} requests failed; a benchmark leaves them out of its latencies."
        out.append(failing("failed_requests", _CONC, Phase.CONCURRENCY, _REWORK, 60, *place("requests_failed"), why))
    median = values.get("ttft_ms_median", values.get("ttft_ms_p50", 0.0))
    tail = values.get("ttft_ms_p99", 0.0)
    if tail > 20_000 and median and tail > 3 * median:
        why = "First tokens at the tail take many times the median: requests queue."
        out.append(failing("queue", _CONC, Phase.CONCURRENCY, _SCALE, 60, *place("ttft_ms_p99"), why))
    if not out:
        name = "requests_ok" if "requests_ok" in lines else next(iter(lines), "")
        why = "All requests succeeded and tails are near the middle."
        out.append(harmless("bench_normal", Phase.CONCURRENCY, *place(name), why))
    return out


_GROWTH = re2.compile(r"(?i)(?:anon\w*|rss|heap|private|pss)[^\n+]{0,60}\+(?P<n>[\d.]+) ?(?P<unit>[KMG]i?B)")
_RSS_ROW = re2.compile(r"(?i)(?:rss|memory|mem_used|resident)\w*[\" =:]+(?P<n>[\d.]+) ?(?P<unit>[KMG]i?B)?")
_UNITS = {"k": 1 / 1024, "m": 1.0, "g": 1024.0}


def _column(head: str) -> list[tuple[float, str]]:
    """A column of resident sizes in a table with a header, commas or blanks between."""
    rows = [row.replace(",", " ").replace("\t", " ").split() for row in head.split("\n")[:10_000] if row.strip()]
    names = [name.lower() for name in rows[0]] if rows else []
    at = next((i for i, name in enumerate(names) if "rss" in name or "anon" in name), None)
    if at is None:
        return []
    out = []
    for row in rows[1:]:
        try:
            out.append((float(row[at]), row[at]))
        except (IndexError, ValueError):
            continue
    return out


def _memory(case: Case) -> list[Clue]:
    """Host memory that only grows: differences of maps, or a series of resident sizes."""
    out: list[Clue] = []
    for file in case.of("text", "log", "records"):
        head = file.text[:200_000]
        if found := _GROWTH.search(head):
            size = float(found["n"].strip(".") or 0) * _UNITS[found["unit"][0].lower()]
            if size >= 20:
                line, text = line_with(head, found[0][:80])
                why = "Anonymous memory of one process grows and is not given back: a leak."
                out.append(failing("host_leak", _SOAK, Phase.SOAK, _REWORK, 86, file.name, line, text, why))
                continue
        sizes = []
        for found in _RSS_ROW.finditer(head):
            unit = (found["unit"] or "MB")[0].lower()
            sizes.append((float(found["n"].strip(".") or 0) * _UNITS[unit], found[0]))
        sizes = sizes if len(sizes) >= 3 else _column(head)
        rising = all(b[0] >= a[0] for a, b in pairwise(sizes))
        if len(sizes) >= 3 and rising and sizes[-1][0] > sizes[0][0] * 1.15:
            line, text = line_with(head, sizes[-1][1])
            why = "Resident memory rises from reading to reading and never falls: a leak."
            out.append(failing("host_leak", _SOAK, Phase.SOAK, _REWORK, 72, file.name, line, text, why))
    if case.restarts() > 2 and not out:
        speaks = next((f for f in case.texts() if "estart" in f.text or "CrashLoop" in f.text), None)
        if speaks is not None:
            line, text = line_with(speaks.text, "estart" if "estart" in speaks.text else "CrashLoop")
            why = "The server restarts again and again."
            out.append(failing("restarts", _SOAK, Phase.SOAK, _REWORK, 40, speaks.name, line, text, why))
    return out

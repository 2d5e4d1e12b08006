"""Clues of who gave up and who sent again: callers' time limits, batches given up, stacked retries, cut streams."""

import re2

from signoff.core.words import Cause, Phase, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing, line_with
from signoff.read.case_file import CaseFile
from signoff.read.launch_log import RequestMark

_CLIENT, _GATEWAY = Cause.CLIENT, Cause.GATEWAY
_LIMITED, _INCOMPLETE = VerdictName.LIMITED, VerdictName.INCOMPLETE
_RETRIES = re2.compile(r"(?i)\b(?P<name>(?:num|max)[_-]?retr(?:y|ies)|retries|retry[_-]?(?:count|limit|max))"
                       r"\W{1,4}(?P<n>\d{1,3})\b")  # fmt: skip
_SAME = re2.compile(
    r"(?i)\b(?:req(?:uest)?_?hash|body_?(?:hash|sha\w*)|prompt_?hash|digest|sha256)[=: \"]+(?P<hash>[\w:-]{4,64})"
)
_TTFT = re2.compile(r"(?i)\bttft(?:_s(?:econds)?)?\W{1,3}(?P<s>\d+(?:\.\d+)?)\s*(?P<unit>ms|s)?\b")
_LIMIT = re2.compile(
    r"(?i)(?:proxy[_-]read[_-]timeout|proxy[_-]send[_-]timeout|idle[_-]?timeout|request[_-]?timeout|read[_-]?timeout|"
    r"stream[_-]?timeout|timeout[_-]?(?:seconds|s)?)\"?\W{1,4}\"?(?P<s>\d+(?:\.\d+)?)\s*(?P<unit>ms|s|m|min)?"
)
_STAMP = re2.compile(r"(?P<d>\d\d)[-/]?(?P<h>\d\d)?[ T](?P<hh>\d\d):(?P<mm>\d\d):(?P<ss>\d\d)$")


def caller_clues(case: Case) -> list[Clue]:
    out: list[Clue] = []
    for file in case.of("log"):
        out += _given_up(file)
    return out + _retries(case) + _repeats(case) + _limits(case)


def seconds_of(stamp: str) -> int | None:
    """Seconds of a stamp `MM-DD HH:MM:SS`, days counted, months not; `None` when it is none."""
    head, _, clock = stamp.rpartition(" ")
    parts = clock.split(":")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        return None
    day = head[-2:] if head[-2:].isdigit() else "0"
    return int(day) * 86_400 + int(parts[0]) * 3600 + int(parts[1]) * 60 + int(parts[2])


def _given_up(file: CaseFile) -> list[Clue]:
    marks = file.log.requests
    aborted = [mark for mark in marks if mark.what == "aborted"]
    if len(aborted) < 2:
        return []
    added = {mark.id: mark for mark in marks if mark.what == "added"}
    waits = []
    for mark in aborted:
        begun = added.get(mark.id)
        a, b = (seconds_of(begun.stamp), seconds_of(mark.stamp)) if begun else (None, None)
        if a is not None and b is not None and b >= a:
            waits.append(b - a)
    line = aborted[0].line
    _, text = line_with(file.text, aborted[0].id)
    row = file.text.split("\n")
    text = row[line - 1].strip() if len(row) >= line else text
    again = len(added) > len(aborted) // 2 and bool(added)
    if len(waits) >= 2 and max(waits) - min(waits) <= 2 and min(waits) >= 5 and again:
        why = (
            f"Each request is given up after {min(waits)} s and sent again: the caller's time limit, not the engine's."
        )
        return [failing("client_resubmits", _CLIENT, Phase.SOAK, _INCOMPLETE, 80, file.name, line, text, why)]
    if _together(aborted) and not any(row.waiting > 5 for row in file.log.stats):
        why = "Requests of one call are given up at the same moment while the engine decodes steadily: the caller left."
        return [failing("client_aborts", _CLIENT, Phase.CONCURRENCY, _INCOMPLETE, 72, file.name, line, text, why)]
    if len(waits) >= 2 and max(waits) - min(waits) <= 2 and min(waits) >= 5:
        why = f"Requests are given up after exactly {min(waits)} s: a time limit of the caller or a proxy."
        return [failing("client_aborts", _CLIENT, Phase.SOAK, _INCOMPLETE, 66, file.name, line, text, why)]
    why = "Requests are given up by their callers."
    return [failing("client_aborts", _CLIENT, Phase.CONCURRENCY, _INCOMPLETE, 30, file.name, line, text, why)]


def _together(aborted: list[RequestMark]) -> bool:
    """Most within two seconds of each other."""
    seconds = [value for mark in aborted if (value := seconds_of(mark.stamp)) is not None]
    return len(seconds) >= 2 and max(seconds) - min(seconds) <= 2


def _retries(case: Case) -> list[Clue]:
    """Retry limits of two layers multiply."""
    found: list[tuple[int, CaseFile, str]] = []
    for file in case.of("text", "json", "launch", "log"):
        for match in _RETRIES.finditer(file.text[:100_000]):
            if int(match["n"]) > 0:
                found.append((int(match["n"]), file, match[0]))
                break
    if len(found) < 2:
        return []
    attempts = 1
    for n, _, _ in found:
        attempts *= n + 1
    _, file, part = max(found, key=lambda item: ("gateway" in item[1].name.lower(), item[0]))
    line, text = line_with(file.text, part)
    why = f"Two layers retry: up to {attempts} attempts at the engine for one request, most when it is slow."
    return [failing("retries_stacked", _GATEWAY, Phase.SOAK, _LIMITED, 86, file.name, line, text, why)]


def _repeats(case: Case) -> list[Clue]:
    """The same body again and again at the engine."""
    for file in case.of("log", "text", "records"):
        counts: dict[str, int] = {}
        for match in _SAME.finditer(file.text[:2_000_000]):
            counts[match["hash"]] = counts.get(match["hash"], 0) + 1
        worst = max(counts, key=lambda key: counts[key], default="")
        if worst and counts[worst] >= 3:
            line, text = line_with(file.text, worst)
            why = f"One body reached the engine {counts[worst]} times: somebody retries."
            return [failing("duplicates", _CLIENT, Phase.SOAK, _INCOMPLETE, 58, file.name, line, text, why)]
    return []


def _limits(case: Case) -> list[Clue]:
    """A proxy's time limit shorter than the first token takes."""
    waits, limits = [], []
    for file in case.of("text", "json", "log"):
        head = file.text[:100_000]
        if match := _TTFT.search(head):
            waits.append(float(match["s"]) / (1000 if match["unit"] == "ms" else 1))
        if match := _LIMIT.search(head):
            scale = {"ms": 0.001, "m": 60, "min": 60}.get(match["unit"] or "s", 1)
            limits.append((float(match["s"]) * scale, file, match[0]))
    if not waits or not limits:
        return []
    limit, file, part = min(limits, key=lambda item: item[0])
    if max(waits) <= limit:
        return []
    line, text = line_with(file.text, part)
    why = f"The gateway waits {limit:.0f} s and the first token takes {max(waits):.0f} s."
    return [failing("gateway_limit", _GATEWAY, Phase.LONG_INPUT, _LIMITED, 84, file.name, line, text, why)]

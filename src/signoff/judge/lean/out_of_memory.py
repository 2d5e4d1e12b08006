"""Where an out-of-memory belongs: weights, reserve, sampler, one long prefill, or many requests at once."""

import re2

from signoff.core.words import Cause, Phase, VerdictName
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import Clue, failing
from signoff.read.case_file import CaseFile
from signoff.read.launch_log import LogNote

_ASKED = re2.compile(r"Tried to allocate (?P<size>[\d.]+) (?P<unit>[KMG]iB)")
_RESERVED = re2.compile(r"(?P<size>[\d.]+) (?P<unit>[KMG]iB) is reserved by PyTorch but unallocated")
_TOTAL = re2.compile(r"total capacity of (?P<size>[\d.]+) (?P<unit>[KMG]iB)")
_FREE = re2.compile(r"of which (?P<size>[\d.]+) (?P<unit>[KMG]iB) is free")
_OURS = re2.compile(r"this process has (?P<size>[\d.]+) (?P<unit>[KMG]iB) memory in use|"
                    r"(?P<size2>[\d.]+) (?P<unit2>[KMG]iB) is allocated by PyTorch")  # fmt: skip
_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_WEIGHTS_FRAMES = ("load_model", "load_weights", "create_weights", "safetensors")
_START_FRAMES = (
    "profile",
    "dummy",
    "capture",
    "determine_",
    "warm",
    "sampler",
    "logits",
    "allocate_kv",
    "initialize_kv",
)


def _bytes(pattern: re2._Regexp, text: str) -> float | None:
    found = pattern.search(text)
    return float(found["size"]) * _UNITS[found["unit"]] if found and found["size"] else None


def memory_clue(case: Case, file: CaseFile, note: LogNote, weigh: int) -> Clue:
    """The out-of-memory of one line, placed by the last phase before it, the traceback and the figures in it."""
    frames = note.values.get("frames", "")
    asked = _bytes(_ASKED, note.text) or float(note.values.get("asked_bytes", "0") or 0)
    names = {mark.name for mark in file.log.phases if mark.line <= note.line}
    weight = 95 * weigh // 100
    reserved, total = _bytes(_RESERVED, note.text), _bytes(_TOTAL, note.text)
    _, launch = case.launch()

    def said(cause: Cause, phase: Phase, verdict: VerdictName, why: str) -> Clue:
        return failing(f"oom_{cause}", cause, phase, verdict, weight, file.name, note.line, note.text, why)

    if reserved and total and reserved > total / 10:
        return said(
            Cause.TOPOLOGY if not names & {"ready", "stats"} else Cause.CONCURRENCY,
            Phase.WARMUP if not names & {"ready", "stats"} else Phase.CONCURRENCY,
            VerdictName.REWORK,
            "Much memory is reserved but not in use: fragmentation, not a shortage.",
        )
    if names & {"ready", "stats"} or (_serving(frames) and not names):
        return _while_serving(case, file, note, said, asked)
    if note.kind == "oom_capture" or "capture" in names or "capture_model" in frames:
        why = "The reserve for CUDA graphs was too small under this memory share: a launch value, not the hardware."
        return said(Cause.TOPOLOGY, Phase.WARMUP, VerdictName.REWORK, why)
    if (
        note.kind == "oom_load"
        or any(part in frames for part in _WEIGHTS_FRAMES)
        or (names and not names & {"profile", "kv_cache", "warmup"})
    ):
        why = "The weights of one rank do not fit beside what else the GPU holds."
        return said(Cause.TOPOLOGY, Phase.LOAD, VerdictName.SCALE, why)
    if names & {"kv_cache", "warmup"}:
        why = "The cache was already sized, and warming up needed more than was left: a launch value."
        return said(Cause.TOPOLOGY, Phase.WARMUP, VerdictName.REWORK, why)
    if "profile" in names or any(part in frames for part in _START_FRAMES) or note.kind == "oom_sampler":
        verdict = VerdictName.SCALE if _tight(note) else VerdictName.REWORK
        why = "The weights fill the GPU so far that the first run of the model does not fit."
        return said(Cause.TOPOLOGY, Phase.WARMUP, verdict, why)
    budget = launch.flags.get("max-num-batched-tokens", "")
    if budget.isdigit() and int(budget) and asked and asked % int(budget) == 0:
        why = (
            "The allocation that failed is one activation of a full prefill chunk: lower the chunk or the memory share."
        )
        return said(Cause.LONG_INPUT, Phase.LONG_INPUT, VerdictName.REWORK, why)
    why = "The log does not show how far the start had come; memory ran out on the GPU."
    return said(Cause.TOPOLOGY, Phase.LOAD, VerdictName.SCALE, why)


def _serving(frames: str) -> bool:
    return ("execute_model" in frames or "sample_tokens" in frames) and not any(
        part in frames for part in _START_FRAMES
    )


def _tight(note: LogNote) -> bool:
    """Whether the GPU is really full: hardly anything free and hardly anything reserved without use."""
    total, free = _bytes(_TOTAL, note.text), _bytes(_FREE, note.text)
    return total is None or free is None or free < total / 20


def _while_serving(case: Case, file: CaseFile, note: LogNote, said, asked: float) -> Clue:  # type: ignore[no-untyped-def]
    """Under load: many requests, or one long prefill."""
    before = [row for row in file.log.stats if row.line <= note.line][-5:]
    crowded = any(row.running + row.waiting >= 16 for row in before)
    if crowded and max((row.kv_perc or 0.0) for row in before) > 60:
        why = "Memory ran out while many requests ran: activations and cache of the load together."
        return said(Cause.CONCURRENCY, Phase.CONCURRENCY, VerdictName.REWORK, why)  # type: ignore[no-any-return]
    why = "Memory ran out while serving, in the activations of one prefill: the cache took the head-room."
    return said(Cause.LONG_INPUT, Phase.LONG_INPUT, VerdictName.REWORK, why)  # type: ignore[no-any-return]

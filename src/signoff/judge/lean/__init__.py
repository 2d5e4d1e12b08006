"""Judging files alone, for `signoff diagnose`: no plan, no run, only what somebody has in hand.

Every file gives clues; each clue speaks for one cause with a weight. The heaviest decides, what else speaks for the
same cause is counted, and rival causes are named with what speaks for them.
"""

from collections.abc import Sequence

from signoff.core.words import Cause, Phase, Severity, VerdictName
from signoff.judge.lean.answers import answer_clues
from signoff.judge.lean.callers import caller_clues
from signoff.judge.lean.case import Case
from signoff.judge.lean.clue import DECIDES, Clue
from signoff.judge.lean.diagnosis import Diagnosis, DiagnosisFinding
from signoff.judge.lean.load import load_clues
from signoff.judge.lean.logs import log_clues
from signoff.judge.lean.pairs import pair_clues
from signoff.judge.lean.platform import platform_clues
from signoff.judge.lean.prefix import prefix_clues
from signoff.judge.lean.remedies import remedy_of
from signoff.read.case_file import CaseFile

__all__ = ["Diagnosis", "DiagnosisFinding", "judge_files"]

FINDINGS_MAX = 500
_ORDER = {Severity.FAIL: 0, Severity.WARN: 1, Severity.INFO: 2}


def judge_files(files: Sequence[CaseFile]) -> Diagnosis:
    """Cause, phase, verdict and what speaks for them."""
    case = Case(tuple(files))
    clues = [
        *log_clues(case),
        *platform_clues(case),
        *answer_clues(case),
        *pair_clues(case),
        *load_clues(case),
        *prefix_clues(case),
        *caller_clues(case),
    ]
    deciding = [clue for clue in clues if clue.weight >= DECIDES and clue.cause is not Cause.NONE]
    if not deciding:
        return _nothing_wrong(case, clues)
    main = max(deciding, key=lambda clue: clue.weight)
    rivals = _rivals(deciding, main)
    summary = f"{_WORDS[main.cause]}: {main.why}"
    if rivals:
        summary += " Weighed against it: " + "; ".join(rivals) + "."
    return Diagnosis(
        cause=main.cause,
        phase=main.phase,
        verdict=main.verdict,
        summary=summary,
        remedy=remedy_of(main.kind, main.cause, main.verdict),
        findings=_findings(clues),
    )


def _rivals(deciding: list[Clue], main: Clue) -> list[str]:
    """The strongest clue of every other cause, with why it does not decide."""
    best: dict[Cause, Clue] = {}
    for clue in deciding:
        if clue.cause is not main.cause and clue.weight > best.get(clue.cause, Clue(kind="")).weight:
            best[clue.cause] = clue
    out = []
    for cause, clue in sorted(best.items(), key=lambda item: -item[1].weight):
        how = "a consequence or less direct" if clue.weight < main.weight * 0.7 else "cannot be ruled out"
        out.append(f"{cause} ({clue.file} line {clue.line}: {how})")
    return out[:4]


_WORDS = {
    Cause.ENVIRONMENT: "Environment",
    Cause.TOPOLOGY: "Weights or layout",
    Cause.LONG_INPUT: "Long input",
    Cause.CONCURRENCY: "Concurrency",
    Cause.SUSTAINED: "Sustained load",
    Cause.PREFIX_CACHE: "Prefix cache",
    Cause.MODEL_PARSER: "Model output or parser",
    Cause.GATEWAY: "Gateway",
    Cause.CLIENT: "Caller",
    Cause.HARDWARE: "Hardware",
    Cause.NONE: "Nothing wrong",
}


def _nothing_wrong(case: Case, clues: list[Clue]) -> Diagnosis:
    """No cause. `go` only when something shows that it works; else there is too little to say."""
    good = [clue for clue in clues if clue.verdict is VerdictName.GO and clue.severity is Severity.INFO]
    open_ = [clue for clue in clues if clue.verdict is VerdictName.INCOMPLETE]
    works = _works(case, good)
    if open_ or not works:
        why = open_[0].why if open_ else "The files show neither a fault nor that the service works."
        kind, phase = (open_[0].kind, open_[0].phase) if open_ else ("", Phase.NA)
        return Diagnosis(
            cause=Cause.NONE,
            phase=phase,
            verdict=VerdictName.INCOMPLETE,
            summary=why,
            remedy=remedy_of(kind, Cause.NONE, VerdictName.INCOMPLETE),
            findings=_findings(clues),
        )
    explained = [clue for clue in good if clue.why]
    unknown = sum(clue.kind == "unknown" for clue in clues)
    named = "; ".join(dict.fromkeys(clue.why.rstrip(".") for clue in explained[:4]))
    return Diagnosis(
        cause=Cause.NONE,
        phase=_quiet_phase(case, good),
        verdict=VerdictName.GO,
        summary=" ".join(
            part
            for part in (
                "Nothing wrong is shown.",
                f"{named}." if named else "",
                f"{unknown} lines are explained by no rule: a named reviewer must." if unknown else "",
            )
            if part
        ),
        remedy=remedy_of("", Cause.NONE, VerdictName.GO),
        findings=_findings(clues),
    )


def _works(case: Case, good: list[Clue]) -> bool:
    """Whether anything shows a working service: it came up, answered, or the machine is as it should be."""
    if any(file.log.ready or file.log.answers_ok or file.log.weights_gib for file in case.of("log")):
        return True
    if any((file.log.kv_concurrency or 0) >= 1 for file in case.of("log")):
        return True
    if any(file.log.phases and not file.log.truncated for file in case.of("log")):
        return True
    explained = [clue for clue in good if clue.kind not in ("driver_seen",)]
    return bool(explained) or bool(good)


def _quiet_phase(case: Case, good: list[Clue]) -> Phase:
    """Which phase the files speak of when nothing is wrong."""
    logs = case.of("log")
    if any(row.prompt_tokens_per_s or row.generation_tokens_per_s for file in logs for row in file.log.stats):
        return Phase.AGENT
    phases = [clue.phase for clue in good if clue.phase is not Phase.NA]
    for phase in (Phase.AGENT, Phase.PREFIX, Phase.CONCURRENCY, Phase.WARMUP, Phase.LOAD):
        if phase in phases:
            return phase
    names = {mark.name for file in logs for mark in file.log.phases}
    return Phase.LOAD if names - {"shutdown"} else Phase.NA


def _findings(clues: list[Clue]) -> tuple[DiagnosisFinding, ...]:
    """Worst first, heaviest first, each place and reason once."""
    out: dict[tuple[str, int, str], DiagnosisFinding] = {}
    for clue in sorted(clues, key=lambda c: (_ORDER[c.severity], -c.weight, c.file, c.line)):
        key = (clue.file, clue.line, clue.why)
        if key not in out and len(out) < FINDINGS_MAX:
            out[key] = DiagnosisFinding(
                file=clue.file, line=clue.line, text=clue.text, severity=clue.severity, cause=clue.cause, why=clue.why
            )
    return tuple(out.values())

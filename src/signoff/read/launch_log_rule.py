"""What a rule of the launch log is: a pattern, and what a line that matches it means."""

from msgspec import Struct

from signoff.core.words import Cause, Phase

FAILURE, FALLBACK, DEGRADATION, EXPOSURE, NOISE = "failure", "fallback", "degradation", "exposure", "noise"


class Rule(Struct, frozen=True, kw_only=True):
    """Patterns are google-re2, matched anywhere in a line; a blank stands for any white space, so that a wrapped line
    still matches. Named groups become the note's `values`. The first rule of the table that matches wins."""

    kind: str
    pattern: str
    family: str
    cause: Cause = Cause.NONE
    phase: Phase = Phase.NA
    """`na`: where the last phase mark before the line says."""
    why: str
    envelope: bool = False
    scan: bool = True
    """The pattern finds lines by itself; `False`: only lines that a level or another pattern found are tried, for
    patterns too common to search for."""


def failure(kind: str, pattern: str, cause: Cause, why: str, phase: Phase = Phase.NA) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=FAILURE, cause=cause, phase=phase, why=why)


def envelope(kind: str, pattern: str, why: str, cause: Cause = Cause.NONE) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=FAILURE, cause=cause, why=why, envelope=True)


def noise(kind: str, pattern: str, why: str) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=NOISE, why=why)


def weakness(kind: str, pattern: str, why: str, cause: Cause = Cause.NONE, phase: Phase = Phase.NA) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=DEGRADATION, cause=cause, phase=phase, why=why)


def fallback(kind: str, pattern: str, why: str, cause: Cause = Cause.NONE) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=FALLBACK, cause=cause, why=why)


def exposure(kind: str, pattern: str, why: str) -> Rule:
    return Rule(kind=kind, pattern=pattern, family=EXPOSURE, why=why)

"""The headline: verdict, scope, first reason and next step, chosen once for page and terminal."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from signoff.core.verdict import Reason
from signoff.core.words import Outcome
from signoff.judge.judgement import Judgement
from signoff.report.sentences import Sentences


class Headline(Struct, frozen=True, kw_only=True):
    word: str
    scope: str
    means: str
    first_reason: str
    first_code: str
    next_step: str


NOT_RUN_SHOWN_MAX = 3


def apart(reasons: Sequence[Reason]) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """The reasons to read, and apart from them what was not run, when that is many: a run that stopped early would
    bury its cause under everything that it did not come to."""
    unrun = tuple(r for r in reasons[1:] if r.outcome is Outcome.NOT_RUN)
    if len(unrun) <= NOT_RUN_SHOWN_MAX:
        return tuple(reasons), ()
    return tuple(r for i, r in enumerate(reasons) if i == 0 or r.outcome is not Outcome.NOT_RUN), unrun


def headline(judgement: Judgement, word: Mapping[str, str], sentences: Sentences) -> Headline:
    """What stands on top. The first reason is the first deciding finding; `go` has none and says so."""
    verdict, first = judgement.verdict, next(iter(judgement.deciding), None)
    told = sentences.sentence(first) if first else (verdict.reasons[0].message if verdict.reasons else "")
    silent = word["reason.go" if verdict.verdict == "go" else "reason.none"]
    if verdict.verdict == "go":
        told = ""
    return Headline(
        word=word[f"verdict.{verdict.verdict}"],
        scope=word[f"scope.{verdict.scope}"] if verdict.scope else "",
        means=word[f"means.{verdict.verdict}"],
        first_reason=told or silent,
        first_code=first.code if first else "",
        next_step=(sentences.next_step(first) if first else "") or word[f"next.{verdict.verdict}"],
    )

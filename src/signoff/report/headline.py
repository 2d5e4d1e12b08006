"""The headline: verdict, scope, first reason and next step, chosen once for page and terminal."""

from collections.abc import Mapping

from msgspec import Struct

from signoff.judge.judgement import Judgement
from signoff.report.sentences import Sentences


class Headline(Struct, frozen=True, kw_only=True):
    word: str
    scope: str
    means: str
    first_reason: str
    first_code: str
    next_step: str


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

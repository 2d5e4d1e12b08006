"""The summary that the terminal prints."""

from signoff.core.printable import printable
from signoff.judge.judgement import Judgement
from signoff.report.headline import apart, headline
from signoff.report.numbers import quantity, short_digest
from signoff.report.sentences import Sentences
from signoff.report.words import words

REASONS_MAX = 8
MARKS = {"pass": "+", "fail": "x", "inconclusive": "?", "not_run": "-", "not_applicable": "o"}


def summary(judgement: Judgement, lang: str = "en") -> str:
    """Verdict, scope, what it is about, reasons in order, next step; plain text, no control characters."""
    word, verdict = words(lang), judgement.verdict
    told = headline(judgement, word, Sentences(lang))
    lines = [told.word.upper() + (f"  {word['label.scope']}: {told.scope}" if told.scope else "")]
    if verdict.subject.simulated:
        lines.insert(0, f"** {word['banner.simulated']} **")
    lines += [told.means, ""]
    gates = verdict.gates
    for gate in ("environment", "capacity", "prefix", "agent"):
        outcome = getattr(gates, gate)
        lines.append(f"  {MARKS[outcome]} {word[f'gate.{gate}']}: {word[f'outcome.{outcome}']}")
    lines += ["", *_subject(judgement, word), ""]
    reasons, unrun = apart(verdict.reasons)
    if reasons:
        lines.append(f"{word['section.reasons']}:")
        lines += [f"  {MARKS[r.outcome]} {r.message}  [{r.code}]" for r in reasons[:REASONS_MAX]]
        if len(reasons) > REASONS_MAX:
            lines.append(f"  … {word['value.more'].format(n=len(reasons) - REASONS_MAX)}")
        lines += [f"  {MARKS['not_run']} {word['reasons.unrun'].format(n=len(unrun))}"] if unrun else []
        lines.append("")
    lines.append(f"{word['label.next_step']}: {told.next_step}")
    return "\n".join(printable(line) for line in lines)


def _subject(judgement: Judgement, word) -> list[str]:  # type: ignore[no-untyped-def]
    verdict = judgement.verdict
    subject, load = verdict.subject, verdict.accepted
    image = subject.image_digest and short_digest(subject.image_digest)
    facts = (
        ("model", subject.model),
        ("gpus", subject.gpus),
        ("layout", subject.layout),
        ("driver", subject.driver),
        ("image", image),
        ("target", load.target and quantity("requests", load.target)),
        ("floor", load.floor and quantity("requests", load.floor)),
        ("held", load.held and quantity("requests", load.held)),
        ("valid_until", verdict.valid_until),
    )
    return [f"  {word[f'label.{key}']}: {text}" for key, text in facts if text]

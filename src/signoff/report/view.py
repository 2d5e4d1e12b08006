"""The view: one judged bundle with every sentence chosen and every number written, once, for all renderers.

No renderer counts, compares or decides; what it shows stands here as text with a tone.
"""

from collections.abc import Mapping

from msgspec import Struct

from signoff.core.dossier import Dossier
from signoff.core.evidence import Value
from signoff.core.finding import Finding
from signoff.core.verdict import EXIT_CODES, Reason, Verdict
from signoff.core.words import Gate, Outcome, VerdictName
from signoff.judge.checklist import ITEMS
from signoff.judge.judgement import Judgement
from signoff.report import evidence_view, tables
from signoff.report.headline import apart, headline
from signoff.report.numbers import (
    MISSING,
    base_of,
    bounds_of,
    digits,
    is_empty,
    label_of,
    quantity,
    short_digest,
    with_interval,
)
from signoff.report.parts import Cell, Example, FindingView, GateView, ReasonView, Row, Table
from signoff.report.sentences import Sentences
from signoff.report.timeline import Timeline, timeline
from signoff.report.words import words

CITED_MAX, CITED_WITH_REASON_MAX = 12, 3


class Banner(Struct, frozen=True, kw_only=True):
    kind: str
    """`simulated`, `laboratory`, `pre_release`, `untranslated`."""
    text: str


class View(Struct, frozen=True, kw_only=True):
    """What every renderer shows."""

    lang: str
    words: Mapping[str, str]
    """The interface words of this language, by key."""
    title: str
    plan_name: str
    profile_title: str
    profile_status: str
    banners: tuple[Banner, ...]
    """The first ones must stand above everything else."""
    verdict: Verdict
    row: int
    name: VerdictName
    word: str
    scope: str
    means: str
    first_reason: str
    first_code: str
    next_step: str
    subject_line: str
    """The established facts of the subject in one line."""
    subject: tuple[Row, ...]
    accepted: tuple[Row, ...]
    reasons: tuple[ReasonView, ...]
    unrun: tuple[ReasonView, ...]
    """Reasons that only say what was not run, when they are many."""
    unrun_summary: str
    gates: tuple[GateView, ...]
    run: tuple[FindingView, ...]
    """Findings about the run as a whole."""
    timeline: Timeline
    checklist: Table
    conditions: tuple[Row, ...]
    would_change: tuple[str, ...]
    evidence: Table
    missing: Table
    about: tuple[Row, ...]
    exit_code: int

    @property
    def all_findings(self) -> tuple[FindingView, ...]:
        return (*(shown for gate in self.gates for shown in (*gate.findings, *gate.passed)), *self.run)


def view(dossier: Dossier, judgement: Judgement, lang: str = "en") -> View:
    """The view of a judged bundle in `lang` (`en`, `zh-Hant`, `zh-Hans`)."""
    word, verdict = words(lang), judgement.verdict
    sentences = Sentences(lang)
    told = headline(judgement, word, sentences)
    reasons, unrun = apart(verdict.reasons)
    shown = {gate: _findings(judgement, gate, word, sentences) for gate in Gate}
    run = tuple(one for one in shown[Gate.ENVIRONMENT] if one.finding.code.startswith("run."))
    shown[Gate.ENVIRONMENT] = tuple(one for one in shown[Gate.ENVIRONMENT] if one not in run)
    flat = [*(one for gate in Gate for one in shown[gate]), *run]
    told_by_english = {f.english: f.sentence for f in flat}
    steps = {f.english_step: f.next_step for f in flat}
    return View(
        lang=lang,
        words=word,
        title=f"{word[f'verdict.{verdict.verdict}']} · {dossier.plan.name}",
        plan_name=dossier.plan.name,
        profile_title=dossier.profile.title,
        profile_status=word[f"status.{dossier.profile.status}"],
        banners=_banners(dossier, verdict, word, sentences),
        verdict=verdict,
        row=judgement.row,
        name=verdict.verdict,
        word=told.word,
        scope=told.scope,
        means=told.means,
        first_reason=told.first_reason,
        first_code=told.first_code,
        next_step=told.next_step,
        subject_line=" · ".join(text for text in _established(verdict, word) if text) or word["value.unknown"],
        subject=_subject(dossier, verdict, word),
        accepted=_accepted(verdict, word),
        reasons=tuple(_reason(reason, flat, word) for reason in reasons),
        unrun=tuple(_reason(reason, flat, word) for reason in unrun),
        unrun_summary=word["reasons.unrun"].format(n=len(unrun)),
        gates=tuple(_gate(gate, shown[gate], dossier, verdict, word) for gate in Gate),
        run=run,
        timeline=timeline(dossier),
        checklist=_checklist(verdict, word, told_by_english),
        conditions=tuple(_condition(condition, word) for condition in verdict.conditions),
        would_change=tuple(dict.fromkeys(steps.get(step, step) for step in verdict.would_change)),
        evidence=evidence_view.observed(dossier, word),
        missing=evidence_view.missing(dossier, word),
        about=_about(dossier, judgement, word),
        exit_code=EXIT_CODES[verdict.verdict],
    )


def _banners(dossier: Dossier, verdict: Verdict, word: Mapping[str, str], sentences: Sentences) -> tuple[Banner, ...]:
    made = []
    if verdict.subject.simulated or dossier.profile.scope == "simulated" or dossier.plan.service.simulated:
        made.append("simulated")
    elif dossier.profile.scope == "laboratory":
        made.append("laboratory")
    if dossier.profile.status == "pre-release":
        made.append("pre_release")
    banners = [Banner(kind=kind, text=word[f"banner.{kind}"]) for kind in made]
    untold = sentences.untranslated
    if untold == sentences.total and untold:
        banners.append(Banner(kind="untranslated", text=word["banner.untranslated"]))
    elif untold:
        text = word["banner.partly_translated"].format(n=untold, total=sentences.total)
        banners.append(Banner(kind="untranslated", text=text))
    return tuple(banners)


def _established(verdict: Verdict, word: Mapping[str, str]) -> tuple[str | None, ...]:
    told = verdict.subject
    driver = f"{word['label.driver'].lower()} {told.driver}" if told.driver else None
    return told.model, told.gpus, told.layout, driver


def _subject(dossier: Dossier, verdict: Verdict, word: Mapping[str, str]) -> tuple[Row, ...]:
    told = verdict.subject
    facts = (
        ("model", told.model),
        ("gpus", told.gpus),
        ("layout", told.layout),
        ("driver", told.driver),
        ("image", told.image_digest and short_digest(told.image_digest)),
        ("launch", told.launch_digest and short_digest(told.launch_digest)),
        ("platform", told.platform),
        ("service", dossier.plan.service.base_url),
    )
    return tuple(
        Row(key=key, label=word[f"label.{key}"], text=text or word["value.unknown"], tone="" if text else "missing")
        for key, text in facts
    )


def _accepted(verdict: Verdict, word: Mapping[str, str]) -> tuple[Row, ...]:
    accepted = verdict.accepted
    loads = (("target", accepted.target), ("floor", accepted.floor), ("held", accepted.held))
    rows = [_load(key, "requests", load, word) for key, load in loads]
    rows.append(_load("window", "tokens", accepted.window, word))
    if verdict.valid_until:
        rows.append(Row(key="valid_until", label=word["label.valid_until"], text=_utc(verdict.valid_until)))
    return tuple(rows)


def _utc(iso: str) -> str:
    """`2026-12-01 03:41:07 UTC` of `2026-12-01T03:41:07Z`; any other text as it is."""
    return iso.replace("T", " ").replace("Z", " UTC") if iso.endswith("Z") and iso[10:11] == "T" else iso


def _load(key: str, unit: str, load: int | None, word: Mapping[str, str]) -> Row:
    text = word["value.unknown"] if load is None else word[f"value.{unit}"].format(n=digits(load))
    return Row(key=key, label=word[f"label.{key}"], text=text, tone="missing" if load is None else "")


def _findings(
    judgement: Judgement, gate: Gate, word: Mapping[str, str], sentences: Sentences
) -> tuple[FindingView, ...]:
    order = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.NOT_RUN, Outcome.PASS, Outcome.NOT_APPLICABLE)
    of_gate = [finding for finding in judgement.findings if finding.gate == gate]
    of_gate.sort(key=lambda finding: order.index(finding.outcome))
    return tuple(_finding(finding, word, sentences) for finding in of_gate)


def _finding(finding: Finding, word: Mapping[str, str], sentences: Sentences) -> FindingView:
    english = Sentences("en")
    warned = finding.outcome == Outcome.PASS and finding.severity == "warn"
    return FindingView(
        finding=finding,
        anchor=tables.anchor(finding),
        title=sentences.title(finding.code),
        outcome=finding.outcome,
        tone="warn" if warned else str(finding.outcome),
        outcome_word=word[f"outcome.{finding.outcome}"],
        severity=word[f"severity.{finding.severity}"],
        sentence=sentences.sentence(finding),
        english=sentences.english(finding),
        next_step=sentences.next_step(finding),
        english_step=english.next_step(finding),
        cause=word[f"cause.{finding.cause}"] if finding.cause != "none" else "",
        phase=word[f"phase.{finding.phase}"] if finding.phase != "na" else "",
        rows=_measured(finding),
        evidence=evidence_view.cited(finding.evidence, word, CITED_MAX),
    )


def _measured(finding: Finding) -> tuple[Row, ...]:
    """Measured values with their limits; an interval's ends stand with their value."""
    values, limits = finding.values, dict(finding.limit)
    folded = {end for name in values for end in bounds_of(name, values) or ()}
    rows = [
        Row(
            key=name,
            label=label_of(name),
            text=with_interval(name, values),
            note=quantity(name, limits.pop(base_of(name))) if base_of(name) in limits else "",
        )
        for name, value in values.items()
        if name not in folded and not (is_empty(name, value) and base_of(name) not in limits)
    ]
    rows += [Row(key=name, label=label_of(name), text="", note=quantity(name, limits[name])) for name in limits]
    return tuple(rows)


def _reason(reason: Reason, shown: list[FindingView], word: Mapping[str, str]) -> ReasonView:
    """A reason beside the finding it speaks of: the one of the same code and outcome that cites the same evidence."""
    alike = [f for f in shown if f.finding.code == reason.code and f.finding.outcome == reason.outcome]
    same = [f for f in alike if f.finding.evidence == reason.evidence and f.english == reason.message]
    found = next(iter(same or [f for f in alike if f.finding.evidence == reason.evidence] or alike), None)
    return ReasonView(
        code=reason.code,
        title=found.title if found else reason.code,
        anchor=found.anchor if found else "",
        outcome=reason.outcome,
        tone=found.tone if found else str(reason.outcome),
        outcome_word=word[f"outcome.{reason.outcome}"],
        severity=word[f"severity.{reason.severity}"],
        message=found.sentence if found else reason.message,
        next_step=found.next_step if found else "",
        cause=word[f"cause.{reason.cause}"] if reason.cause != "none" else "",
        phase=word[f"phase.{reason.phase}"] if reason.phase != "na" else "",
        evidence=evidence_view.cited(reason.evidence, word, CITED_WITH_REASON_MAX),
    )


def _gate(
    gate: Gate, shown: tuple[FindingView, ...], dossier: Dossier, verdict: Verdict, word: Mapping[str, str]
) -> GateView:
    outcome = getattr(verdict.gates, gate)
    passed = tuple(f for f in shown if f.tone == "pass")
    counts = [(o, sum(f.outcome == o for f in shown)) for o in Outcome]
    examples: tuple[Example, ...] = evidence_view.examples(dossier, word) if gate == Gate.AGENT else ()
    return GateView(
        gate=gate,
        title=word[f"gate.{gate}"],
        question=word[f"question.{gate}"],
        outcome=outcome,
        outcome_word=word[f"outcome.{outcome}"],
        summary=" · ".join(f"{n} {word[f'outcome.{o}']}" for o, n in counts if n),
        findings=tuple(f for f in shown if f.tone != "pass"),
        passed=passed,
        passed_summary=word["gate.passed"].format(n=len(passed)),
        tables=tables.of_gate(gate, shown, dossier, word),
        examples=examples,
    )


def _checklist(verdict: Verdict, word: Mapping[str, str], told: Mapping[str, str]) -> Table:
    """The thirteen items; `told` is what an English sentence says in this language."""
    heads = ("item", "outcome", "result", "time", "reviewer")
    rows = tuple(
        (
            Cell(
                text=f"{line.item}. {word[f'item.{line.item}']}",
                note=line.condition.removeprefix(ITEMS[line.item]).strip(" ()"),
            ),
            Cell(text=word[f"outcome.{line.outcome}"], tone=str(line.outcome)),
            Cell(text=told.get(line.result, line.result) or MISSING),
            Cell(text=_utc(line.time or MISSING), fixed=True),
            Cell(text=line.reviewer or MISSING),
        )
        for line in verdict.checklist
    )
    return Table(
        id="checklist", caption=word["table.checklist"], columns=tuple(word[f"label.{h}"] for h in heads), rows=rows
    )


def _condition_value(kind: str, value: Value, word: Mapping[str, str]) -> str:
    if value is None:
        return word["value.not_in_plan"]
    if kind == "concurrency_cap":
        return word["value.requests"].format(n=quantity("n", value))
    return _utc(quantity("error_rate" if kind == "error_rate_alert" else kind, value))


def _condition(condition: Mapping[str, Value], word: Mapping[str, str]) -> Row:
    """One condition: its kind as label, its value with a unit, whatever else it says beside it."""
    kind = str(condition.get("kind", ""))
    rest = {name: value for name, value in condition.items() if name not in ("kind", "value", "target_passed")}
    notes = [f"{label_of(name)} {quantity(name, value)}" for name, value in rest.items() if value is not None]
    if condition.get("target_passed") is False:
        notes.append(word["value.target_not_passed"])
    value = condition.get("value")
    return Row(
        key=kind,
        label=word.get(f"condition.{kind}", kind.replace("_", " ")),
        text=_condition_value(kind, value, word),
        note=" · ".join(notes),
        tone="missing" if value is None else "",
    )


def _about(dossier: Dossier, judgement: Judgement, word: Mapping[str, str]) -> tuple[Row, ...]:
    verdict, profile = judgement.verdict, dossier.profile
    rows = [
        ("plan", dossier.plan.name),
        ("profile", f"{profile.name} ({word[f'status.{profile.status}']}, {word[f'scope_of.{profile.scope}']})"),
        ("checked_on", profile.checked_on),
        ("rules", verdict.rules),
        ("row", str(judgement.row)),
        ("exit_code", str(EXIT_CODES[verdict.verdict])),
        ("plan_digest", verdict.plan_digest),
        ("evidence_digest", verdict.evidence_digest),
    ]
    span = evidence_view.span(dossier)
    rows += [("started", span[0]), ("ended", span[1])] if span else []
    return tuple(Row(key=key, label=word[f"label.{key}"], text=text) for key, text in rows)

"""Are tools taken by the launch, and do they reach the prompt?"""

from typing import Any

from signoff.core.dossier import Dossier
from signoff.core.evidence import Evidence, Value
from signoff.core.finding import Finding
from signoff.core.record import Record
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, State
from signoff.read.answer import count_of, decoded, mapping_of

STAGE = "agent.template"


def template(dossier: Dossier) -> list[Finding]:
    return [_launch(dossier), _tools(dossier)]


def _finding(code: str, outcome: Outcome, values: dict[str, Value], evidence: tuple[str, ...]) -> Finding:
    return Finding(
        code=code,
        gate=Gate.AGENT,
        outcome=outcome,
        bearing=Bearing.LAUNCH,
        phase=Phase.AGENT,
        cause=Cause.MODEL_PARSER if outcome is Outcome.FAIL else Cause.NONE,
        values=values,
        evidence=evidence,
        items=(11,),
    )


def _launch(dossier: Dossier) -> Finding:
    """Tool choice `auto` needs a parser in the launch; vLLM refuses it with 400 otherwise."""
    asked = _probe(dossier, "auto")
    if asked is None:
        return _finding("agent.launch.tools", Outcome.NOT_RUN, {}, ())
    required = _probe(dossier, "required")
    values: dict[str, Value] = {
        "status": asked.status,
        "error": asked.error[:300] or None,
        "required_status": required.status if required is not None else None,
    }
    refused = asked.state is State.HTTP_ERROR and asked.status in (400, 404, 422, 501)
    answered = asked.state in (State.OK, State.NO_USAGE)
    outcome = Outcome.FAIL if refused else Outcome.PASS if answered else Outcome.INCONCLUSIVE
    return _finding("agent.launch.tools", outcome, values, (f"record:{asked.id}",))


def _probe(dossier: Dossier, what: str) -> Record | None:
    return next((r for r in dossier.of_stage(STAGE) if r.labels.get("what") == what), None)


def _tools(dossier: Dossier) -> Finding:
    """More prompt tokens with tools than without: nothing else was changed between the two counts."""
    code = "agent.template.tools"
    cards = {
        str(card.conditions.get("tools")): card
        for card in dossier.of_kind("tokenize")
        if card.conditions.get("what") == "tools"
    }
    if not cards and dossier.started(STAGE) is None:
        return _finding(code, Outcome.NOT_RUN, {}, ())
    counted = {name: _count(dossier, card) for name, card in cards.items()}
    cited = tuple(f"sha256:{card.digest}" for card in cards.values() if card.digest)
    source = "POST /tokenize"
    if counted.get("with") is None or counted.get("without") is None:
        probes = {name: _probe(dossier, f"usage_{name}") for name in ("with", "without")}
        counted = {name: record.prompt_tokens if record is not None else None for name, record in probes.items()}
        cited = tuple(f"record:{record.id}" for record in probes.values() if record is not None)
        source = "usage of one-token answers"
    more, less = counted.get("with"), counted.get("without")
    values: dict[str, Value] = {"tokens_with": more, "tokens_without": less, "source": source}
    if more is None or less is None:
        missing = next((card.missing for card in cards.values() if card.missing), "no_count")
        return _finding(code, Outcome.INCONCLUSIVE, values | {"reason": missing[:300]}, cited)
    return _finding(code, Outcome.PASS if more > less else Outcome.FAIL, values, cited)


def _count(dossier: Dossier, card: Evidence) -> int | None:
    if not card.digest:
        return None
    try:
        tree: Any = decoded(dossier.blob(card.digest))[0]
    except KeyError:
        return None
    return count_of(mapping_of(tree).get("count"))

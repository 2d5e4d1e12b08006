"""The verdict and the measured values as OpenMetrics text, for a textfile collector or a push gateway."""

import math
from collections.abc import Iterable, Mapping

from signoff.core.words import Outcome, VerdictName
from signoff.report.view import View


def openmetrics(view: View) -> str:
    """OpenMetrics 1.0 text: state sets of verdict and gates, gauges of what was measured and of its limits."""
    base = {"plan": view.plan_name, "model": view.verdict.subject.model or ""}
    lines = [*_head("signoff_verdict", "stateset", "The verdict of the last judgement.")]
    lines += [_sample("signoff_verdict", {**base, "signoff_verdict": name}, view.name == name) for name in VerdictName]
    lines += _head("signoff_simulated", "gauge", "1 when the service was simulated: proves nothing about hardware.")
    lines.append(_sample("signoff_simulated", base, view.verdict.subject.simulated))
    lines += _head("signoff_gate", "stateset", "The outcome of each gate.")
    lines += [
        _sample("signoff_gate", {**base, "gate": gate.gate, "signoff_gate": outcome}, gate.outcome == outcome)
        for gate in view.gates
        for outcome in Outcome
    ]
    lines += _head("signoff_finding", "gauge", "1 for each finding, with its outcome.")
    lines += [
        _sample("signoff_finding", {**_of(shown.finding), "outcome": shown.outcome, **base}, True)
        for shown in view.all_findings
    ]
    lines += _numbers("signoff_measured", "A measured value of a finding, unit in the name.", view, base, "values")
    lines += _numbers("signoff_limit", "What it was compared with.", view, base, "limit")
    return "\n".join([*dict.fromkeys(lines), "# EOF", ""])


def _of(finding) -> dict[str, str]:  # type: ignore[no-untyped-def]
    return {"code": finding.code, "subject": finding.subject}


def _numbers(name: str, told: str, view: View, base: Mapping[str, str], field: str) -> Iterable[str]:
    """Numbers of the findings' `field`; of two findings alike in code and subject the first stands."""
    lines = _head(name, "gauge", told)
    seen = set()
    for shown in view.all_findings:
        for key, value in getattr(shown.finding, field).items():
            at = (shown.finding.code, shown.finding.subject, key)
            if at not in seen and isinstance(value, int | float) and math.isfinite(value):
                seen.add(at)
                lines.append(_sample(name, {**_of(shown.finding), "name": key, **base}, value))
    return lines


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# TYPE {name} {kind}", f"# HELP {name} {told}"]


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    told = ",".join(f'{key}="{_escape(text)}"' for key, text in labels.items())
    number = int(value) if isinstance(value, bool) else value
    return f"{name}{{{told}}} {number}"


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\r", " ").replace("\n", r"\n")

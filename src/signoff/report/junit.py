"""JUnit: a suite for each gate, a case for each finding. What cannot tell or was not run is never a passed case."""

import re

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite
from junitparser.junitparser import FinalResult

from signoff.core.words import Outcome, VerdictName
from signoff.report.parts import FindingView
from signoff.report.view import View

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(view: View) -> str:
    """The report as XML text. The last suite holds one case: the verdict."""
    tree = JUnitXml(_clean(view.plan_name))
    groups = [(f"{gate.gate}", gate.title, gate.outcome, (*gate.findings, *gate.passed)) for gate in view.gates]
    for name, title, outcome, findings in [*groups, ("run", view.words["gate.run"], None, view.run)]:
        suite = TestSuite(name)
        suite.add_property("title", title)
        suite.add_testcases([_case(name, shown, view) for shown in findings])
        if not findings and outcome not in (None, Outcome.PASS):
            case = TestCase(f"{name}.gate", classname=name)
            word = view.words[f"outcome.{outcome}"]
            case.result = [Skipped(word) if outcome == Outcome.NOT_APPLICABLE else Error(word, str(outcome))]
            suite.add_testcase(case)
        tree.add_testsuite(suite)
    tree.add_testsuite(_verdict(view))
    tree.update_statistics()  # type: ignore[no-untyped-call]
    return str(tree.tostring(), "utf-8")  # type: ignore[no-untyped-call]


def _case(suite: str, shown: FindingView, view: View) -> TestCase:
    finding = shown.finding
    name = f"{finding.code}[{finding.subject}]" if finding.subject else finding.code
    case = TestCase(_clean(name), classname=suite)
    case.result = _result(shown)
    told = [shown.sentence, *(f"{row.label}: {row.text} {row.note}".rstrip() for row in shown.rows)]
    case.system_out = _clean("\n".join([*told, *(cell.title for cell in shown.evidence)]))
    return case


def _result(shown: FindingView) -> list[FinalResult]:
    """A failure for what was proved wrong, an error for required evidence that is missing, else skipped."""
    finding, message = shown.finding, _clean(shown.sentence)
    if finding.outcome is Outcome.PASS:
        return []
    if finding.outcome is Outcome.FAIL:
        return [Failure(message, finding.severity)]
    if finding.outcome is Outcome.NOT_APPLICABLE or not finding.required:
        return [Skipped(message, str(finding.outcome))]
    return [Error(message, str(finding.outcome))]


def _verdict(view: View) -> TestSuite:
    suite, case = TestSuite("verdict"), TestCase("verdict", classname="verdict")
    message = _clean(f"{view.word}: {view.first_reason}")
    if view.name is VerdictName.INCOMPLETE:
        case.result = [Error(message, view.name)]
    elif view.name is not VerdictName.GO:
        case.result = [Failure(message, view.name)]
    suite.add_property("row", str(view.row))
    suite.add_testcase(case)
    return suite


def _clean(text: str) -> str:
    """`text` without the characters that XML 1.0 cannot hold."""
    return _NOT_XML.sub("\ufffd", text)

"""Whatever a server, a model or a log says, every report is written, well-formed, and holds it as text."""

import re
import xml.etree.ElementTree as ElementTree

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from report_sample import START_NS, dossier, judgement, records

from signoff.core.evidence import Evidence
from signoff.core.record import Record
from signoff.report.files import render
from signoff.report.record_tables import LATENCY_RECORDS_MAX
from signoff.report.text import summary
from signoff.report.timeline import LOOKED_AT_MAX
from signoff.report.view import view

NASTY = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        (
            "</script><script>x()</script>", "<!--", "]]>", '"><img src=x onerror=x()>', "{{ 7*7 }}", "{0.__class__}",
            "\x00", "\u202e", "|a|\n# b", "\\", "\r\n", "https://evil.example/",
        )
    ),
)  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=NASTY)
def test_every_report_survives_any_text(said: str) -> None:
    told = judgement()
    first = msgspec.structs.replace(told.findings[2], subject=said, values={"observed": said}, evidence=(said,))
    verdict = msgspec.structs.replace(
        told.verdict,
        subject=msgspec.structs.replace(told.verdict.subject, model=said),
        would_change=(said,),
        reasons=(msgspec.structs.replace(told.verdict.reasons[0], message=said, code="no.such.code"),),
    )
    bad = msgspec.structs.replace(told, findings=(first,), deciding=(first,), verdict=verdict)
    seen = Evidence(kind=said, source=said, where=said, taken_ns=START_NS, missing=said or "x", conditions={"a": said})
    holder = msgspec.structs.replace(dossier(), records=[], metrics={}, evidence=[seen])
    page = render(holder, bad, "html").decode()
    assert not re.findall(r"<(?:script|img)", page)
    ElementTree.fromstring(render(holder, bad, "junit"))
    list(text_string_to_metric_families(render(holder, bad, "openmetrics").decode()))
    msgspec.json.decode(render(holder, bad, "json"))
    body = render(holder, bad, "md").decode()
    assert "<script" not in body.replace("\\<script", "")
    assert all(c.isprintable() or c in "\n\u00a0" for c in summary(bad))


@pytest.mark.timeout(60)
def test_very_many_records_are_sampled_and_the_page_says_so() -> None:
    base = records()[0]
    count = LOOKED_AT_MAX + 2000
    many = [
        Record(
            id=f"r{n}", gate=base.gate, stage=base.stage, state=base.state if n % 1000 else records()[31].state,
            planned_ns=START_NS + n, sent_ns=START_NS + n, written_ns=START_NS + n,
            first_content_ns=START_NS + n + 10**8, end_ns=START_NS + n + 2 * 10**8,
        )
        for n in range(count)
    ]  # fmt: skip
    seen = view(msgspec.structs.replace(dossier(), records=many), judgement())
    table = seen.gates[1].tables[0]
    assert f"{LATENCY_RECORDS_MAX:,}" in table.note
    assert table.rows[0][1].text == f"{count:,}", "the count is of all"
    assert sum(not p.ok for p in seen.timeline.points) == -(-count // 1000), "every failure is drawn"

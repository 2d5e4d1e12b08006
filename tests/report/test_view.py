import msgspec
import pytest
import report_sample
from report_sample import START_NS, dossier, judgement, records

from signoff.core.record import Record
from signoff.core.words import Outcome, VerdictName
from signoff.errors import SignoffError
from signoff.report.numbers import MISSING
from signoff.report.timeline import POINTS_MAX, SERIES_MAX, timeline
from signoff.report.view import view

NAMES = [str(name) for name in VerdictName]


@pytest.mark.parametrize("name", NAMES)
def test_every_verdict_has_a_word_a_reason_and_a_next_step(name: str) -> None:
    seen = view(dossier(), judgement(name))
    assert seen.word
    assert seen.means
    assert seen.first_reason
    assert seen.next_step
    assert (seen.scope != "") == (name == "rework")


def test_the_first_reason_is_the_deciding_finding_and_go_invents_none() -> None:
    assert view(dossier(), judgement("rework")).first_code == "environment.chain.cuda_runtime"
    good = view(dossier(), judgement("go"))
    assert good.first_code == ""
    assert "passed" in good.first_reason


def test_a_simulated_service_is_said_first_and_a_laboratory_one_too() -> None:
    assert view(dossier(), judgement()).banners[0].kind == "simulated"
    told = judgement()
    real = msgspec.structs.replace(told.verdict, subject=msgspec.structs.replace(told.verdict.subject, simulated=False))
    lab = dossier(scope="laboratory")
    lab = msgspec.structs.replace(
        lab, plan=msgspec.structs.replace(lab.plan, service=msgspec.structs.replace(lab.plan.service, simulated=False))
    )
    assert view(lab, msgspec.structs.replace(told, verdict=real)).banners[0].kind == "laboratory"


def test_all_findings_are_shown_and_failures_come_first() -> None:
    told = judgement()
    seen = view(dossier(), told)
    assert sorted(f.finding.code for f in seen.all_findings) == sorted(f.code for f in told.findings)
    for gate in seen.gates:
        assert all(f.tone == "pass" for f in gate.passed)
        outcomes = [f.outcome for f in gate.findings]
        assert Outcome.FAIL not in outcomes[sum(o is Outcome.FAIL for o in outcomes) :]


def test_the_chain_shows_demand_observation_sources_and_outcome() -> None:
    chain = view(dossier(), judgement()).gates[0].tables[0]
    told = {row[0].text: [cell.text for cell in row[1:]] for row in chain.rows}
    assert told["CUDA runtime"][:2] == ["major 13", "12.9"]
    assert told["CUDA runtime"][2:] == ["2, at least 2", "fail"]
    assert told["Chain process"][1:3] == [MISSING, "1, at least 2"]
    assert told["Chain process"][3] == "inconclusive"


def test_one_code_with_several_subjects_becomes_a_table_in_natural_order() -> None:
    tables = {t.caption: t for t in view(dossier(), judgement()).gates[1].tables}
    rows = tables["Concurrency held"].rows
    assert [row[0].text for row in rows] == ["8 streams", "16 streams", "32 streams"]
    assert rows[2][-1].tone == "fail"


def test_stage_arm_and_kind_tables_count_what_the_records_say() -> None:
    _, capacity, prefix, agent = view(dossier(), judgement()).gates
    columns = capacity.tables[0].columns
    stage = dict(zip(columns, {r[0].text: r for r in capacity.tables[0].rows}["concurrency 32"], strict=True))
    assert (stage["Requests"].text, stage["Requests"].note) == ("60", "1 timeout")
    assert stage["TTFT p99"].note == "n 59 < 299", "a p99 of 59 samples has no upper bound and must say so"
    assert (stage["Running"].text, stage["Waiting"].text) == ("32", "12")
    assert stage["KV"].text.startswith("98")
    arms = {row[0].text: row for row in prefix.tables[0].rows}
    assert arms["warm"][-1].text.startswith("99")
    assert arms["cold"][-1].text.startswith("0")
    assert [cell.text.replace("\u00a0", " ") for cell in agent.tables[0].rows[0]][1:] == [
        "1 of 40", "2.5 %", "1 of 20", "0 of 20", "pass",
    ]  # fmt: skip
    assert agent.tables[0].rows[0][2].note.replace("\u00a0", " ") == "0.06 % – 13.2 % · limit 15 %"


def test_without_rates_the_agent_table_counts_finished_answers_and_says_that_this_is_not_right() -> None:
    told = judgement()
    bare = msgspec.structs.replace(told, findings=tuple(f for f in told.findings if not f.code.endswith(".rate")))
    table = view(dossier(), bare).gates[3].tables[0]
    assert table.rows[0][2].text == "20 / 20"
    assert "not yet a right one" in table.note


def test_a_stage_without_scrapes_shows_no_peaks_rather_than_zeros() -> None:
    table = view(msgspec.structs.replace(dossier(), metrics={}), judgement()).gates[1].tables[0]
    assert {cell.text for row in table.rows for cell in row[-4:]} == {MISSING}


def test_a_server_that_tells_no_cached_tokens_is_not_shown_as_zero() -> None:
    silent = [msgspec.structs.replace(r, cached_tokens=None) for r in records()]
    seen = view(msgspec.structs.replace(dossier(), records=silent), judgement())
    assert {row[-1].text for row in seen.gates[2].tables[0].rows} == {MISSING}


def test_a_raw_example_is_bounded_and_prefers_a_failure() -> None:
    example = view(dossier(), judgement()).gates[3].examples[0]
    assert example.tone == "fail"
    assert len(example.response) < 5000
    assert "cut after" in example.response


def test_an_empty_bundle_is_shown_without_inventing_anything() -> None:
    empty = msgspec.structs.replace(dossier(), records=[], metrics={}, events=[], evidence=[])
    seen = view(empty, msgspec.structs.replace(judgement("incomplete"), findings=(), deciding=()))
    assert seen.timeline.empty
    assert not seen.evidence.rows
    assert all(not gate.findings and not gate.tables for gate in seen.gates)


def test_a_language_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SignoffError, match="tlh"):
        view(dossier(), judgement(), "tlh")


def test_thinning_keeps_every_failure_and_the_slowest_request() -> None:
    many = []
    base = records()[0]
    for number in range(POINTS_MAX * 2):
        slow = 10**12 if number == 777 else 10**8 + number
        sent = START_NS + number * 10**6
        many.append(
            Record(
                id=f"r{number}",
                gate=base.gate,
                stage=base.stage,
                state="ok" if number % 100 else "timeout",
                planned_ns=sent,
                sent_ns=sent,
                written_ns=sent,
                first_content_ns=sent + slow,
                end_ns=sent + slow,
            )
        )
    many = [msgspec.convert(msgspec.to_builtins(r), Record) for r in many]
    axis = timeline(msgspec.structs.replace(dossier(), records=many))
    assert len(axis.points) <= POINTS_MAX
    assert sum(not p.ok for p in axis.points) == POINTS_MAX * 2 // 100
    assert max(p.ms for p in axis.points) == 10**6


def test_long_series_keep_their_extremes_and_their_gaps() -> None:
    tables = report_sample.metrics(scrapes=20_000)
    axis = timeline(msgspec.structs.replace(dossier(), metrics=tables))
    running = axis.running[0]
    assert len(running.values) <= SERIES_MAX + 3
    assert max(v for v in running.values if v == v) == 32
    assert any(v != v for v in running.values), "a scrape without the series breaks the line"


def test_what_was_not_run_does_not_bury_the_cause() -> None:
    told = judgement()
    unrun = told.verdict.reasons[0]
    many = tuple(
        msgspec.structs.replace(
            unrun, outcome=Outcome.NOT_RUN, code="capacity.soak.drift", message=f"m{n}", evidence=()
        )
        for n in range(9)
    )
    verdict = msgspec.structs.replace(told.verdict, reasons=(*told.verdict.reasons[:2], *many))
    seen = view(dossier(), msgspec.structs.replace(told, verdict=verdict))
    assert [r.outcome for r in seen.reasons] == [Outcome.FAIL, Outcome.FAIL]
    assert len(seen.unrun) == 9
    assert "9 more" in seen.unrun_summary
    few = msgspec.structs.replace(verdict, reasons=verdict.reasons[:4])
    assert len(view(dossier(), msgspec.structs.replace(told, verdict=few)).reasons) == 4

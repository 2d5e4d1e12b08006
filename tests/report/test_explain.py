from pathlib import Path

import pytest

from signoff.errors import SignoffError
from signoff.judge.catalogue import ALL, CATALOGUE
from signoff.report.explain import explain, findings_page, nearest
from signoff.report.profile import profile_text
from signoff.run.profiles import load_profile, names

PAGE = Path(__file__).parents[2] / "docs" / "findings.md"


@pytest.mark.parametrize("code", sorted(entry.code for entry in ALL))
def test_every_code_is_explained_in_full(code: str) -> None:
    text, entry = explain(code), CATALOGUE[code]
    for part in (entry.title, entry.checked, entry.matters, entry.measured, entry.changes, *entry.sentences.values()):
        assert part in text


def test_an_unknown_code_names_the_nearest() -> None:
    with pytest.raises(SignoffError, match=r"environment\.chain\.cuda_runtime"):
        explain("environment.chain.cuda_runtme")
    assert nearest("no such thing at all") == []
    assert "capacity.soak.drift" in nearest("soak")


def test_the_page_of_all_findings_is_the_catalogue() -> None:
    assert PAGE.read_text() == findings_page(), "run: python tests/report/write_pages.py"


@pytest.mark.parametrize("name", names())
def test_a_profile_is_shown_with_status_and_dates(name: str) -> None:
    profile = load_profile(name)
    text = profile_text(profile)
    assert profile.status in text
    assert profile.checked_on in text
    assert all(link.name in text for link in profile.chain)

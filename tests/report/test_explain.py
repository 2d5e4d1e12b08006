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
    with pytest.raises(SignoffError, match=r"Nearest: \w+\.\w+\.\w+.*docs/findings\.md"):
        explain("nonsense")
    with pytest.raises(SignoffError):
        explain("x" * 100_000)
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
    assert " True" not in text
    assert "|" not in text.replace("--attention-config", "")


def test_a_demand_is_shown_in_words() -> None:
    text = profile_text(load_profile("kimi-k3"))
    assert "image: must be vllm/vllm-openai:kimi-k3, named by digest; 2 independent sources must agree" in text
    assert "process: the serving process itself was seen" in text
    assert "gpu: one of H200, B200, B300, GB200, GB300" in text

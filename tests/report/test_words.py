import re
import string
from pathlib import Path

import msgspec
import pytest
from report_sample import dossier, judgement

import signoff.report
from signoff.core.finding import Finding
from signoff.core.words import Bearing, Cause, Gate, Outcome, Phase, Scope, Severity, VerdictName
from signoff.judge import catalogue
from signoff.judge.catalogue import ALL
from signoff.judge.catalogue.entry import DEFAULTS
from signoff.report.files import LANGUAGES, render
from signoff.report.sentences import TRANSLATED, Sentences, translations
from signoff.report.view import view
from signoff.report.words import TABLES

SOURCES = Path(signoff.report.__file__).parent
OTHERS = [lang for lang in LANGUAGES if lang != "en"]


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_the_languages() -> None:
    assert LANGUAGES == ("en", "zh-Hant", "zh-Hans")


@pytest.mark.parametrize("lang", OTHERS)
def test_every_word_stands_in_every_language_with_the_same_places(lang: str) -> None:
    assert set(TABLES[lang]) == set(TABLES["en"])
    for key, text in TABLES["en"].items():
        assert TABLES[lang][key].strip(), key
        assert places(TABLES[lang][key]) == places(text), key


@pytest.mark.parametrize("lang", OTHERS)
def test_what_is_made_of_words_is_translated(lang: str) -> None:
    for key, text in TABLES["en"].items():
        if key.startswith(("verdict.", "means.", "next.", "outcome.", "section.", "banner.", "item.", "question.")):
            assert TABLES[lang][key] != text, key


def test_every_noun_of_the_core_has_its_words() -> None:
    table = TABLES["en"]
    for kind, names in (
        ("verdict", VerdictName), ("means", VerdictName), ("next", VerdictName), ("outcome", Outcome),
        ("severity", Severity), ("gate", Gate), ("question", Gate), ("cause", Cause), ("phase", Phase),
        ("scope", Scope), ("item", range(1, 14)),
    ):  # fmt: skip
        assert not [name for name in names if f"{kind}.{name}" not in table]


def test_no_renderer_asks_for_a_word_that_is_not_there() -> None:
    asked = set()
    for path in (*SOURCES.glob("*.py"), *SOURCES.glob("templates/*.j2")):
        asked |= set(re.findall(r"""(?:word|words|w)\[["']([a-z0-9_.-]+)["']\]""", path.read_text()))
    assert asked
    assert asked <= set(TABLES["en"])


@pytest.mark.parametrize("lang", OTHERS)
def test_a_page_in_another_language_says_what_it_could_not_translate(lang: str) -> None:
    seen = view(dossier(), judgement(), lang)
    assert any(banner.kind == "untranslated" for banner in seen.banners)
    page = render(dossier(), judgement(), "html", lang).decode()
    assert f'<html lang="{lang}">' in page
    assert seen.word in page
    assert "untranslated" not in [banner.kind for banner in view(dossier(), judgement()).banners]


TEMPLATES = {
    text for entry in ALL for text in (entry.title, *entry.sentences.values(), *entry.next_step.values())
} | set(DEFAULTS.values())


@pytest.mark.parametrize("lang", TRANSLATED)
def test_a_translated_sentence_has_the_places_of_its_english(lang: str) -> None:
    for english, text in translations(lang).items():
        assert places(text) == places(english), english
        assert text.strip(), english


@pytest.mark.parametrize("lang", TRANSLATED)
def test_most_sentences_are_translated(lang: str) -> None:
    """Those that are not stay English, and the page counts them."""
    assert len(TEMPLATES & set(translations(lang))) / len(TEMPLATES) > 0.7


def test_both_chinese_tables_translate_the_same() -> None:
    assert set(translations("zh-Hant")) == set(translations("zh-Hans"))


@pytest.mark.parametrize("lang", TRANSLATED)
def test_a_translated_finding_is_told_in_its_language_everywhere(lang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = catalogue.CATALOGUE["run.whole.finished"]
    finding = Finding(
        code=known.code, gate=Gate.ENVIRONMENT, outcome=Outcome.NOT_RUN, bearing=Bearing.EVIDENCE,
        values={"stopped": "interrupted"},
    )  # fmt: skip
    told = Sentences(lang)
    assert "interrupted" in told.sentence(finding)
    assert told.sentence(finding) != told.english(finding)
    assert told.next_step(finding) != catalogue.next_step(finding)
    assert told.title(finding.code) != known.title
    assert told.untranslated == 0
    changed = msgspec.structs.replace(known, sentences={Outcome.NOT_RUN: "It stopped, newly said: {stopped}."})
    monkeypatch.setitem(catalogue.CATALOGUE, known.code, changed)
    assert told.sentence(finding) == "It stopped, newly said: interrupted.", "an old translation is not shown"
    assert told.untranslated == 1

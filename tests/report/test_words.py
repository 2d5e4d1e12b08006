import re
import string
from pathlib import Path

import pytest
from report_sample import dossier, judgement

import signoff.report
from signoff.core.verdict import VerdictName
from signoff.core.words import Cause, Gate, Outcome, Phase, Scope, Severity
from signoff.report.files import LANGUAGES, render
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

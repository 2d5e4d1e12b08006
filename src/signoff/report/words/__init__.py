"""The words of the interface, one table a language."""

from collections.abc import Mapping

from signoff.errors import SignoffError
from signoff.report.words import en, zh_hans, zh_hant

TABLES: Mapping[str, Mapping[str, str]] = {"en": en.WORDS, "zh-Hant": zh_hant.WORDS, "zh-Hans": zh_hans.WORDS}


def words(lang: str) -> Mapping[str, str]:
    """The table of `lang`; SignoffError when there is none."""
    if lang not in TABLES:
        raise SignoffError(f"no report language {lang!r}", f"one of: {', '.join(TABLES)}")
    return TABLES[lang]

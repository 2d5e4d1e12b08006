"""The sentences of findings in one language, and the count of those that the language lacks.

A translation goes by the English template that it translates, so that one whose English has changed since is not shown
as if it still said the same: the page then falls back to English, and says so.
"""

import pkgutil
from collections.abc import Mapping
from functools import cache

import msgspec

from signoff.core.finding import Finding
from signoff.judge import catalogue
from signoff.judge.catalogue import entry as words

TRANSLATED = ("zh-Hant", "zh-Hans")


@cache
def translations(lang: str) -> Mapping[str, str]:
    """English template to its translation; empty for English."""
    if lang not in TRANSLATED:
        return {}
    raw = pkgutil.get_data("signoff.report.words", f"findings.{lang}.json")
    return msgspec.json.decode(raw or b"{}", type=dict[str, str])


class Sentences:
    """Chooses sentences and keeps count, so that a page can say what it could not translate."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self.total = 0
        self.untranslated = 0

    def title(self, code: str) -> str:
        if code not in catalogue.CATALOGUE:
            return code
        english = catalogue.CATALOGUE[code].title
        return translations(self.lang).get(english, english)

    def english(self, finding: Finding) -> str:
        if finding.code in catalogue.CATALOGUE:
            return catalogue.sentence(finding)
        told = ", ".join(f"{name} {value}" for name, value in finding.values.items())
        return f"{finding.code}: {finding.outcome}" + (f" ({told})" if told else "")

    def sentence(self, finding: Finding) -> str:
        """What this finding says; counted, and counted as untranslated when it stays English."""
        self.total += 1
        told = self._translated(finding, of="sentences")
        if told is None:
            self.untranslated += self.lang != "en"
            return self.english(finding)
        return told

    def next_step(self, finding: Finding) -> str:
        if finding.code not in catalogue.CATALOGUE:
            return ""
        told = self._translated(finding, of="next_step")
        return catalogue.next_step(finding) if told is None else told

    def _translated(self, finding: Finding, of: str) -> str | None:
        entry = catalogue.CATALOGUE.get(finding.code)
        if entry is None or self.lang == "en":
            return None
        template = (entry.sentences if of == "sentences" else entry.next_step).get(finding.outcome)
        if template is None and of == "sentences":
            template = words.DEFAULTS.get(finding.outcome)
        found = translations(self.lang).get(template) if template else None
        return None if found is None else words.fill(found, finding, self.title(finding.code))

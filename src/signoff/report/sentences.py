"""The sentences of findings in one language, and the count of those that the language lacks."""

from signoff.core.finding import Finding
from signoff.judge import catalogue


class Sentences:
    """Chooses sentences and keeps count, so that a page can say what it could not translate."""

    def __init__(self, lang: str) -> None:
        self.lang = lang
        self.total = 0
        self.untranslated = 0

    def english(self, finding: Finding) -> str:
        if finding.code in catalogue.CATALOGUE:
            return catalogue.sentence(finding)
        told = ", ".join(f"{name} {value}" for name, value in finding.values.items())
        return f"{finding.code}: {finding.outcome}" + (f" ({told})" if told else "")

    def sentence(self, finding: Finding) -> str:
        self.total += 1
        if self.lang != "en":
            self.untranslated += 1
        return self.english(finding)

    def next_step(self, finding: Finding) -> str:
        return catalogue.next_step(finding) if finding.code in catalogue.CATALOGUE else ""

"""Entry: the words of one finding code. Report, `signoff explain` and documents all take them from here."""

import string
from collections.abc import Mapping

from msgspec import Struct

from signoff.core.finding import Finding
from signoff.core.words import Gate, Outcome


class Entry(Struct, frozen=True, kw_only=True):
    """What `signoff explain CODE` prints, and the sentence of each outcome.

    Sentences hold `{name}` for any key of the finding's `values` and `limit` and for `{subject}` and `{resource}`;
    a name that a finding lacks shows as `not measured`, an empty text as `none`: looked, and there was none."""

    code: str
    always: bool = True
    """Whether every run of its gate yields this code, whatever was measured; one that is then absent counts as not
    run. False for codes that exist only when something was seen."""
    title: str
    """A few words, for tables."""
    checked: str
    """What was checked."""
    matters: str
    """Why it matters."""
    measured: str
    """How it was measured."""
    changes: str
    """What would change the outcome."""
    sentences: Mapping[Outcome, str]
    """At least `pass`, `fail` and `inconclusive` where the code can have them; `not_run` has a default."""
    next_step: Mapping[Outcome, str] = {}
    """What a person does next."""

    @property
    def gate(self) -> Gate:
        """The gate it belongs to; findings about the run as a whole stand with the environment."""
        first = self.code.split(".", 1)[0]
        return Gate.ENVIRONMENT if first == "run" else Gate(first)


DEFAULTS = {
    Outcome.NOT_RUN: "{title}: not run.",
    Outcome.NOT_APPLICABLE: "{title}: not applicable by plan or profile.",
    Outcome.INCONCLUSIVE: "{title}: looked, cannot tell.",
}


class _Gaps(dict[str, object]):
    def __missing__(self, key: str) -> str:
        return "not measured"


class _Words(string.Formatter):
    """Formats `{name}` and `{name:spec}` from untrusted values: attributes and indexes are not followed."""

    def get_field(self, field_name: str, args: object, kwargs: Mapping[str, object]) -> tuple[object, str]:  # type: ignore[override, unused-ignore]
        value = kwargs[field_name]
        return ("not measured" if value is None else "none" if value == "" else value), field_name

    def format_field(self, value: object, format_spec: str) -> str:
        if not format_spec and isinstance(value, bool):
            return "yes" if value else "no"
        if not format_spec and isinstance(value, float):  # a sentence is read, not compared: four digits are enough
            return f"{value:.0f}" if abs(value) >= 1000 or value.is_integer() else f"{value:.4g}"
        try:
            return str(format(value, format_spec))
        except (ValueError, TypeError):
            return str(value)


def fill(template: str, finding: Finding, title: str) -> str:
    """`template` with the values of `finding`."""
    names = _Gaps(
        **finding.values,
        **{f"limit_{key}" if key in finding.values else key: value for key, value in finding.limit.items()},
    )
    names |= {"subject": finding.subject or "-", "resource": finding.resource or "-", "title": title}
    return _Words().vformat(template, (), names)


def sentence(entry: Entry, finding: Finding) -> str:
    """The one sentence of this finding in English."""
    template = entry.sentences.get(finding.outcome) or DEFAULTS.get(finding.outcome) or "{title}."
    return fill(template, finding, entry.title)


def next_step(entry: Entry, finding: Finding) -> str:
    """What to do next, empty when nothing is to be done."""
    template = entry.next_step.get(finding.outcome, "")
    return fill(template, finding, entry.title) if template else ""

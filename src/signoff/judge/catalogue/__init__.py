"""The catalogue: every finding code with its words."""

from collections.abc import Mapping

from signoff.core.finding import Finding
from signoff.judge.catalogue import agent, capacity, environment, prefix, run
from signoff.judge.catalogue import entry as words
from signoff.judge.catalogue.entry import Entry

ALL: tuple[Entry, ...] = (*run.ENTRIES, *environment.ENTRIES, *capacity.ENTRIES, *prefix.ENTRIES, *agent.ENTRIES)
CATALOGUE: Mapping[str, Entry] = {entry.code: entry for entry in ALL}


def sentence(finding: Finding) -> str:
    """What this finding says, in one sentence."""
    return words.sentence(CATALOGUE[finding.code], finding)


def next_step(finding: Finding) -> str:
    """What to do next about this finding, empty when nothing is to be done."""
    return words.next_step(CATALOGUE[finding.code], finding)

"""The words of the agent gate's findings."""

from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()

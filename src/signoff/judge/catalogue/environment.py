"""The words of the environment gate's findings."""

from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()

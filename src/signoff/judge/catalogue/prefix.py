"""The words of the prefix gate's findings."""

from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()

"""The words of the capacity gate's findings."""

from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()

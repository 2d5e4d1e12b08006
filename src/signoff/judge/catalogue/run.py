"""The words of the findings that belong to the run as a whole."""

from signoff.judge.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = ()

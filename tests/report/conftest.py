"""The entries of the crafted sample stand in the catalogue while a report is tested."""

import pytest
from report_sample import entries

from signoff.judge import catalogue


@pytest.fixture(autouse=True)
def sample_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in entries():
        monkeypatch.setitem(catalogue.CATALOGUE, entry.code, entry)

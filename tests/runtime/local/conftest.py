from __future__ import annotations

import pytest

from headwater.runtime.driver import status_writer
from headwater.runtime.restore import client_stores, store_changelog_reader


@pytest.fixture
def short_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slice is a step of few records: many a client goes, and many a run ends, while it restores."""
    monkeypatch.setattr(client_stores, "SLICE_SECONDS", 0.0)
    monkeypatch.setattr(store_changelog_reader, "RECORDS_PER_REQUEST", 600)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A status in each round of the loop."""
    monkeypatch.setattr(status_writer, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(status_writer, "MOST_SHARE", float("inf"))

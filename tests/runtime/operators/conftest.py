from math import inf

import pytest

from headwater.runtime.driver import stopping as purging


@pytest.fixture(autouse=True)
def repartition_topics_stay(monkeypatch):
    """However slow a test is: what tasks have read is there for it to read."""
    monkeypatch.setattr(purging, "PURGE_SECONDS", inf)

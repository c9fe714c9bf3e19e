"""docs/operations.md says what runs say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.api.tasks import ApplicationTasks
from headwater.cli.tasks import headline
from headwater.runtime.driver.group.group import ALONE_SECONDS, MOST_DAMAGES
from headwater.runtime.driver.reports.event_texts import lost, sentence
from headwater.runtime.driver.reports.events import ClientJoined, ClientLost, ClientRefused, Event, StoreDamaged
from headwater.runtime.driver.reports.status import RunStatus
from headwater.runtime.progress.errors import FencedError
from headwater.runtime.state.directories.process_file import PATIENCE_S, Owner
from headwater.runtime.tasks.errors import LockError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "operations.md").read_text("utf-8").split())
STATUS = RunStatus("shop-sales", 1, "host", Owner("boot", 4711, 0.0), 0, 0, 1000, 0, 0, False, ())


@pytest.mark.parametrize(
    "event",
    [
        ClientLost("", "executor-1"),
        ClientJoined("", "executor-2"),
        ClientRefused("", "executor-2", "..."),
        StoreDamaged("", "client-1", "orders", 2, "..."),
    ],
)
def test_page_has_the_sentences_of_events(event: Event) -> None:
    assert f"`{sentence(event).removeprefix(': ')}`" in PAGE


def test_page_has_the_words_of_errors_and_of_tasks() -> None:
    assert "`... is in use by process 4711`" in PAGE
    assert "is in use by process 4711" in str(LockError("state", 4711))
    assert "`another run of shop-sales has started`" in PAGE
    assert str(FencedError("shop-sales", 1, 2)).startswith("another run of shop-sales has started")
    assert "has lost its rows and starts empty" in PAGE
    assert "has lost its rows and starts empty" in lost("orders", 2, "client-1")
    for condition, words in (
        ("gone", "does not run any more: its process 4711 is gone"),
        ("silent", "may have stopped"),
    ):
        assert f"`{words}`" in PAGE
        assert words in headline(ApplicationTasks("shop-sales", 0, condition, STATUS))  # type: ignore[arg-type]


def test_page_has_the_limits_of_the_code() -> None:
    assert (ALONE_SECONDS, PATIENCE_S, MOST_DAMAGES) == (60.0, 60.0, 3)
    assert "waits a minute for another one" in PAGE
    assert "waits up to a minute for its end" in PAGE
    assert "are damaged three times in a row ends" in PAGE

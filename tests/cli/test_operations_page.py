"""docs/operations.md says what runs say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.api.tasks import ApplicationTasks
from headwater.cli.commands.tasks import headline
from headwater.errors import HeadwaterError
from headwater.runtime.driver.application import LogGoneError
from headwater.runtime.driver.client_events import (
    ClientJoined,
    ClientLost,
    ClientRefused,
    StoreDamaged,
    StoreLost,
    StoreOutdated,
)
from headwater.runtime.driver.events import ApplicationStopping, Event
from headwater.runtime.driver.group import ALONE_SECONDS, MOST_DAMAGES
from headwater.runtime.driver.status import RunStatus
from headwater.runtime.log.errors import (
    CommitDamagedError,
    CommitFormatError,
    CommitsMissingError,
    CorruptSegmentError,
    OffsetRange,
    RangeMissingError,
    SegmentError,
    SnapshotsDamagedError,
    UnsupportedFileSystemError,
)
from headwater.runtime.progress.committer import ConsumedRecordsMissingError, FencedError
from headwater.runtime.state.directory import OtherLogError
from headwater.runtime.state.process_file import PATIENCE_S, Owner
from headwater.runtime.tasks.errors import LockError

DOCS = Path(__file__).parents[2] / "docs"
PAGE = " ".join((DOCS / "operations.md").read_text("utf-8").split())
STATUS = RunStatus("shop-sales", 1, "host", Owner("boot", 4711, 0.0), 0, 0, 1000, 0, 0, False, ())


@pytest.mark.parametrize(
    "event",
    [
        ApplicationStopping("", 1),
        ClientLost("", "executor-1"),
        ClientJoined("", "executor-2"),
        ClientRefused("", "executor-2", "..."),
        StoreDamaged("", "client-1", "orders", 2, "..."),
        StoreOutdated("", "client-1", "orders", 2, 1_200, 40_000),
    ],
)
def test_page_has_the_sentences_of_events(event: Event) -> None:
    assert f"`{event.text.removeprefix(': ')}`" in PAGE


def test_page_has_the_words_of_errors_and_of_tasks() -> None:
    assert "`... is in use by process 4711`" in PAGE
    assert "is in use by process 4711" in str(LockError("state", 4711))
    assert "`another run of shop-sales has started`" in PAGE
    assert str(FencedError("shop-sales", 1, 2)).startswith("another run of shop-sales has started")
    assert "has lost its rows and starts empty" in PAGE
    assert "has lost its rows and starts empty" in StoreLost("", "client-1", "orders", 2).said
    for condition, words in (
        ("gone", "does not run any more: its process 4711 is gone"),
        ("silent", "may have stopped"),
    ):
        assert f"`{words}`" in PAGE
        assert words in headline(ApplicationTasks("shop-sales", 0, condition, STATUS))[0]  # type: ignore[arg-type]


def told(error: SegmentError) -> SegmentError:
    error.set_location(OffsetRange("...", 0, 40, 120))
    return error


@pytest.mark.parametrize(
    "error",
    [
        told(RangeMissingError("...")),
        told(CorruptSegmentError("...", 3)),
        CommitDamagedError("shop-sales", 17, "damaged", "..."),
        CommitDamagedError("shop-sales", 17, "missing, though later ones exist", "..."),
        SnapshotsDamagedError("shop-sales", (), 4400),
        CommitsMissingError("shop-sales", Path(), Path()),
        LogGoneError("shop-sales", "..."),
        OtherLogError(Path("..."), "..."),
        UnsupportedFileSystemError("...", "..."),
        FencedError("shop-sales", 1, 2),
        FencedError("shop-sales", 1, None),
        LockError("...", 4711),
        CommitFormatError(6, 5),
        ConsumedRecordsMissingError("...", ()),
    ],
)
def test_table_of_errors_has_the_words_of_messages(error: HeadwaterError) -> None:
    table = (DOCS / "operations.md").read_text("utf-8").partition("## Errors, and what to do")[2].partition("\n## ")[0]
    messages = re.findall(r"`([^`]+)`", table)
    pieces = [[piece.strip() for piece in each.split("...") if piece.strip()] for each in messages]
    assert any(each and all(piece in error.message for piece in each) for each in pieces), error.message


def test_page_has_the_limits_of_the_code() -> None:
    assert (ALONE_SECONDS, PATIENCE_S, MOST_DAMAGES) == (60.0, 60.0, 3)
    assert "waits a minute for another one" in PAGE
    assert "waits up to a minute for its end" in PAGE
    assert "are damaged three times in a row stops" in PAGE

"""Kafka Streams' checkpoint files: their form, and what they refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.runtime.state.offset_checkpoint import (
    CheckpointError,
    OffsetCheckpoint,
    offset_of,
    position_of,
)
from headwater.runtime.task_id import UNKNOWN_OFFSET


@pytest.fixture
def checkpoint(tmp_path: Path) -> OffsetCheckpoint:
    return OffsetCheckpoint(tmp_path / ".checkpoint")


def test_file_has_version_count_and_a_line_for_each_changelog(checkpoint: OffsetCheckpoint) -> None:
    checkpoint.write({("t", 1): 5, ("s", 0): UNKNOWN_OFFSET})

    assert checkpoint.path.read_bytes() == b"0\n2\ns 0 -4\nt 1 5\n"
    assert checkpoint.read() == {("s", 0): UNKNOWN_OFFSET, ("t", 1): 5}
    assert list(checkpoint.path.parent.iterdir()) == [checkpoint.path]


def test_file_of_no_changelogs_is_removed_and_a_missing_one_is_empty(checkpoint: OffsetCheckpoint) -> None:
    checkpoint.write({("s", 0): 1})
    checkpoint.write({})

    assert not checkpoint.path.exists()
    assert checkpoint.read() == {}
    assert checkpoint.stamp() is None


@pytest.mark.parametrize("offset", [-1, -2, -3, -5])
def test_offset_that_is_none_is_not_written_and_passed_over_when_read(
    checkpoint: OffsetCheckpoint, offset: int
) -> None:
    checkpoint.write({("s", 0): 1})
    with pytest.raises(CheckpointError, match=f"{offset} is not a valid offset of t 0"):
        checkpoint.write({("t", 0): offset})
    assert checkpoint.read() == {("s", 0): 1}

    checkpoint.path.write_text(f"0\n2\ns 0 7\nt 0 {offset}\n")
    assert checkpoint.read() == {("s", 0): 7}


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        ("", "'' is not a number"),
        ("0\n2\ns 0 7\n", "it has 1 entries instead of 2"),
        ("0\n1\ns 0\n", "an entry has 2 fields instead of 3"),
        ("0\n1\ns 0 seven\n", "'seven' is not a number"),
        ("1\n1\ns 0 7\n", "its version is 1; this is known: 0"),
    ],
)
def test_file_that_is_not_as_it_was_written_is_refused(checkpoint: OffsetCheckpoint, content: str, cause: str) -> None:
    checkpoint.path.write_text(content)

    with pytest.raises(CheckpointError) as raised:
        checkpoint.read()

    assert raised.value.cause == cause


def test_offset_is_that_of_the_last_record_that_was_applied() -> None:
    assert [offset_of(position) for position in (0, 1, 8)] == [UNKNOWN_OFFSET, 0, 7]
    assert [position_of(offset_of(position)) for position in (0, 1, 8)] == [0, 1, 8]

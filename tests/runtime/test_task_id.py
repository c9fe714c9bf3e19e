from __future__ import annotations

import pytest

from headwater.runtime.task_id import TaskId


def test_id_shows_subtopology_and_partition_and_reads_back() -> None:
    assert str(TaskId(0, 12, "hourly")) == "0_12"
    assert TaskId.parse("0_12") == TaskId(0, 12)


def test_ids_sort_by_number_not_by_text() -> None:
    assert sorted([TaskId(10, 0), TaskId(2, 10), TaskId(2, 9)]) == [TaskId(2, 9), TaskId(2, 10), TaskId(10, 0)]


def test_name_takes_no_part_in_comparing() -> None:
    assert TaskId(0, 1, "late") == TaskId(0, 1)
    assert len({TaskId(0, 1, "late"), TaskId(0, 1)}) == 1


@pytest.mark.parametrize("text", ["", "dummy", "0", "0_", "_1", "0_1_2", "00_1", "0_ 1", "+0_1"])
def test_other_text_is_no_task_id(text: str) -> None:
    with pytest.raises(ValueError):
        TaskId.parse(text)

"""Records of many bytes: how much memory a run takes for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.benchmarks.suite.measured.large_records import run

DEFAULT = 256 << 20


@pytest.mark.soak
def test_texts_of_more_than_any_array_holds_are_taken_within_the_memory_of_epochs(tmp_path: Path) -> None:
    found = run(tmp_path, "changed", 24, 100 << 20, DEFAULT)
    assert found["longest"] == [["0", 12, 100 << 20], ["1", 12, 100 << 20]]
    assert found["taken"] <= 4 * DEFAULT, found
    assert found["appended"] <= 4 * DEFAULT, found


def test_each_record_that_is_larger_than_an_epoch_is_taken(tmp_path: Path) -> None:
    assert run(tmp_path, "changed", 4, 1 << 16, 1000)["longest"] == [["0", 2, 1 << 16], ["1", 2, 1 << 16]]

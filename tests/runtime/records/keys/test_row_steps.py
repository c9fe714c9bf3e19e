"""The first key that a reader of a store looks at."""

from __future__ import annotations

import pytest

from headwater.runtime.ir.topology import Store
from headwater.runtime.records.window_keys import first_row_key, row_step, timed_key

GIVEN = Store("given", 1, "k string", "n bigint", "window", retention_ms=90_000)


@pytest.mark.parametrize("length", [7, 45_000, 60_000])
@pytest.mark.parametrize("time", [0, 59_999, 60_000, 60_003, 119_999])
def test_first_key_is_before_rows_of_the_time_also_in_the_shorter_segments_of_an_earlier_version(
    length: int, time: int
) -> None:
    lower = first_row_key(GIVEN, time, None)
    assert lower is not None
    assert lower <= timed_key(length, b"a", time)
    assert lower > timed_key(row_step(GIVEN), b"a", time - row_step(GIVEN))
    assert first_row_key(GIVEN, None) is None

"""Keys of window stores: they come apart as they were put together, and their bytes are in the order of time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.window_keys import first_visible_start, first_window_key, split_window_keys, window_keys

STARTS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(STARTS, st.binary())))
def test_keys_come_apart_as_they_were_put_together(windows: list[tuple[int, bytes]]) -> None:
    starts = np.array([start for start, _ in windows], np.int64)
    keys = [key for _, key in windows]

    encoded = window_keys(starts, pa.array(keys, pa.binary())).to_pylist()

    found, rest = split_window_keys(encoded)
    assert (found.tolist(), rest) == (starts.tolist(), keys)
    assert sorted(encoded) == [key for _, key in sorted(zip(windows, encoded, strict=True))]


@given(STARTS, STARTS, st.binary())
def test_least_key_of_a_start_parts_earlier_windows_from_others(start: int, bound: int, key: bytes) -> None:
    (encoded,) = window_keys(np.array([start], np.int64), pa.array([key], pa.binary())).to_pylist()
    assert (encoded >= first_window_key(bound)) is (start >= bound)


@pytest.mark.parametrize(("start", "visible"), [(90, False), (91, True), (100, True)])
def test_window_has_expired_once_the_clock_is_its_retention_past_its_start(start: int, visible: bool) -> None:
    assert (start >= first_visible_start(clock=100, retention=10)) is visible

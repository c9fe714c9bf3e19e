"""The order of keys, found by sorting numbers, is that of their bytes."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.state.key_order import MOST_BYTES, last_in_order

LETTERS = st.sampled_from([b"\0", b"\x01", b"k", b"\x7f", b"\x80", b"\xff"])


@st.composite
def keys_of_any_length(draw: st.DrawFn) -> list[bytes]:
    longest = draw(st.sampled_from([0, 1, 7, 8, 9, 17, MOST_BYTES, MOST_BYTES + 1]))
    prefix = draw(st.sampled_from([b"", b"a common beginning"[:longest]]))
    rest = st.lists(LETTERS, max_size=longest - len(prefix)).map(b"".join)
    return [prefix + each for each in draw(st.lists(rest, max_size=40))]


@given(keys_of_any_length(), st.integers(0, 3))
def test_each_key_comes_once_where_it_was_last_in_the_order_of_bytes(keys: Sequence[bytes], skipped: int) -> None:
    array = pa.array([*([b"before"] * skipped), *keys], pa.large_binary()).slice(skipped)

    found = last_in_order(array)

    last = {key: number for number, key in enumerate(keys)}
    assert found.tolist() == [last[key] for key in sorted(last)]


@pytest.mark.parametrize("length", [8, 40, 80])
def test_many_keys_that_come_again_and_again_come_once(length: int) -> None:
    keys = [b"%0*d" % (length, number * 7919 % 1000) for number in range(10_000)]
    found = last_in_order(pa.array(keys, pa.large_binary()))
    assert [keys[at] for at in found] == [b"%0*d" % (length, number) for number in range(1000)]
    assert min(found) >= 9000

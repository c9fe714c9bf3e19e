"""Keys as numbers: their order is that of the bytes, and they are equal where the keys are."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.records.key_order import MOST_BYTES, SHORT_BYTES, as_numbers, last_in_order

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


@given(keys_of_any_length(), st.sampled_from([pa.binary(), pa.large_binary()]), st.integers(0, 3))
def test_numbers_of_keys_are_equal_where_the_keys_are(keys: Sequence[bytes], kind: pa.DataType, skipped: int) -> None:
    numbers = as_numbers(pa.array([*([b"before"] * skipped), *keys], kind).slice(skipped))

    if numbers is None:
        assert len(set(map(len, keys))) > 1 or len(keys[0]) in (0, *range(9, MOST_BYTES + 2))
    else:
        assert len(set(zip(keys, numbers.tolist(), strict=True))) == len(set(keys)) == len(set(numbers.tolist()))


@pytest.mark.parametrize(
    ("keys", "there"),
    [
        ([b"k%08d" % number for number in range(100)], True),
        ([b"same"] * 3, True),
        ([b"short", b"longer"], False),
        ([b"0123456789", b"abcdefghij"], False),
        ([b"k" * SHORT_BYTES] * 2, True),
        ([b"k" * (SHORT_BYTES + 1)] * 2, False),
    ],
)
def test_short_keys_of_one_length_have_numbers(keys: list[bytes], there: bool) -> None:
    assert (as_numbers(pa.array(keys)) is not None) == there

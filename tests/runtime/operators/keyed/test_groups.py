"""Rows by key and window come to the same as in plain Python, however many keys there are and wherever they lie."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.runtime.engine.execution.keyed.groups import LOWEST, Groups, by_window, bytes_of, group_by, sorted_groups

FEW, MORE_THAN_16_BITS = 5, 70_000


@pytest.mark.parametrize("count", [FEW, MORE_THAN_16_BITS])
@pytest.mark.parametrize("spread", [1_000, 2**60], ids=["near", "far apart"])
def test_points_at_rows_have_the_sums_and_maxima_up_to_each_row(count: int, spread: int) -> None:
    rng = np.random.default_rng(count)
    code = rng.permutation(np.concatenate([np.arange(count), rng.integers(0, count, 2 * count)]))
    values = rng.integers(-spread, spread, len(code))
    start = np.where(rng.integers(0, 2, count) > 0, rng.integers(-spread, spread, count), LOWEST)
    groups = Groups(code, count, each=True, exists=start > LOWEST)

    last, greatest, sums, previous = dict[int, int](), start.tolist(), [0] * count, list[int]()
    maxima, totals = list[int](), list[int]()
    for row, (group, value) in enumerate(zip(code.tolist(), values.tolist(), strict=True)):
        previous.append(last.get(group, -1))
        last[group] = row
        greatest[group] = max(greatest[group], value)
        sums[group] += value % 1000
        maxima.append(greatest[group])
        totals.append(sums[group])
    assert groups.previous.tolist() == previous
    assert groups.maxima(start, values).tolist() == maxima
    assert groups.totals(np.zeros(count, np.int64), values % 1000).tolist() == totals


@pytest.mark.parametrize("each", [True, False])
def test_no_rows_have_no_points(each: bool) -> None:
    none = np.zeros(0, np.int64)
    groups = Groups(none, 0, each, none.astype(np.bool_))
    assert len(groups.maxima(none, none)) == len(groups.totals(none, none)) == len(groups.last) == 0


WINDOWS = st.sampled_from([0, 1, 2, 3, 400_000, 2**50])


@given(st.lists(st.tuples(st.integers(0, 6), WINDOWS)))
def test_groups_of_keys_and_windows_are_in_the_order_of_windows_and_then_of_keys(rows: list[tuple[int, int]]) -> None:
    code = np.array([key for key, _ in rows], np.int64)

    found = by_window(code, 7, np.array([window for _, window in rows], np.int64))

    groups = list(zip(found.key.tolist(), found.window.tolist(), strict=True))
    assert groups == sorted(set(rows), key=lambda row: (row[1], row[0]))
    assert [groups[group] for group in found.code.tolist()] == rows


@given(st.lists(st.sampled_from(["k1", "k2", "key", "", "k\0", None, "a key of more than sixteen bytes"])))
def test_rows_are_grouped_by_texts_of_any_length(texts: list[str | None]) -> None:
    code, first = group_by([pa.array(texts, pa.string())])
    assert [texts[row] for row in first.tolist()] == list(dict.fromkeys(texts))
    assert [texts[first[group]] for group in code.tolist()] == texts


@given(st.lists(st.binary(max_size=3), unique=True))
def test_groups_are_numbered_in_the_order_of_their_keys(keys: list[bytes]) -> None:
    code, first, ordered = sorted_groups(pa.array(keys, pa.binary()))
    assert bytes_of(ordered) == sorted(keys) == [keys[row] for row in first.tolist()]
    assert [bytes_of(ordered)[group] for group in code.tolist()] == keys

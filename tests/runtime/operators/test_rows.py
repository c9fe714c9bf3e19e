"""Rows of one edge."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.engine.execution.rows import Rows

MANY = 5000


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("bare", [True, False])
def test_rows_that_stay_are_the_same_in_every_part_however_many_they_are(share: float, bare: bool) -> None:
    chances = np.random.default_rng(1)
    numbers = np.arange(MANY)
    texts = pa.array([None if number % 7 == 0 else f"t{number}" for number in numbers.tolist()])
    rows = Rows(
        (numbers, numbers % 3),
        (numbers % 4).astype(np.int8),
        numbers * 10,
        numbers * 100,
        None if bare else texts,
        {"k": pa.array(numbers), "v": texts, "l": pa.array([[number] * (number % 3) for number in numbers.tolist()])},
        ("k",),
        ("v", "l"),
        None if bare else texts.cast(pa.binary()),
    )
    mask = chances.random(MANY) < share

    assert shown(rows.filter(mask)) == shown(rows.take(np.flatnonzero(mask)))


def shown(rows: Rows) -> list[object]:
    arrays = [*rows.path, rows.kind, rows.timestamp, rows.order]
    assert [each.dtype.name for each in arrays] == ["int64", "int64", "int8", "int64", "int64"]
    others = [*rows.columns.values(), *(each for each in (rows.headers, rows.state) if each is not None)]
    return [[each.tolist() for each in arrays], [each.to_pylist() for each in others], [*rows.columns], rows.key]

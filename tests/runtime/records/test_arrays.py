from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headwater.runtime.expressions.kernels import Value
from headwater.runtime.records.arrays import check_overflow, pieces_in_order, repeat, row_bytes, too_large

TEXTS = ["", "abc", None, "x" * 40]


@pytest.mark.parametrize(
    ("column", "sizes"),
    [
        (pa.array(TEXTS), [0, 3, 0, 40]),
        (pa.array([b"ab", None, b"", b"c"], pa.binary()), [2, 0, 0, 1]),
        (pa.array([1, 2, None, 4], pa.int32()), [4] * 4),
        (pa.array([TEXTS, None, [], ["ab"]]), [43, 0, 0, 2]),
        (pa.array([{"a": "xyz", "b": 1}, {"a": None, "b": 2}, {}, {"a": "", "b": None}]), [11, 8, 8, 8]),
        (
            pa.array([[("k", "vvv")], None, [], [("a", None), ("bc", "d")]], pa.map_(pa.string(), pa.string())),
            [4, 0, 0, 4],
        ),
    ],
    ids=["texts", "bytes", "numbers", "lists", "objects", "maps"],
)
def test_bytes_of_rows_are_those_of_their_values_also_of_a_part_of_a_column(column: pa.Array, sizes: list[int]) -> None:
    assert row_bytes(column).tolist() == sizes
    assert row_bytes(column[1:3]).tolist() == sizes[1:3]


def test_rows_in_another_order_come_in_pieces_of_few_bytes_wherever_the_large_ones_are() -> None:
    texts = ["x" * (60 if 20 <= row < 26 else 1) for row in range(40)]
    parts = [
        pa.table({"v": texts[first : first + 7], "n": range(first, min(40, first + 7))}) for first in range(0, 40, 7)
    ]
    order = np.argsort([row * 13 % 40 // 8 for row in range(40)], kind="stable")
    order = np.concatenate([order[order < 20], order[order >= 20]])
    pieces = list(pieces_in_order(pa.concat_tables(parts), order, 200))
    assert [row["n"] for table, _ in pieces for row in table.to_pylist()] == order.tolist()
    assert [row["v"] for table, _ in pieces for row in table.to_pylist()] == [texts[row] for row in order]
    assert np.concatenate([rows for _, rows in pieces]).tolist() == order.tolist()
    sizes = [sum(len(row["v"]) + 8 for row in table.to_pylist()) for table, _ in pieces]
    assert max(sizes) <= 200
    assert len(pieces) < 8


def test_row_that_is_larger_than_a_piece_is_one_by_itself() -> None:
    table = pa.table({"v": ["x", "y" * 500, "z"]})
    pieces = [each.column("v").to_pylist() for each, _ in pieces_in_order(table, np.array([2, 1, 0]), 100)]
    assert pieces == [["z"], ["y" * 500], ["x"]]


def test_no_rows_are_no_pieces() -> None:
    assert list(pieces_in_order(pa.table({"v": pa.array([], pa.string())}), np.array([], np.int64), 100)) == []


def test_more_bytes_than_an_array_holds_are_refused_where_arrow_would_make_a_broken_one() -> None:
    text = pa.scalar("x" * (1 << 20))
    for making in (lambda: repeat(text, 3000), lambda: Value(text).array(3000)):
        with pytest.raises(pa.ArrowCapacityError) as raised:
            making()
        assert too_large(raised.value)
    assert repeat(text, 2).to_pylist() == [text.as_py()] * 2
    assert repeat(pa.scalar(None), 3).to_pylist() == [None] * 3
    assert repeat(pa.scalar(["a", None]), 2).to_pylist() == [["a", None]] * 2


def test_column_whose_texts_have_outgrown_it_is_refused() -> None:
    texts = pa.array(["abc", None, "", "de"])
    assert check_overflow(texts[1:]).to_pylist() == [None, "", "de"]
    assert check_overflow(pa.array([], pa.string())).to_pylist() == []
    offsets = pa.py_buffer(np.array([0, 9, 5], np.int32).tobytes())
    with pytest.raises(pa.ArrowCapacityError):
        check_overflow(pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"x" * 9)))


def test_only_errors_of_more_than_an_array_holds_say_that_fewer_rows_may_do() -> None:
    for error in (pa.ArrowInvalid("'x' is no number"), TypeError("no"), ValueError("offset overflow"), KeyError("x")):
        assert not too_large(error)

"""How the difference of two column lists reads."""

from __future__ import annotations

import pytest

from headwater.runtime.records.schema import ColumnChanges


@pytest.mark.parametrize(
    ("was", "is_", "lines"),
    [
        ("a int", "a integer", ()),
        ("a int", "a int, gate string", ("+ gate string",)),
        ("a int, tail string", "a int", ("- tail string",)),
        ("a int", "a double", ("~ a int -> double",)),
        ("a int, b int", "b int, a int", ("~ the order of columns",)),
        ("a int, b int", "b int, c int", ("+ c int", "- a int")),
        ("", "a decimal(10, 2)", ("+ a decimal(10,2)",)),
    ],
)
def test_column_lists_that_differ_give_a_diff(was: str, is_: str, lines: tuple[str, ...]) -> None:
    assert ColumnChanges.between(was, is_).lines == lines

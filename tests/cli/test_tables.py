from __future__ import annotations

from headwater.cli import tables


def test_cells_of_different_widths_are_padded_to_columns() -> None:
    shown = tables.text(("name", "count"), [("a", "1"), ("日本", "1,000")], right=(1,))

    assert shown.splitlines() == ["name  count", "a         1", "日本  1,000"]


def test_cells_with_control_characters_stay_on_their_line() -> None:
    assert tables.text(("a",), [("x\ny\x1b[2J",)]).splitlines() == ["a", "x y\ufffd[2J"]

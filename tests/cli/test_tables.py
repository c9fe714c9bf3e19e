"""Tables as a pipe gets them, and as a terminal shows them."""

from __future__ import annotations

import sys

import pytest

from headwater.cli.printing import tables
from headwater.tests.cli.terminal import on_terminal

PLACES = "0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7 0_8 0_9 0_10 0_11 0_12 0_13 0_14 0_15 0_16 0_17"


def test_cells_of_different_widths_are_padded_to_columns(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("name", "count"), [("a", "1"), ("日本", "1,000")], right=(1,))

    assert capsys.readouterr().out.splitlines() == ["name  count", "a         1", "日本  1,000"]


def test_rows_that_follow_a_printed_header_stay_below_it(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("partition", "key"), [("0", "a")], right=(0,))
    tables.show(("partition", "key"), [("1", "b")], right=(0,), headed=False)

    assert capsys.readouterr().out.splitlines() == ["partition  key", "        0  a", "        1  b"]


def test_cells_with_control_characters_stay_on_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("a",), [("x\ny\x1b[2J",)])

    assert capsys.readouterr().out.splitlines() == ["a", "x y\\x1b[2J"]


def test_pipe_gets_each_row_whole_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert tables.show(("a", "b"), [("x" * 2_000, "y" * 2_000)]) is False

    assert capsys.readouterr().out.splitlines()[1] == "x" * 2_000 + "  " + "y" * 2_000


def shown(header: tuple[str, ...], *rows: tuple[str, ...], **environment: str) -> list[str]:
    """What a terminal of 40 columns shows of a table."""
    code = f"from headwater.cli.printing import tables; print(tables.show({header!r}, {rows!r}))"
    lines = on_terminal([sys.executable, "-c", code], 40, environment).splitlines()
    assert all(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) <= 40 for line in lines), lines
    return [line.rstrip() for line in lines]


def test_terminal_folds_what_does_not_fit() -> None:
    assert shown(("client", "active"), ("c1", PLACES), ("c2", "1_0"), TERM="dumb") == [
        "client active",
        "c1     0_0 0_1 0_2 0_3 0_4 0_5 0_6 0_7",
        "       0_8 0_9 0_10 0_11 0_12 0_13 0_14",
        "       0_15 0_16 0_17",
        "c2     1_0",
        "False",
    ]


def test_terminal_lists_a_row_whose_words_have_no_room() -> None:
    moment = "2024-05-01T08:40:03Z"

    assert shown(("product", "window_start", "window_end"), ("tea", moment, moment), TERM="dumb") == [
        "product       tea",
        f"window_start  {moment}",
        f"window_end    {moment}",
        "False",
    ]


def test_terminal_cuts_a_value_that_would_fill_it() -> None:
    lines = shown(("value",), ("word " * 400,), TERM="dumb")

    assert len(lines) < 10
    assert lines[-2].endswith("…")
    assert lines[-1] == "True"


@pytest.mark.parametrize("variable", [{"TERM": "dumb"}, {"NO_COLOR": "1"}])
def test_terminal_without_styles_gets_none(variable: dict[str, str]) -> None:
    assert "\x1b" not in "\n".join(shown(("name",), ("a",), **variable))
    assert "\x1b[1mname" in "\n".join(shown(("name",), ("a",)))


@pytest.mark.usefixtures("nowhere")
def test_error_is_coloured_on_a_terminal_only() -> None:
    command = [sys.executable, "-m", "headwater.cli.main", "parse"]

    assert "\x1b[1;31merror: \x1b[0mthere is no headwater.yml" in on_terminal(command, 80)
    assert on_terminal(command, 80, {"NO_COLOR": "1"}).startswith("error: there is no headwater.yml")

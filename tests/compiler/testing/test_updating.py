"""`--update` changes the cells and rows that differ, and no other character of a file."""

from __future__ import annotations

import pytest
import yaml

from headwater.compiler.testing.updating import Found, flow_text, updated
from headwater.runtime.records.types import parse_columns
from headwater.runtime.testing.comparing import compared
from headwater.runtime.testing.rows import Cells, Columns

COLUMNS = Columns("out", parse_columns("k string, window_start timestamp"), parse_columns("n int, s string"))

FILE = """\
# before
tests:
  - test: one   # its name
    topology: t
    expect:
      - topic: out
        rows:
          # about a
          - {k: a, n: 1,  s: 'x'}   # one
          - k: b                    # in lines

            n: 2   # two

          - key: {k: c}
            value: {n: 3}
      - dropped: {late: 1}   # behind
# after
"""
A, B, C = {"k": "a", "n": 1, "s": "x"}, {"k": "b", "n": 2}, {"k": "c", "n": 3}


def after(found: list[Cells], text: str = FILE, line: int = 6, expected: list[Cells] | None = None) -> str:
    rows = compared([A, B, C] if expected is None else expected, found, ["k", "window_start"])
    return updated(text, [Found("topic", line, rows, COLUMNS)])


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        ([A, B, C], {}),
        ([{**A, "n": 7}, B, C], {"n: 1,  s": "n: 7,  s"}),
        ([A, {**B, "n": None}, C], {"n: 2   #": "n: null   #"}),
        ([A, B, {**C, "n": 30}], {"{n: 3}": "{n: 30}"}),
        ([{**A, "s": "yes"}, B, C], {"'x'": '"yes"'}),
        ([A, C], {"          - k: b                    # in lines\n\n            n: 2   # two\n": ""}),
        ([A, {"k": "a", "n": 2, "s": "y z"}, B, C], {"# one\n": "# one\n          - {k: a, n: 2, s: y z}\n"}),
        (
            [{"k": "a", "n": 0, "s": "0"}, A, B, C],
            {"          - {k: a, n: 1": '          - {k: a, n: 0, s: "0"}\n          - {k: a, n: 1'},
        ),
        ([A, B, C, {"k": "d", "n": 4, "s": None}], {"{n: 3}\n": "{n: 3}\n          - {k: d, n: 4, s: null}\n"}),
        ([A, B, {"k": "c", "value": None}], {"- key: {k: c}\n            value: {n: 3}\n": "- {k: c, value: null}\n"}),
    ],
)
def test_only_what_differs_is_written(found: list[Cells], changed: dict[str, str]) -> None:
    wanted = FILE
    for before, behind in changed.items():
        assert wanted.count(before) == 1
        wanted = wanted.replace(before, behind)

    assert after(found) == wanted


def test_rows_that_are_gone_leave_an_empty_list() -> None:
    text = after([])

    assert "        rows: []\n      - dropped" in text
    assert yaml.safe_load(text)["tests"][0]["expect"][0]["rows"] == []


@pytest.mark.parametrize("rows", ["rows: []", "rows: [{k: a, n: 1}]", "rows:\n          - {k: a, n: 1}"])
def test_all_columns_of_a_new_row_are_written_where_no_row_names_any(rows: str) -> None:
    text = f"tests:\n  - test: one\n    topology: t\n    expect:\n      - topic: out\n        {rows}\n# end\n"
    expected: list[Cells] = [] if rows.endswith("[]") else [{"k": "a", "n": 1}]
    found: list[Cells] = [{"k": "a", "window_start": 3_600_000, "n": 2, "s": "x"}]

    written = after(found, text, 5, expected)

    (row,) = yaml.safe_load(written)["tests"][0]["expect"][0]["rows"]
    whole = {"k": "a", "window_start": "1970-01-01T01:00:00Z", "n": 2, "s": "x"}
    assert row == (whole if not expected else {"k": "a", "n": 2})
    assert written.endswith("\n# end\n")


def test_time_that_no_calendar_has_is_written_as_a_number() -> None:
    text = "tests:\n  - test: one\n    topology: t\n    expect:\n      - topic: out\n        rows: []\n"
    found: list[Cells] = [{"k": "a", "window_start": 345_600_000_000_000, "n": 2, "s": "x"}]

    (row,) = yaml.safe_load(after(found, text, 5, []))["tests"][0]["expect"][0]["rows"]

    assert row["window_start"] == 345_600_000_000_000


def test_counts_of_dropped_records_are_written() -> None:
    rows = compared([{"late": 1}], [{"late": 4}], [])

    text = updated(FILE, [Found("dropped", 16, rows, Columns("dropped", {}, {}))])

    assert text == FILE.replace("{late: 1}   # behind", "{late: 4}   # behind")


@pytest.mark.parametrize(
    "value",
    [
        "yes",
        "NO",
        "null",
        "",
        " a",
        "a b",
        "1",
        "1e3",
        "a: b",
        "a #b",
        "{x}",
        "a,b",
        "é",
        "a\nb",
        "~",
        "=",
        "-",
        "2024-05-01",
    ],
)
def test_text_is_read_again_as_what_it_was(value: str) -> None:
    assert yaml.safe_load(f"[{flow_text(value)}]") == [value]
    assert yaml.safe_load(f"{{a: {flow_text(value)}}}") == {"a": value}

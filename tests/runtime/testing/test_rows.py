"""Rows of tests, in both forms."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.runtime.records.types import parse_columns
from headwater.runtime.testing.rows import Columns, UnfitRowError, cells_of, record_form, with_time

COLUMNS = Columns(
    "t",
    parse_columns("carrier string, both int") | parse_columns("window_start timestamp"),
    parse_columns("n int, both int, at timestamp, timestamp string"),
)
PLAIN = Columns("t", parse_columns("k string"), parse_columns("v double, d decimal(10,2), tags array<string>, at date"))
ONLY_VALUE = Columns("t", parse_columns("key string"), parse_columns("value string"))


@pytest.mark.parametrize(
    ("row", "record"),
    [
        ({"carrier": "9E", "n": 1}, {"key": {"carrier": "9E"}, "value": {"n": 1}}),
        ({"key.both": 1, "value.both": 2}, {"key": {"both": 1}, "value": {"both": 2}}),
        ({"key": {"carrier": "9E"}, "value": None, "offset": 7}, {"key": {"carrier": "9E"}, "value": None}),
        ({"key": None, "value": {"n": 1}, "partition": 3}, {"key": None, "value": {"n": 1}, "partition": 3}),
        ({"carrier": "9E", "value": None}, {"key": {"carrier": "9E"}, "value": None}),
        ({"n": 1, "timestamp": "text"}, {"value": {"n": 1, "timestamp": "text"}}),
        ({"value": {"n": 1}, "timestamp": "1970-01-01T00:00:02Z"}, {"value": {"n": 1}, "timestamp": 2000}),
        (
            {"carrier": "9E", "window_start": "1970-01-01T01:00:00Z"},
            {"key": {"carrier": "9E", "window_start": 3_600_000}},
        ),
        ({"key": {"window_start": 5}}, {"key": {"window_start": 5}}),
    ],
)
def test_row_in_either_form_comes_in_record_form(row: dict[str, Any], record: dict[str, Any]) -> None:
    assert record_form(COLUMNS, row) == record


def test_columns_called_key_and_value_are_columns() -> None:
    assert record_form(ONLY_VALUE, {"key": "a", "value": None}) == {"key": {"key": "a"}, "value": {"value": None}}


@pytest.mark.parametrize(
    ("row", "path", "cause"),
    [
        ({"carier": "9E"}, ("carier",), "there is no column 'carier' in t"),
        ({"both": 1}, ("both",), "the key and the value of t have a column 'both'"),
        ({"key": {"n": 1}, "value": {}}, ("key", "n"), "there is no column 'n' in the key of t"),
        (
            {"n": 1, "key": {"carrier": "a"}, "value": {}},
            ("n",),
            "the column 'n' stands beside `key` or `value`, which say all columns of theirs",
        ),
        ({"key": {"carrier": "a"}, "valeu": {}}, ("valeu",), "there is no column 'valeu' in t"),
        ({"key": {"carrier": "a"}, "value": 3}, ("value",), "the value is neither columns nor null"),
        ({"carrier": "9E", "n": 1, "value": None}, ("value",), "the row has a value of null and columns of it"),
        ({"value": {"n": 1}, "timestamp": "noon"}, ("timestamp",), "'noon' is no time"),
    ],
)
def test_row_that_names_what_is_not_there_is_refused(row: dict[str, Any], path: tuple[str, ...], cause: str) -> None:
    with pytest.raises(UnfitRowError) as refused:
        record_form(COLUMNS, row)

    assert (refused.value.path, refused.value.cause) == (path, cause)


def test_given_record_without_a_value_is_refused() -> None:
    with pytest.raises(UnfitRowError, match="there is no value"):
        record_form(COLUMNS, {"key": {"carrier": "9E"}}, given=True)


def test_written_values_get_the_form_of_their_type() -> None:
    record = record_form(PLAIN, {"k": "a", "v": 1, "d": 1.5, "tags": ["x"], "at": "2024-05-01"})

    assert cells_of(PLAIN, record, written=True) == {"k": "a", "v": 1.0, "d": "1.50", "tags": ["x"], "at": "2024-05-01"}


@pytest.mark.parametrize(("column", "value"), [("k", 1), ("v", "much"), ("d", 1.555), ("tags", "x"), ("at", 5)])
def test_written_value_of_another_type_is_refused(column: str, value: Any) -> None:
    with pytest.raises(UnfitRowError) as refused:
        cells_of(PLAIN, record_form(PLAIN, {column: value}), written=True)

    assert refused.value.path[-1] == column


def test_null_key_has_null_columns_where_it_was_found() -> None:
    assert cells_of(PLAIN, {"key": None, "value": {"v": 1.0}}) == {"key": None, "k": None, "v": 1.0}


@pytest.mark.parametrize(
    ("record", "ddl", "timed"),
    [
        ({"value": {}}, None, {"value": {}, "timestamp": 86_401_000}),
        ({"value": {}}, "timestamp", {"value": {"at": "1970-01-02T00:00:01Z"}}),
        ({"value": {}}, "date", {"value": {"at": "1970-01-02"}}),
        ({"value": {}}, "bigint", {"value": {"at": 86_401_000}}),
        ({"value": {"at": None}}, "timestamp", {"value": {"at": None}}),
        ({"value": None}, "timestamp", {"value": None, "timestamp": 86_401_000}),
        ({"value": {}, "timestamp": 5}, "timestamp", {"value": {}, "timestamp": 5}),
    ],
)
def test_record_without_a_time_gets_that_of_the_test(record: dict[str, Any], ddl: str | None, timed: Any) -> None:
    kind = None if ddl is None else parse_columns(f"at {ddl}")["at"]

    assert with_time(record, None if ddl is None else "at", kind, 86_401_000) == timed


@pytest.mark.parametrize("ddl", ["timestamp", "date", "bigint"])
def test_time_that_no_calendar_has_stays_a_number(ddl: str) -> None:
    far = 345_600_000_000_000

    assert with_time({"value": {}}, "at", parse_columns(f"at {ddl}")["at"], far) == {"value": {"at": far}}

"""Rows of tests, in both forms."""

from __future__ import annotations

from decimal import Decimal
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
            "the column 'n' stands beside `key` or `value`, which contain all of their columns",
        ),
        ({"key": {"carrier": "a"}, "valeu": {}}, ("valeu",), "there is no column 'valeu' in t"),
        ({"key": {"carrier": "a"}, "value": 3}, ("value",), "the value must be a mapping of columns or null"),
        ({"carrier": "9E", "n": 1, "value": None}, ("value",), "the value is null, but the row has columns of it"),
        ({"value": {"n": 1}, "timestamp": "noon"}, ("timestamp",), "'noon' is no time"),
    ],
)
def test_row_that_names_what_is_not_there_is_refused(row: dict[str, Any], path: tuple[str, ...], cause: str) -> None:
    with pytest.raises(UnfitRowError) as refused:
        record_form(COLUMNS, row)

    assert (refused.value.path, refused.value.cause) == (path, cause)


def test_given_record_without_a_value_is_refused() -> None:
    with pytest.raises(UnfitRowError, match="the value is missing"):
        record_form(COLUMNS, {"key": {"carrier": "9E"}}, given=True)


def test_written_values_get_the_form_of_their_type() -> None:
    record = record_form(PLAIN, {"k": "a", "v": 1, "d": Decimal("1.5"), "tags": ["x"], "at": "2024-05-01"})

    assert cells_of(PLAIN, record, written=True) == {"k": "a", "v": 1.0, "d": "1.50", "tags": ["x"], "at": "2024-05-01"}


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("k", 1),
        ("v", "much"),
        ("v", "5"),
        ("v", Decimal("1e999")),
        ("d", Decimal("1.555")),
        ("tags", "x"),
        ("tags", [Decimal("NaN")]),
        ("at", 5),
    ],
)
def test_written_value_of_another_type_is_refused(column: str, value: Any) -> None:
    with pytest.raises(UnfitRowError) as refused:
        cells_of(PLAIN, record_form(PLAIN, {column: value}), written=True)

    assert refused.value.path[-1] == column


ALL = Columns(
    "t",
    parse_columns("key string, partition int"),
    parse_columns("value double, timestamp bigint, headers string, window_start bigint"),
)
STRUCTS = Columns("t", parse_columns("key struct<a:int>"), parse_columns("value map<string,int>"))


@pytest.mark.parametrize(
    ("columns", "row", "record"),
    [
        (ALL, {"key": {"key": "a"}, "value": None}, {"key": {"key": "a"}, "value": None}),
        (ALL, {"key": {"key": "a"}, "value": {"timestamp": 5}, "timestamp": 7}, None),
        (ALL, {"key": "a", "value": None}, {"key": {"key": "a"}, "value": {"value": None}}),
        (ALL, {"key": None, "value": None}, {"key": {"key": None}, "value": {"value": None}}),
        (ALL, {"key": None, "value": None, "offset": 3}, {"key": None, "value": None}),
        (ALL, {"value": None, "timestamp": 5}, {"value": {"value": None, "timestamp": 5}}),
        (ALL, {"key": {"key": "a"}, "value": 1.5}, {"key": {"key": {"key": "a"}}, "value": {"value": 1.5}}),
        (STRUCTS, {"key": {"a": 1}, "value": {"b": 2}}, {"key": {"key": {"a": 1}}, "value": {"value": {"b": 2}}}),
        (STRUCTS, {"key": {"key": {"a": 1}}, "value": None}, {"key": {"key": {"a": 1}}, "value": None}),
        (STRUCTS, {"key": {}, "value": {}}, {"key": {"key": {}}, "value": {"value": {}}}),
    ],
)
def test_row_that_names_columns_called_as_fields_is_told_from_a_record(
    columns: Columns, row: dict[str, Any], record: dict[str, Any] | None
) -> None:
    assert record_form(columns, row) == (row if record is None else record)


def test_cells_of_columns_and_of_the_record_do_not_hide_each_other() -> None:
    record: dict[str, Any] = {
        "key": {"key": "a", "partition": 7},
        "value": {"value": None, "timestamp": 6000, "headers": "h", "window_start": 5},
        "timestamp": 5000,
        "partition": 0,
        "headers": {},
    }

    cells = cells_of(ALL, record)

    assert cells == {
        **record["key"],
        **record["value"],
        **{f"record.{name}": record[name] for name in ("timestamp", "partition", "headers")},
    }
    assert [name for name in cells if ALL.is_time(name)] == ["record.timestamp"]
    assert not ALL.is_deleted(cells)
    assert ALL.is_deleted(cells_of(ALL, {"key": {"key": "a", "partition": 7}, "value": None}))


@pytest.mark.parametrize(
    ("field", "value", "cause"),
    [
        ("partition", Decimal("0.5"), "0.5 is no partition"),
        ("partition", -1, "-1 is no partition"),
        ("partition", "0", "'0' is no partition"),
        ("partition", True, "True is no partition"),
        ("headers", {"a": 1}, "{'a': 1} is not an object of texts"),
        ("headers", None, "None is not an object of texts"),
    ],
)
def test_field_that_no_record_has_is_refused_where_it_is_expected(field: str, value: Any, cause: str) -> None:
    with pytest.raises(UnfitRowError) as refused:
        cells_of(PLAIN, record_form(PLAIN, {"k": "a", field: value}), written=True)

    assert (refused.value.path, refused.value.cause) == ((field,), cause)


def test_key_that_is_written_looks_as_it_is_found() -> None:
    columns = Columns("t", parse_columns("k double"), {})

    assert str(cells_of(columns, {"key": {"k": Decimal("-0.0")}}, written=True)) == "{'k': 0.0}"


def test_time_with_parts_of_a_millisecond_is_refused() -> None:
    with pytest.raises(UnfitRowError, match="has fractions of a millisecond"):
        record_form(COLUMNS, {"value": {"n": 1}, "timestamp": "1970-01-01T00:00:02.0005Z"})


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
